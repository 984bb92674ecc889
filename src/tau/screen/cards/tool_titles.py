"""Titles of tool calls: what is called on what, also while the arguments still arrive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from tau.screen.lines import Line, Span
from tau.screen.safe_text import clean_text, one_line

SHOWN_FIELDS = ("command", "path", "file_path", "pattern")  # of arguments that still arrive
MAX_ARRIVING = 8_000  # characters of the arguments in which they are searched
MAX_ARGUMENT = 200  # characters of one argument in the title of a tool that is not known here

Arguments = Mapping[str, Any]


def title_lines(name: str, arguments: Arguments, cwd: str = "") -> list[Line]:
    """The title, not wrapped. A command may have several lines. Paths below `cwd` are shown relative to it."""
    if name == "bash":
        return _command(arguments)
    if cwd and isinstance(path := arguments.get("path"), str) and path.startswith(f"{cwd}/") and name in _TITLES:
        arguments = {**arguments, "path": path[len(cwd) + 1 :]}
    title = _TITLES.get(name)
    rest = title(arguments) if title else _unknown(arguments)
    return [(Span(one_line(name, 100), "toolTitle bold"), *rest)]


def _command(arguments: Arguments) -> list[Line]:
    first, *others = clean_text(_text(arguments, "command")).strip("\n").split("\n")
    limit = arguments.get("timeout")
    after = (Span(f" (timeout {limit:g}s)", "muted"),) if isinstance(limit, int | float) else ()
    lines: list[Line] = [(Span("$ ", "toolTitle bold"), Span(first, "toolTitle"))]
    lines += [(Span(line, "toolTitle"),) for line in others]
    return [*lines[:-1], (*lines[-1], *after)]


def _text(arguments: Arguments, *names: str) -> str:
    return next((value for name in names if isinstance(value := arguments.get(name), str)), "")


def _path(arguments: Arguments) -> Line:
    path = one_line(_text(arguments, "path", "file_path"))
    return (Span(f" {path}", "accent"),) if path else ()


def _read(arguments: Arguments) -> Line:
    offset, limit = arguments.get("offset"), arguments.get("limit")
    if not isinstance(offset, int | float) and not isinstance(limit, int | float):
        return _path(arguments)
    start = int(offset) if isinstance(offset, int | float) and offset == offset and abs(offset) < 1e15 else 1
    end = f"-{start + int(limit) - 1}" if isinstance(limit, int | float) and 0 < limit < 1e15 else ""
    return (*_path(arguments), Span(f":{start}{end}", "warning"))


def _search(arguments: Arguments) -> Line:
    pattern = one_line(_text(arguments, "pattern"), 500)
    line: Line = (Span(f" {pattern}", "accent"),) if pattern else ()
    if path := one_line(_text(arguments, "path")):
        line += (Span(f" in {path}", "toolOutput"),)
    if files := one_line(_text(arguments, "glob"), 200):
        line += (Span(f" ({files})", "toolOutput"),)
    return line


def _unknown(arguments: Arguments) -> Line:
    parts = []
    for name, value in list(arguments.items())[:6]:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)[:1000]
        shown = one_line(text, MAX_ARGUMENT + 1)
        parts.append(f"{one_line(str(name), 60)}={shown if len(shown) <= MAX_ARGUMENT else shown[:MAX_ARGUMENT] + '…'}")
    return (Span(" " + " ".join(parts), "toolOutput"),) if parts else ()


_TITLES: dict[str, Callable[[Arguments], Line]] = {
    "read": _read,
    "write": _path,
    "edit": _path,
    "ls": _path,
    "find": _search,
    "grep": _search,
}

_FIELD = r'"(%s)"\s*:\s*"((?:[^"\\]|\\.)*)'


def arriving_arguments(text: str) -> dict[str, str]:
    """The fields of SHOWN_FIELDS in JSON text that is not complete."""
    found = re.findall(_FIELD % "|".join(SHOWN_FIELDS), text[:MAX_ARRIVING], re.DOTALL)
    shown: dict[str, str] = {}
    for name, value in found:
        shown.setdefault(name, _unescaped(value))
    return shown


def _unescaped(text: str) -> str:
    """The value of a JSON string, as far as it is complete."""
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        cut = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", text)
        try:
            value = json.loads(f'"{cut}"', strict=False)
        except ValueError:
            value = cut
    return str(value)
