"""How a tool call is shown: its kind, its title, the files that it is about, and its content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tau.acp.diffs import diffs_of_patch
from tau.acp.updates import Contained, ImageContent, Location, TextContent, ToolContent, ToolKind
from tau.core.checks.permissions import named
from tau.core.text.terminal_text import escape_hidden
from tau.errors import ToolError
from tau.records.base import UNSET, UnsetType
from tau.records.messages import Image, Text
from tau.tools.paths import resolve

MAX_TITLE = 120  # characters
_BACKTICKS = re.compile("`+")
MAX_PROGRESS_BYTES = 8 * 1024  # of the output of a call while it runs


class View(NamedTuple):
    kind: ToolKind
    title: str
    locations: list[Location]


def view_of(tool: str, arguments: Mapping[str, Any], cwd: str, label: str = "", kind: ToolKind = "other") -> View:
    """The view of a call. `label` and `kind` are for tools that are not built in."""
    view = _BUILT_IN.get(tool)
    if view is None:
        return View(kind, shown(label or tool), [Location(path) for path in _mentioned(tool, arguments, cwd)])
    return view(arguments, cwd)


def shown(text: str) -> str:
    """One line of text, of limited length, with invisible characters spelled out."""
    first = text.strip().partition("\n")[0]
    cut = first[: MAX_TITLE - 1] + "…" if len(first) > MAX_TITLE else first
    return escape_hidden(cut, "\t") or "(empty)"


def content_of(blocks: Sequence[Text | Image]) -> list[ToolContent]:
    return [
        Contained(TextContent(block.text) if isinstance(block, Text) else ImageContent(block.data, block.mime_type))
        for block in blocks
    ]


def command_output(blocks: Sequence[Text | Image]) -> list[ToolContent]:
    """Output of a command: text in a fenced block."""
    text = "".join(block.text for block in blocks if isinstance(block, Text))
    return [Contained(TextContent(fenced(text)))]


def fenced(text: str, language: str = "") -> str:
    """Text in a Markdown code block, with a fence that does not occur in it."""
    fence = "`" * max(3, max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def tail_of(text: str) -> str:
    """The last part of output that is still growing."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= MAX_PROGRESS_BYTES else data[-MAX_PROGRESS_BYTES:].decode("utf-8", "ignore")


def stored_diffs(tool: str, arguments: Mapping[str, Any], details: Any, cwd: str) -> list[ToolContent]:
    """The diff that the details of an edit contain, for calls of an earlier process."""
    patch, path = (details.get("patch"), arguments.get("path")) if isinstance(details, dict) else (None, None)
    if tool != "edit" or not isinstance(patch, str) or not isinstance(path, str):
        return []
    return [*diffs_of_patch(absolute(path, cwd), patch)]


def absolute(path: str, cwd: str) -> str:
    try:
        return resolve(path, cwd)
    except ToolError:
        return os.path.join(cwd, path)


def _read(arguments: Mapping[str, Any], cwd: str) -> View:
    path, offset, limit = _text(arguments, "path"), _number(arguments, "offset"), _number(arguments, "limit")
    lines = ""
    if limit is not None:
        lines = f" (lines {offset or 1}\N{EN DASH}{(offset or 1) + limit - 1})"
    elif offset is not None:
        lines = f" (from line {offset})"
    return View("read", f"Read `{shown(path)}`{lines}", _place(path, cwd, UNSET if offset is None else offset))


def _edit(arguments: Mapping[str, Any], cwd: str) -> View:
    path = _text(arguments, "path")
    return View("edit", f"Edit `{shown(path)}`", _place(path, cwd))


def _write(arguments: Mapping[str, Any], cwd: str) -> View:
    path = _text(arguments, "path")
    return View("edit", f"Write `{shown(path)}`", _place(path, cwd))


def _bash(arguments: Mapping[str, Any], cwd: str) -> View:
    return View("execute", shown(_text(arguments, "command")), [])


def _search(arguments: Mapping[str, Any], cwd: str) -> View:
    path = _text(arguments, "path")
    where = f" in {shown(path)}" if path else ""
    return View("search", f"Search `{shown(_text(arguments, 'pattern'))}`{where}", _place(path or ".", cwd))


def _list(arguments: Mapping[str, Any], cwd: str) -> View:
    path = _text(arguments, "path") or "."
    return View("search", f"List `{shown(path)}`", _place(path, cwd))


_BUILT_IN: dict[str, Callable[[Mapping[str, Any], str], View]] = {
    "read": _read,
    "edit": _edit,
    "write": _write,
    "bash": _bash,
    "grep": _search,
    "find": _search,
    "ls": _list,
}


def _place(path: str, cwd: str, line: int | UnsetType = UNSET) -> list[Location]:
    return [Location(absolute(path, cwd), line)] if path else []


def _mentioned(tool: str, arguments: Mapping[str, Any], cwd: str) -> list[str]:
    """The paths that a call names, as permissions find them."""
    try:
        paths = named(tool, arguments).paths
    except (TypeError, ValueError, RecursionError):
        return []
    return list(dict.fromkeys(absolute(path, cwd) for path in paths if "://" not in path))


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31 else None
