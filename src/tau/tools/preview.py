"""What a call of edit or write would change, computed before it runs, for the person who decides about the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tau.core.text.diff import changes, render_diff, split_lines
from tau.core.text.editing import apply_edits, replace_lone_surrogates
from tau.core.text.truncate import format_size
from tau.errors import ToolError
from tau.tools.edit import edits_of
from tau.tools.paths import resolve, resolve_existing
from tau.tools.read import existence_test, read_chunks

if TYPE_CHECKING:
    from tau.tools import Files

MAX_PREVIEW_BYTES = 1024 * 1024
NOTE = "! "  # begins a text that is returned instead of a diff


def preview_change(tool: str, arguments: Mapping[str, Any], cwd: str, files: Files) -> str:
    """Return the diff, in the format of the edit tool; "" for other tools. Never raises, and blocks.

    For a call that would fail, or a file that is too large, it is a text that begins with NOTE.
    """
    preview = _PREVIEWS.get(tool)
    if preview is None:
        return ""
    try:
        return preview(arguments, cwd, files)
    except ToolError as error:
        return f"{NOTE}{error}"
    except (KeyError, TypeError, ValueError, AttributeError):  # an extension's tool of the same name
        return ""


class FileChange(NamedTuple):
    """`before` is None for a new file."""

    path: str
    before: bytes | None
    after: bytes


def file_change(tool: str, arguments: Mapping[str, Any], cwd: str, files: Files) -> FileChange | None:
    """Return the contents before and after a call. None for other tools, a call that would fail and a large file.

    Never raises, and blocks.
    """
    try:
        if tool == "edit":
            path, before = _edited_file(arguments["path"], cwd, files)
            return FileChange(path, before, apply_edits(before, edits_of(dict(arguments)), arguments["path"]).data)
        return _written(arguments, cwd, files) if tool == "write" else None
    except (ToolError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _edit(arguments: Mapping[str, Any], cwd: str, files: Files) -> str:
    name = arguments["path"]
    _, before = _edited_file(name, cwd, files)
    return apply_edits(before, edits_of(dict(arguments)), name).diff


def _edited_file(name: str, cwd: str, files: Files) -> tuple[str, bytes]:
    path = resolve_existing(name, cwd, existence_test(files))
    if files.kind(path) is None:
        raise ToolError(f"File not found: {name}")
    return path, _content(files, path)


def _write(arguments: Mapping[str, Any], cwd: str, files: Files) -> str:
    change = _written(arguments, cwd, files)
    old, new = split_lines(change.before or b""), split_lines(change.after)
    found = changes(old, new)
    return render_diff(old, new, found) if found else f"{NOTE}The file does not change."


def _written(arguments: Mapping[str, Any], cwd: str, files: Files) -> FileChange:
    path = resolve(arguments["path"], cwd)
    after = replace_lone_surrogates(arguments["content"]).encode()
    if len(after) > MAX_PREVIEW_BYTES:
        raise ToolError(f"The new content has {format_size(len(after))}, too much to show.")
    return FileChange(path, _content(files, path) if files.kind(path) is not None else None, after)


def _content(files: Files, path: str) -> bytes:
    data = bytearray()
    with files.open(path) as file:
        for chunk in read_chunks(file, lambda: False):
            data += chunk
            if len(data) > MAX_PREVIEW_BYTES:
                raise ToolError(f"The file is larger than {format_size(MAX_PREVIEW_BYTES)}: the change is not shown.")
    return bytes(data)


_PREVIEWS: dict[str, Callable[[Mapping[str, Any], str, Files], str]] = {"edit": _edit, "write": _write}
