"""Frontmatter: the fields between two `---` lines at the head of a Markdown file, and the body after it.

Every scalar stays text: a description of `no` is a word and not a boolean, and a date is not parsed. Use `is_true`
for booleans.

Nearly all files have plain `key: value` lines, which are parsed here: loading YAML costs more than the rest of the
start-up. Before YAML loads a text, its nesting depth is checked, because the C parser crashes the process on deeply
nested brackets.
"""

# Without `from __future__ import annotations`: NamedTuple would compile every annotation.
import re
from typing import Any, NamedTuple

MAX_DEPTH = 16
MAX_CHARACTERS = 64 * 1024  # characters of the fields

_FENCE = r"(?m)^---[ \t]*$"
_LINE = r"([A-Za-z_][\w-]*):(?:[ \t]+(.*))?"
# Values that need no YAML parser: quoted without escapes, or not starting with a YAML indicator.
_DOUBLE = r'"([^"\\]*)"'
_SINGLE = r"'([^']*)'"
_PLAIN = r"(?![-?:,\[\]{}#&*!|>'\"%@`])(?:(?!:(?:[ \t]|$)|[ \t]#).)+"


class BadFrontmatter(ValueError):
    """Fields that cannot be parsed. The text says why."""


class Page(NamedTuple):
    fields: dict[str, Any]  # nested values are lists and dicts of strings
    body: str


def parse_page(text: str) -> Page:
    """Parse a file. Raises BadFrontmatter. Line endings become LF; a body after fields is stripped."""
    head, body = split_page(text)
    return Page(parse_fields(head), body)


def split_page(text: str) -> tuple[str, str]:
    """Split a file into the text of the fields and the body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    first = re.match(_FENCE, text)
    last = re.compile(_FENCE).search(text, first.end()) if first else None
    if first is None or last is None:
        return "", text
    return text[first.end() + 1 : last.start()].rstrip("\n"), text[last.end() :].strip()


def parse_fields(head: str) -> dict[str, Any]:
    if len(head) > MAX_CHARACTERS:
        raise BadFrontmatter(f"the fields have more than {MAX_CHARACTERS} characters")
    plain = _plain(head)
    return _yaml(head) if plain is None else plain


def is_true(value: object) -> bool:
    return value in ("true", "True", "TRUE")


def _plain(head: str) -> dict[str, Any] | None:
    """Parse plain lines; None for everything else."""
    found: dict[str, Any] = {}
    for line in head.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(_LINE, line.rstrip())
        if match is None or match[1] in found:
            return None
        value = match[2] or ""
        quoted = re.fullmatch(_DOUBLE, value) or re.fullmatch(_SINGLE, value)
        if value and not quoted and not re.fullmatch(_PLAIN, value):
            return None
        found[match[1]] = quoted[1] if quoted else value
    # An indented continuation line cannot be missed: it does not match above.
    return found


def _yaml(head: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    depth = 0
    try:
        for event in yaml.parse(head, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise BadFrontmatter(f"the fields are nested more than {MAX_DEPTH} deep")
            if isinstance(event, yaml.AliasEvent):
                raise BadFrontmatter("YAML aliases (*) are not supported")
        value = yaml.load(head, Loader=loader)
    except yaml.YAMLError as error:
        raise BadFrontmatter(_yaml_problem(error)) from None
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        raise BadFrontmatter("the fields are not `key: value` lines")
    return value


def _yaml_problem(error: Exception) -> str:
    problem = getattr(error, "problem", None) or "not valid YAML"
    mark = getattr(error, "problem_mark", None)
    # The fence is the first line of the file.
    return f"line {mark.line + 2}: {problem}" if mark else str(problem)
