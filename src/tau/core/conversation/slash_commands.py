"""Expansion of slash commands: `/name words` (prompt templates) and `/skill:name words`.

A template is text with placeholders for arguments. They are filled in one pass: inserted text is never expanded
again, so an argument may itself contain `$1`. The text of a skill is wrapped, so that the model knows where its other
files are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from tau.records.base import Value

Scope = Literal["user", "project", "temporary"]


class ResourceOrigin(Value):
    """The source of a template or a skill."""

    scope: Scope  # temporary: named on the command line, or by an extension
    source: str  # auto: found in its usual folder; local: named in settings; cli; extension:NAME
    base: str | None = None  # the folder it belongs to
    packaged: bool = False  # a package brings it; `source` is that of the package

    @property
    def location(self) -> Literal["user", "project", "path"]:
        return "path" if self.source != "auto" or self.scope == "temporary" else self.scope


class Template(Value):
    name: str
    description: str
    hint: str  # names of its arguments; may be empty
    body: str
    path: str
    origin: ResourceOrigin


class Skill(Value):
    name: str
    description: str
    path: str
    folder: str
    hidden: bool  # not listed for the model: only the user calls it
    origin: ResourceOrigin


SKILL_PREFIX = "skill:"
# Compiled when they are first used: most prompts are not commands.
_CALL = r"(?s)/(\S+)\s*(.*)"
_WORD = r"""(?:[^\s"']|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))+"""
_QUOTED = r""""([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)"""
_PLACEHOLDER = (
    r"\$(?:(?P<all>@|ARGUMENTS)|(?P<at>[0-9]+)"
    r"|\{@:(?P<start>[0-9]+)(?::(?P<length>[0-9]+))?\}"
    r"|\{(?:(?P<maybe>[0-9]+)|(?:@|ARGUMENTS)):-(?P<default>[^}]*)\})"
)
_TOO_MANY = 1_000_000
_XML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"})


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Split `/name rest` into the name and the rest; None if the text is not a slash command."""
    match = re.fullmatch(_CALL, text)
    return (match[1], match[2].strip()) if match else None


def split_arguments(text: str) -> list[str]:
    """Split words at whitespace. Quotes of either kind keep whitespace together; there is no escape character."""
    return [re.sub(_QUOTED, lambda quoted: quoted[1] or quoted[2] or "", word) for word in re.findall(_WORD, text)]


def fill_template(body: str, arguments: Sequence[str]) -> str:
    """Fill a template: $1, $@ or $ARGUMENTS, ${@:2}, ${@:2:1}, ${1:-default}, ${@:-default}."""

    def value(place: re.Match[str]) -> str:
        if place["all"]:
            return " ".join(arguments)
        if place["at"]:
            return _argument(arguments, place["at"])
        if place["start"]:
            start = max(_number(place["start"]) - 1, 0)
            return " ".join(arguments[start : start + _number(place["length"]) if place["length"] else None])
        argument = _argument(arguments, place["maybe"]) if place["maybe"] else " ".join(arguments)
        return argument or place["default"]

    return re.sub(_PLACEHOLDER, value, body)


def skill_block(skill: Skill, body: str, rest: str) -> str:
    opening = f'<skill name="{escape_xml(skill.name)}" location="{escape_xml(skill.path)}">'
    block = f"{opening}\nReferences are relative to {skill.folder}.\n\n{body.strip()}\n</skill>"
    return f"{block}\n\n{rest}" if rest else block


def escape_xml(text: str) -> str:
    return text.translate(_XML_ESCAPES)


def _argument(arguments: Sequence[str], digits: str) -> str:
    number = _number(digits)
    return arguments[number - 1] if 0 < number <= len(arguments) else ""


def _number(digits: str) -> int:
    """Python refuses to convert numbers with very many digits; there are never that many arguments."""
    return int(digits) if len(digits) < 7 else _TOO_MANY
