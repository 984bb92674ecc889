"""Access of a session to its MCP servers. Everything else about MCP is loaded when it is needed.

That is the first prompt, or a command that asks for servers, tools or slash commands: a start does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tau.errors import CommandError
from tau.records.entries import CustomEntry
from tau.records.events import McpServerUpdate
from tau.records.messages import Image
from tau.records.replies import McpServerRow, McpServers, SlashCommand
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.services import Services
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.mcp.definitions import ToolDefinition
    from tau.runtime.mcp.session_servers import SessionServers
    from tau.runtime.session.session import Session
    from tau.tools import Machine

logger = logging.getLogger(__name__)
LOADED_TOOLS = "mcp_tools"  # the custom entry with the deferred tools that a conversation has loaded
PREFIX = "/mcp__"


class McpAccess:
    """Implements McpTools of runtime/runs/tool_runner.py, and SessionPort of runtime/mcp/session_servers.py.

    `load` reads the configuration and creates the servers. `asks`: the client supports dialogs.
    """

    def __init__(self, session: Session, load: Callable[[McpAccess], Awaitable[SessionServers]], *, asks: bool) -> None:
        self._session = session
        self._load = load
        self._asks = asks
        self._loading: asyncio.Task[SessionServers] | None = None
        self._servers: SessionServers | None = None
        self._accepted = False  # a prompt was accepted since the servers were last told
        self._closed = False

    async def servers(self) -> SessionServers:
        """Raises CommandError if the session is closed."""
        if self._servers is not None:
            return self._servers
        if self._closed:
            raise CommandError("The session is closed.")
        if self._loading is None:
            self._loading = asyncio.create_task(self._loaded())
        return await asyncio.shield(self._loading)

    @property
    def loaded(self) -> SessionServers | None:
        """The servers, if they are loaded."""
        return self._servers

    async def _loaded(self) -> SessionServers:
        servers = self._servers = await self._load(self)
        if self._accepted:
            self._tell_accepted(servers)
        servers.start_eager()
        return servers

    def start(self) -> None:
        """Load the servers in the background."""
        if self._servers is None and self._loading is None:
            self._loading = asyncio.create_task(self._loaded())
            self._loading.add_done_callback(_log_failure)

    # Runs.

    def prompt_accepted(self) -> None:
        """A prompt was accepted. Nothing waits for servers here."""
        self._accepted = True
        if self._servers is not None:
            self._tell_accepted(self._servers)
        else:
            self.start()

    def _tell_accepted(self, servers: SessionServers) -> None:
        self._accepted = False
        servers.prompt_accepted()

    async def before_model_call(self) -> None:
        try:
            await (await self.servers()).before_model_call()
        except CommandError:
            return
        except Exception:
            logger.exception("the MCP servers could not be loaded")

    async def settle(self) -> None:
        if self._servers is not None:
            await self._servers.settle()

    async def expand(self, text: str) -> tuple[str, list[Image]] | None:
        """The prompt of a server that a slash command means; None for any other text. Raises CommandError."""
        return await (await self.servers()).expand(text) if text.startswith(PREFIX) else None

    # McpTools.

    @property
    def offered(self) -> Mapping[str, Tool]:
        return {} if self._servers is None else self._servers.offered

    def find(self, name: str) -> Tool | None:
        return None if self._servers is None else self._servers.find(name)

    def is_harmless(self, name: str) -> bool:
        return self._servers is not None and self._servers.is_harmless(name)

    def server_of(self, tool: str) -> str | None:
        """The server of a tool; None for a tool that is not of a server."""
        return None if self._servers is None else self._servers.server_of(tool)

    def definition(self, tool: str) -> ToolDefinition | None:
        """How a server describes a tool; None for a tool that is not of a server."""
        return None if self._servers is None else self._servers.definition(tool)

    # Commands.

    async def commands(self) -> list[SlashCommand]:
        return (await self.servers()).commands()

    async def rows(self) -> McpServers:
        servers = await self.servers()
        return McpServers(servers.rows(), servers.problems)

    async def restart(self, name: str) -> McpServerRow:
        """Raises CommandError."""
        return await (await self.servers()).restart(name)

    async def reload(self) -> None:
        """Read the configuration again. Running servers are stopped; they start again when they are needed."""
        if self._loading is not None:
            await asyncio.wait([self._loading])
        servers, self._servers, self._loading = self._servers, None, None
        if servers is not None:
            await servers.close()
            self.start()

    # SessionPort.

    @property
    def dialogs(self) -> Dialogs | None:
        return self._session.dialogs if self._asks else None

    @property
    def is_single_run(self) -> bool:
        return self._session.services.mode in ("print", "json")

    @property
    def machine(self) -> Machine:
        return self._session.services.machine

    @property
    def services(self) -> Services:
        return self._session.services

    def emit(self, event: McpServerUpdate) -> None:
        if not self._closed:
            self._session.emit_nowait(event)

    def loaded_tools(self) -> list[str]:
        tree = self._session.log.tree
        for at in reversed(tree.on_branch("custom")):
            entry = tree.entry(at)
            if isinstance(entry, CustomEntry) and entry.custom_type == LOADED_TOOLS:
                data: Any = entry.data
                names = data.get("tools") if isinstance(data, dict) else None
                return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        return []

    async def save_loaded(self, names: Sequence[str]) -> None:
        appended = self._session.log.append_custom(LOADED_TOOLS, {"tools": list(names)})
        self._session.schedule_sync()
        await self._session.emit(appended)

    def set_prompt_section(self, text: str) -> None:
        self._session.resources.mcp_section = text

    def revoke_permission(self, tool: str) -> None:
        gate = self._session.tool_runner.permission_gate
        if gate is not None:
            gate.revoke_tool(tool)

    def context_window(self) -> int:
        model = self._session.models.current
        return 0 if model is None else model.context_window

    # End.

    def terminate(self) -> None:
        """Ask all servers to end, without waiting."""
        self._closed = True
        if self._loading is not None and self._servers is None:
            self._loading.cancel()
        if self._servers is not None:
            self._servers.terminate()

    async def close(self) -> None:
        self.terminate()
        if self._servers is not None:
            await self._servers.close()

    def kill(self) -> None:
        self._closed = True
        if self._servers is not None:
            self._servers.kill()


def _log_failure(loading: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError):
        if (error := loading.exception()) is not None:
            logger.error("the MCP servers could not be loaded", exc_info=error)
