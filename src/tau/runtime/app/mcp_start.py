"""Gives a session access to its MCP servers. Small, because every start with configured servers loads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tau.runtime.machine.local import LocalMachine
from tau.runtime.session.mcp_access import McpAccess
from tau.runtime.session.session import Session
from tau.store.files import read_small

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory
    from tau.runtime.mcp.session_servers import SessionServers


def make_access(factory: SessionFactory, session: Session, machine: LocalMachine, *, asks: bool) -> McpAccess:
    async def load(access: McpAccess) -> SessionServers:
        from tau.runtime.app.mcp_plan import load_mcp

        return await load_mcp(factory, access, machine)

    access = McpAccess(session, load, asks=asks)
    if _may_be_eager(factory):
        access.start()
    return access


def _may_be_eager(factory: SessionFactory) -> bool:
    """True if a server may have to start with the session. Only looks for the word, so that a start stays fast."""
    options = factory.options
    if "'eager'" in f"{factory.settings.mcp_servers}{dict(options.mcp_servers)}":
        return True
    files = [factory.at_start(file) for file in options.mcp_files]
    if not options.no_mcp:
        files.append(str(factory.config.agent_dir / "mcp.json"))
        files += [".mcp.json", os.path.join(".pi", "mcp.json")] if factory.trusted else []
    return any(_mentions_eager(os.path.join(factory.cwd, os.path.expanduser(file))) for file in files)


def _mentions_eager(path: str) -> bool:
    try:
        return b'"eager"' in read_small(path)
    except OSError:
        return False
