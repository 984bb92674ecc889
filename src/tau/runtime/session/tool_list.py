"""The list of all tools of a session: where each comes from, and whether the model has it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tau.errors import CommandError
from tau.records.base import UNSET
from tau.records.replies import ListedTool
from tau.runtime.session.session import Session


async def listed_tools(session: Session) -> list[ListedTool]:
    """All tools. The configuration of MCP servers is read, but none is started."""
    if session.mcp is not None:
        with suppress(CommandError):  # the session is closed
            await session.mcp.servers()
    return [*_known(session), *_deferred(session)]


def _known(session: Session) -> Iterator[ListedTool]:
    runner, mcp = session.tool_runner, session.mcp
    active = runner.tools
    for name, tool in runner.all_tools.items():
        server = None if mcp is None else mcp.server_of(name)
        source = runner.source(name)
        yield ListedTool(name, tool.description, source, name in active, "direct", server or UNSET)


def _deferred(session: Session) -> Iterator[ListedTool]:
    runner, mcp = session.tool_runner, session.mcp
    for name, tool in runner.deferred_tools.items():
        yield ListedTool(name, tool.description, "host", False, "deferred")
    servers = None if mcp is None else mcp.loaded
    if mcp is not None and servers is not None:
        for found in servers.deferred():
            if found.name not in runner.tools:
                server = mcp.server_of(found.name)
                yield ListedTool(found.name, found.description, "mcp", False, "deferred", server or UNSET)
