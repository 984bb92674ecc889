"""Configuration files of MCP servers: where they are, reading them, and changing the user's.

Files of a project are read only if it is trusted, and then only the bytes that were trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.records.base import BadRecord, Value, parse
from tau.store.files import locked, make_folder, read_small, replace_file
from tau.store.trust import MCP_FILE
from tau.store.trusted_files import read_bound
from tau.wire.comments import strip_comments
from tau.wire.json_edit import remove_member, set_members
from tau.wire.position import line_in, line_of

BOM = b"\xef\xbb\xbf"
USER_FILE = "mcp.json"
Scope = Literal["user", "project", "given"]


class McpFile(Value):
    """A file that was read: `servers` is its `mcpServers`, `text` is the file as strict JSON."""

    path: str
    scope: Scope
    servers: Mapping[str, Any]
    allowed: Sequence[str] = ()  # `allowProjectServers`
    text: str = ""

    def location(self, place: str) -> str:
        """The file and the line of a place such as `mcpServers.files.command`."""
        return f"{self.path}:{line_of(self.text, place)}" if self.text else self.path


def project_files(cwd: Path) -> list[Path]:
    """The files of a project, the one that wins last."""
    return [cwd / MCP_FILE, cwd / ".pi" / USER_FILE]


def read_mcp_file(
    path: Path, scope: Scope, bound: Mapping[str, str] | None = None
) -> tuple[McpFile | None, str | None]:
    """The servers of a file, and what is wrong with it. Both are None if there is no such file."""
    try:
        data = read_bound(path, bound).removeprefix(BOM)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path} cannot be read: {error.strerror or error}."
    if not data.strip():
        return None, None
    try:
        text = strip_comments(data.decode())
        content = parse(text.encode())
    except UnicodeDecodeError:
        return None, f"{path} is not valid UTF-8."
    except BadRecord as error:
        return None, f"{path}:{line_in(str(error))} is not valid JSON: {error}. The file is ignored."
    servers = content.get("mcpServers", {}) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        return None, f"{path}: mcpServers must be an object. The file is ignored."
    allowed = content.get("allowProjectServers", [])
    names = [str(name) for name in allowed] if isinstance(allowed, list) else []
    return McpFile(str(path), scope, servers, names, text), None


def set_server(path: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Add or replace a server. Comments and the rest of the file stay. Raises BadRecord or OSError."""
    with locked(path):
        text = _editable(path)
        replace_file(path, set_members(text, {"mcpServers": {name: entry}}).encode())


def remove_server(path: Path, name: str) -> bool:
    """False if there is no such server. Raises BadRecord or OSError."""
    with locked(path):
        text = _editable(path)
        changed = remove_member(text, ("mcpServers", name))
        if changed != text:
            replace_file(path, changed.encode())
        return changed != text


def _editable(path: Path) -> str:
    """The text of a file that can be changed. Raises BadRecord."""
    make_folder(path.parent)
    try:
        text = read_small(path).removeprefix(BOM).decode()
    except FileNotFoundError:
        return "{}\n"
    except UnicodeDecodeError:
        raise BadRecord(f"{path} is not valid UTF-8; correct it first.") from None
    if not text.strip():
        return "{}\n"
    try:
        content = parse(strip_comments(text).encode())
    except BadRecord as error:
        raise BadRecord(f"{path} is not valid JSON: {error}; correct it first.") from None
    if not isinstance(content, dict) or not isinstance(content.get("mcpServers", {}), dict):
        raise BadRecord(f"{path}: mcpServers must be an object; correct it first.")
    return text
