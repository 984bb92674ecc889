"""Options of the caller for a session: what the flags of the command line or the arguments of `tau.open` ask for.

This is the first of two stages of configuration; `runtime.app.factory` resolves it with the user's files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tau.core.agent.budgets import NO_BUDGET
from tau.records.base import Value
from tau.records.budgets import Budget
from tau.store.resource_query import RequestedResources
from tau.tools import Tool


class SessionTarget(Value):
    """Selects the session to open; a new one by default."""

    kept: bool = True
    folder: str | None = None
    last: bool = False
    named: str | None = None  # a path, or the beginning of an id
    id: str | None = None
    copy_of: str | None = None
    name: str | None = None


class SessionOptions(Value):
    """Options of the caller for a session; None and empty mean the default."""

    model: str | None = None
    provider: str | None = None
    models: Sequence[str] = ()
    thinking: str | None = None
    key: str | None = None
    tools: Sequence[str | Tool] | None = None  # names of built-in tools, and tools of the caller
    script: str | bytes | None = None  # a file path, or the content of one
    session: SessionTarget = SessionTarget()
    approve: bool | None = None  # trust in the project for this run; None: the saved decision
    extensions: Sequence[str] = ()
    only_these_extensions: bool = False
    flags: Mapping[str, bool | str] = MappingProxyType({})  # flags that only an extension can know
    following: Mapping[str, str] = MappingProxyType({})  # words that follow these flags, which may be their values
    resources: RequestedResources = RequestedResources()
    dialect: str | None = None
    record: str | None = None  # a folder for recorded model requests and responses
    replay: str | None = None  # such a folder, to answer from
    budget: Budget = NO_BUDGET
    output_schema: str | None = None  # a file: the schema for every prompt
    keys: Mapping[str, str] = MappingProxyType({})  # by provider; they win over all other keys
    settings: Mapping[str, Any] = MappingProxyType({})  # they override the settings of all files, by the same names
    permissions: str | Mapping[str, Any] | None = None  # "ask", "rules FILE", or the content of such a file
    sandbox: str | None = None  # its level; None: the user's settings
    telemetry: Any = None  # True, False, or a provider of OpenTelemetry; None: as environment and settings say
    offline: bool = False  # no connections except to models
    mcp_files: Sequence[str] = ()  # --mcp-config
    mcp_servers: Mapping[str, Any] = MappingProxyType({})  # MCP servers of the calling program, as in mcp.json
    no_mcp: bool = False  # use only these servers
    roots: Sequence[str] = ()  # of a host: its sessions run below them
    excluded_tools: Sequence[str] = ()  # patterns for tools of MCP servers to leave out
    strict: bool = False  # unknown names in `tools` and `thinking` are errors, not warnings
    program: str = "tau"  # or "pi", whose title of the window some programs read
