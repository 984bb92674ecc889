"""Server entries of other programs, converted for `tau mcp add --from`: Claude, Cursor, VS Code, Codex, opencode."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tau.mcp.names import is_server_name

_ENV = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")
_OPENCODE_ENV = re.compile(r"\{env:([A-Za-z_]\w*)\}")
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_WORKSPACE = "${workspaceFolder}"
PASSED = ("type", "command", "args", "env", "cwd", "url", "headers", "timeout", "disabled", "enabled", "description")
# Asks for the name of the variable that replaces an input such as "github-token".
AskVariable = Callable[[str], str]


class NoServers(ValueError):
    """The file contains no servers in a format that is known."""


def import_servers(content: Mapping[str, Any], ask_variable: AskVariable) -> dict[str, dict[str, Any]]:
    """The servers of a file of another program, as entries of `mcpServers`. Raises NoServers."""
    readers: dict[str, Callable[[Mapping[str, Any], AskVariable], dict[str, Any]]] = {
        "mcpServers": _claude,
        "servers": _vscode,
        "mcp_servers": _codex,
        "mcp": _opencode,
    }
    for member, read in readers.items():
        servers = content.get(member)
        if isinstance(servers, Mapping) and member == "mcp" and isinstance(servers.get("servers"), Mapping):
            servers, read = servers["servers"], _vscode  # settings.json of VS Code
        if isinstance(servers, Mapping):
            converted = {
                _server_name(str(name)): read(entry, ask_variable)
                for name, entry in servers.items()
                if isinstance(entry, Mapping)
            }
            return converted
    raise NoServers("it contains no mcpServers, servers, mcp_servers or mcp")


def _server_name(name: str) -> str:
    return name if is_server_name(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:32] or "server"


def _claude(entry: Mapping[str, Any], ask_variable: AskVariable) -> dict[str, Any]:
    return {field: entry[field] for field in PASSED if field in entry}


def _vscode(entry: Mapping[str, Any], ask_variable: AskVariable) -> dict[str, Any]:
    def convert(text: str) -> str:
        text = _ENV.sub(r"${\1}", text).replace(_WORKSPACE, ".")
        return _INPUT.sub(lambda match: f"${{{ask_variable(match[1])}}}", text)

    return {field: _mapped(entry[field], convert) for field in PASSED if field in entry}


def _codex(entry: Mapping[str, Any], ask_variable: AskVariable) -> dict[str, Any]:
    result = {field: entry[field] for field in ("command", "args", "env", "cwd", "url", "enabled") if field in entry}
    headers = _object(entry.get("http_headers"))
    headers |= {name: f"${{{variable}}}" for name, variable in _object(entry.get("env_http_headers")).items()}
    if variable := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if headers:
        result["headers"] = headers
    for theirs, ours in (("startup_timeout_sec", "startupTimeout"), ("tool_timeout_sec", "timeout")):
        if theirs in entry:
            result[ours] = entry[theirs]
    tools: dict[str, str] = {str(name): "hidden" for name in _list(entry.get("disabled_tools"))}
    if enabled := _list(entry.get("enabled_tools")):
        tools |= {str(name): "auto" for name in enabled} | {"*": "hidden"}
    if tools:
        result["toolExposure"] = tools
    return result


def _opencode(entry: Mapping[str, Any], ask_variable: AskVariable) -> dict[str, Any]:
    def convert(text: str) -> str:
        return _OPENCODE_ENV.sub(r"${\1}", text)

    result: dict[str, Any] = {}
    command = entry.get("command")
    if isinstance(command, list) and command:
        result = {"command": command[0], "args": command[1:]}
    for theirs, ours in (("environment", "env"), ("url", "url"), ("headers", "headers"), ("enabled", "enabled")):
        if theirs in entry:
            result[ours] = entry[theirs]
    mapped = _mapped(result, convert)
    assert isinstance(mapped, dict)
    return mapped


def _object(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapped(value: Any, convert: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, list):
        return [_mapped(item, convert) for item in value]
    if isinstance(value, Mapping):
        return {name: _mapped(item, convert) for name, item in value.items()}
    return value
