"""Frontmatter: the fields between two lines of `---` at the head of a Markdown file, and the text after it.

Every scalar stays text. A description of `no` is a word and not a falsehood, and a
date is what somebody wrote; who wants a truth value asks `says_yes`.

Nearly all of these files have plain `key: value` lines, which are read here: to
load YAML costs more than to start everything else. What is loaded then is asked
for the depth of the text first, because its parser in C ends the process on
brackets that are nested deeply enough.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

DEEPEST = 16
LONGEST = 64 * 1024  # characters of fields

_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_LINE = re.compile(r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?")
# Values whose meaning takes no grammar: quoted without escapes, or beginning with nothing that YAML gives a meaning to.
_DOUBLE = re.compile(r'"([^"\\]*)"')
_SINGLE = re.compile(r"'([^']*)'")
_PLAIN = re.compile(r"(?![-?:,\[\]{}#&*!|>'\"%@`])(?:(?!:(?:[ \t]|$)|[ \t]#).)+")


class BadFrontmatter(ValueError):
    """Fields that cannot be read. The text says why."""


class Page(NamedTuple):
    fields: dict[str, Any]  # what is nested is lists and dicts of texts
    body: str


def page(text: str) -> Page:
    """Raises BadFrontmatter. Line ends become LF; the body of a text with fields has no blank margins."""
    head, body = split(text)
    return Page(fields(head), body)


def split(text: str) -> tuple[str, str]:
    """The text of the fields, and the body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    first = _FENCE.match(text)
    last = _FENCE.search(text, first.end()) if first else None
    if first is None or last is None:
        return "", text
    return text[first.end() + 1 : last.start()].rstrip("\n"), text[last.end() :].strip()


def fields(head: str) -> dict[str, Any]:
    if len(head) > LONGEST:
        raise BadFrontmatter(f"the fields have more than {LONGEST} characters")
    plain = _plain(head)
    return _yaml(head) if plain is None else plain


def says_yes(value: object) -> bool:
    return value in ("true", "True", "TRUE")


def _plain(head: str) -> dict[str, Any] | None:
    """None for whatever is more than plain lines."""
    found: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None or match[1] in found:
            return None
        value = match[2] or ""
        quoted = _DOUBLE.fullmatch(value) or _SINGLE.fullmatch(value)
        if value and not quoted and not _PLAIN.fullmatch(value):
            return None
        found[match[1]] = quoted[1] if quoted else value
    # An indented line after this one would go on with the value; it did not match above.
    return found


def _yaml(head: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    depth = 0
    try:
        for event in yaml.parse(head, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise BadFrontmatter(f"the fields are nested more than {DEEPEST} deep")
            if isinstance(event, yaml.AliasEvent):
                raise BadFrontmatter("the fields refer to each other (*), which is not read here")
        read = yaml.load(head, Loader=loader)
    except yaml.YAMLError as error:
        raise BadFrontmatter(_told(error)) from None
    if read in (None, ""):
        return {}
    if not isinstance(read, dict):
        raise BadFrontmatter("the fields are no `key: value` lines")
    return read


def _told(error: Exception) -> str:
    problem = getattr(error, "problem", None) or "no YAML"
    mark = getattr(error, "problem_mark", None)
    # The fence is the file's first line.
    return f"line {mark.line + 2}: {problem}" if mark else str(problem)
