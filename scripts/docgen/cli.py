"""Tables of docs/cli.md and docs/json-mode.md: flags, exit codes, and the result of JSON mode."""

from __future__ import annotations

from collections.abc import Callable

from docgen.tables import field_table, paragraphs, table
from docgen.words import sentences
from tau.cli.flags import GROUPS, Flag
from tau.core.checks.exit_codes import EXIT_CODES, JSON_CODES
from tau.records.replies import Result


def flags() -> str:
    parts = []
    for title, group in GROUPS.items():
        if title:
            parts += [f"### {title.capitalize()}", table(("flag", "value", "meaning"), map(_row, group))]
    ignored = ", ".join(_dashed(flag.name) for flag in GROUPS[""])
    return paragraphs(
        *parts,
        "### Without effect",
        f"Accepted and ignored, because clients of other versions pass them: {ignored}.",
    )


def _row(flag: Flag) -> tuple[str, str, str]:
    names = f"`--{flag.name}`" + (f", `-{flag.short}`" if flag.short else "")
    return names, flag.value and f"`{flag.value}`", flag.help.replace("*", "`*`")


def _dashed(name: str) -> str:
    return f"`{'-' if len(name) == 1 else '--'}{name}`"


def exits() -> str:
    rows = [(str(code), meaning, JSON_CODES[code]) for code, meaning in EXIT_CODES.items()]
    return table(("code", "meaning", "in JSON mode, as pi"), rows)


def result() -> str:
    text = paragraphs(sentences(Result), field_table(Result, "by tau"))
    return text.replace("](#", "](protocol.md#")


TABLES: dict[str, Callable[[], str]] = {"flags": flags, "exits": exits}
JSON_TABLES: dict[str, Callable[[], str]] = {"result": result}
