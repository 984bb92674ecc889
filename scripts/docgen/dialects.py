"""Tables of docs/dialects.md, made from the definitions of the dialects."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from docgen.tables import table, tag
from tau.wire.dialect import COMMANDS, EVENTS
from tau.wire.dialects import Dialect, all_dialects


def list_of_dialects() -> str:
    rows = [(f"`{one.name}`", f"`{one.pi}`", one.about) for one in all_dialects()]
    return table(("dialect", "`pi --version`", "description"), rows)


def events() -> str:
    rows = [(f"`{tag(kind)}`", *(_form(one, kind) for one in all_dialects())) for kind in EVENTS]
    return table(("event", *(f"`{one.name}`" for one in all_dialects())), rows)


def _form(dialect: Dialect, kind: Any) -> str:
    form = dialect.events.get(kind)
    if form is None:
        return "yes"
    if not form.makes:
        return "no"
    return ", ".join(_difference(kind, made) for made in form.makes)


def _difference(kind: Any, made: Any) -> str:
    if tag(made) != tag(kind):
        return f"`{tag(made)}`"
    fewer = [f"`{name}`" for name in _names(kind) if name not in _names(made)]
    return f"without {', '.join(fewer)}" if fewer else "yes"


def _names(kind: Any) -> list[str]:
    return list(kind.__struct_encode_fields__)


def commands() -> str:
    rows = []
    for name in COMMANDS:
        row = ["yes" if one.command_type(name) else "no" for one in all_dialects()]
        if "no" in row:
            rows.append((f"`{name}`", *row))
    older = sorted({name for one in all_dialects() for name in one.names})
    rows += [(f"`{name}`", *("yes" if one.command_type(name) else "no" for one in all_dialects())) for name in older]
    return table(("command", *(f"`{one.name}`" for one in all_dialects())), rows)


def details() -> str:
    rows: list[tuple[str, Callable[[Dialect], bool]]] = [
        ("`message_update` contains the message so far", lambda one: one.snapshots),
        ("`message_update` contains `usage`", lambda one: one.usage),
        ("`toolcall_start` contains the id and the name of the tool", lambda one: one.tool_names),
        ("commands get responses", lambda one: one.responses),
        ("JSON mode begins with the session header", lambda one: one.session_line),
    ]
    return table(
        ("", *(f"`{one.name}`" for one in all_dialects())),
        [(what, *("yes" if has(one) else "no" for one in all_dialects())) for what, has in rows],
    )


def defaults() -> str:
    rows = [
        (f"`{one.name}`", ", ".join(f"`{key}`: `{json.dumps(value)}`" for key, value in one.defaults.items()))
        for one in all_dialects()
        if one.defaults
    ]
    return table(("dialect", "default settings"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "dialects": list_of_dialects,
    "events": events,
    "commands": commands,
    "details": details,
    "defaults": defaults,
}
