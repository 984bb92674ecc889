"""Names of MCP servers and of their tools as the model sees them: `mcp__<server>__<tool>`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

PREFIX = "mcp__"
MAX_TOOL_NAME = 64  # the limit of model providers
HASH_DIGITS = 8
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_]")


def is_server_name(name: str) -> bool:
    return _SERVER_NAME.fullmatch(name) is not None


def server_key(name: str) -> str:
    """Two servers whose names differ only in "-" and "_" have the same key."""
    return name.replace("-", "_")


def tool_names(server: str, tools: Sequence[str]) -> dict[str, str]:
    """The name for the model of each tool of a server. Names that would be equal all get a hash of the original."""
    plain = {tool: _plain_name(server, tool) for tool in tools}
    counts = Counter(plain.values())
    return {
        tool: _with_hash(name, tool) if counts[name] > 1 or len(name) > MAX_TOOL_NAME else name
        for tool, name in plain.items()
    }


def server_prefix(server: str) -> str:
    """The beginning of the names of all tools of a server."""
    return f"{PREFIX}{_NOT_ALLOWED.sub('_', server)}__"


def passes_for_another(name: str, server: str, servers: Iterable[str]) -> bool:
    """True if the name of a server's tool begins like the names of another server.

    A tool `b__x` of a server `a` would have the name of the tool `x` of a server `a__b`, and with it what the user
    allows that one to do.
    """
    own = server_prefix(server)
    return any(len(prefix) > len(own) and name.startswith(prefix) for prefix in map(server_prefix, servers))


def prompt_command(server: str, prompt: str) -> str:
    """The slash command of a prompt, without the slash."""
    return _plain_name(server, prompt)


def by_model_name(names: Mapping[str, str]) -> dict[str, str]:
    """The inverse of `tool_names`."""
    return {name: tool for tool, name in names.items()}


def _plain_name(server: str, tool: str) -> str:
    return server_prefix(server) + _NOT_ALLOWED.sub("_", tool)


def _with_hash(name: str, tool: str) -> str:
    digest = sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
    return f"{name[: MAX_TOOL_NAME - HASH_DIGITS - 1]}_{digest}"
