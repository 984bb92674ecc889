"""MCP servers of a client as entries of `mcp.json`. Pure.

In an entry, `${NAME}` is a variable and a leading `!` a command. The values of a client are literal, so both are
written as variables that are never set, with the character as their default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tau.acp.errors import invalid_params
from tau.acp.requests import McpServer, NameValue

MAX_NAME = 32
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def mcp_entries(servers: Sequence[McpServer]) -> dict[str, dict[str, Any]]:
    """The entries by name. Raises AcpError for a server that cannot be used."""
    entries: dict[str, dict[str, Any]] = {}
    for at, server in enumerate(servers):
        where = f"mcpServers[{at}]"
        if server.type == "stdio":
            if not server.command:
                raise invalid_params(f"{where}.command", "missing")
            entry = {
                "type": "stdio",
                "command": literal(server.command),
                "args": [literal(argument) for argument in server.args],
                "env": _values(server.env),
            }
        else:
            if not server.url:
                raise invalid_params(f"{where}.url", "missing")
            entry = {"type": server.type, "url": literal(server.url), "headers": _values(server.headers)}
        # The client wants them now, and wants to know which of them do not work.
        entries[_free_name(server.name, entries)] = {**entry, "eager": True}
    return entries


def literal(text: str) -> str:
    """Text that expands to itself."""
    quoted = text.replace("${", "${TAU_DOLLAR_SIGN:-$}{")
    return "${TAU_EXCLAMATION_MARK:-!}" + quoted[1:] if quoted.startswith("!") else quoted


def _values(given: Sequence[NameValue]) -> dict[str, str]:
    return {one.name: literal(one.value) for one in given}


def _free_name(name: str, taken: dict[str, Any]) -> str:
    """The name with what names of servers may contain, and another one for the second server of that name."""
    wanted = _NOT_IN_NAMES.sub("_", name)[:MAX_NAME] or "server"
    found, number = wanted, 1
    while found.replace("-", "_") in {one.replace("-", "_") for one in taken}:
        number += 1
        found = f"{wanted[: MAX_NAME - 3]}_{number}"
    return found
