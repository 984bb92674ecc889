"""The MCP servers of one session: which tools the model has, and when servers are started.

Nothing waits for a server when a session starts. Tools of cached lists are offered at once; servers without a cache
are started when the first prompt is accepted. The first model call waits FIRST_CALL_WAIT_S for those whose tools must
be there, and AUTO_WAIT_S for the others: the model is told of them, and `tool_search` waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tau.errors import CommandError, ToolError
from tau.mcp.config import Exposure, ServerConfig
from tau.mcp.definitions import PromptDefinition, ToolDefinition, shown
from tau.mcp.exposure import OfferedTool, is_selected, prompt_section, resolve_auto, tool_exposure
from tau.mcp.messages import McpError
from tau.mcp.names import PREFIX, passes_for_another, prompt_command, tool_names
from tau.mcp.search import SearchableTool
from tau.records.base import UNSET, Value
from tau.records.events import McpServerUpdate
from tau.records.messages import Image, Text
from tau.records.replies import McpServerRow, SlashCommand
from tau.runtime.extensions.dialogs import Dialogs
from tau.runtime.mcp.elicit import DialogAsker
from tau.runtime.mcp.outcomes import ResultWriter
from tau.runtime.mcp.prompts import get_prompt
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.sharing import release
from tau.runtime.mcp.tools import RESOURCE_NAMES, SEARCH_NAME, resource_tools, search_tool, server_tool
from tau.tools import Tool

if TYPE_CHECKING:
    from tau.tools import Machine

logger = logging.getLogger(__name__)
FIRST_CALL_WAIT_S = 5.0
AUTO_WAIT_S = 1.0
EXIT_GRACE_S = 0.9  # between SIGTERM and SIGKILL when the session ends


class SessionPort(Protocol):
    """What the servers need of their session."""

    @property
    def machine(self) -> Machine: ...

    @property
    def dialogs(self) -> Dialogs | None:
        """None if the client cannot show dialogs."""

    @property
    def is_single_run(self) -> bool:
        """True if there may be no second prompt: then all tools must be there for the first."""

    def emit(self, event: McpServerUpdate) -> None: ...

    def loaded_tools(self) -> list[str]:
        """Names of deferred tools that were loaded in this conversation, in order."""

    async def save_loaded(self, names: Sequence[str]) -> None: ...

    def set_prompt_section(self, text: str) -> None: ...

    def revoke_permission(self, tool: str) -> None:
        """Forget that the user has allowed a tool for the session."""

    def context_window(self) -> int: ...


class ToolChoice(Value):
    """`--tools` and `--exclude-tools`, as far as they name tools of servers."""

    wanted: Sequence[str] | None = None
    excluded: Sequence[str] = ()


ALL_TOOLS = ToolChoice()


class SessionServers:
    """Implements McpTools of runtime/runs/tool_runner.py, and Servers of tools.py."""

    def __init__(self, port: SessionPort, problems: Sequence[str] = (), choice: ToolChoice = ALL_TOOLS) -> None:
        self._port = port
        self.problems = list(problems)
        self._choice = choice
        self._dirty = True
        self._tools: dict[str, Tool] = {}
        self._hidden: dict[str, Tool] = {}  # deferred tools, which can be called all the same
        self._read_only: set[str] = set()
        self._catalogue: list[tuple[McpServer, OfferedTool]] = []
        self._window = -1
        self._loaded: list[str] = []
        self._waited = False
        self._late: set[str] = set()  # servers that were not ready for the first model call
        self._starting: dict[asyncio.Task[None], McpServer] = {}
        self._servers: dict[str, McpServer] = {}
        self._ending: list[McpServer] | None = None  # servers that no other session uses, once this one ends

    def add(self, servers: Iterable[McpServer]) -> None:
        self._servers |= {server.config.key: server for server in servers}
        self._dirty = True

    # Tools for the model.

    @property
    def offered(self) -> Mapping[str, Tool]:
        """The tools that the model has now."""
        self._update()
        return self._tools

    def find(self, name: str) -> Tool | None:
        """A deferred tool that is not loaded; a model may know its name from an earlier conversation."""
        self._update()
        return self._hidden.get(name)

    def is_harmless(self, name: str) -> bool:
        """True for a tool that `--permissions ask` need not ask about."""
        if name == SEARCH_NAME:
            return True
        if name in RESOURCE_NAMES:
            return all(
                server.config.trust_annotations
                for server in self._active()
                if server.listing is None or server.listing.resources
            )
        self._update()
        return name in self._read_only

    def definition(self, name: str) -> ToolDefinition | None:
        """How its server describes a tool; None if it is not of a server."""
        self._update()
        return next((offered.definition for _, offered in self._catalogue if offered.name == name), None)

    def server_of(self, name: str) -> str | None:
        """The server of a tool; None if it is not of a server."""
        self._update()
        return next((server.name for server, offered in self._catalogue if offered.name == name), None)

    def invalidate(self) -> None:
        self._dirty = True

    def _update(self) -> None:
        window = self._port.context_window()
        if not self._dirty and window == self._window:
            return
        self._dirty, self._window = False, window
        found = self._offered()
        auto = resolve_auto([offered for _, offered in found], window)
        self._catalogue = found
        direct: dict[str, Tool] = {}
        deferred: dict[str, Tool] = {}
        self._read_only = set()
        for server, offered in found:
            exposure = auto if offered.exposure == "auto" else offered.exposure
            tool = server_tool(self, server, offered)
            (direct if exposure == "direct" else deferred)[offered.name] = tool
            if server.config.trust_annotations and offered.definition.read_only:
                self._read_only.add(offered.name)
        extra = [search_tool(self)] if deferred or self._late else []
        extra += resource_tools(self) if self.with_resources() else []
        loaded = {name: deferred[name] for name in self._loaded if name in deferred}
        self._hidden = {name: tool for name, tool in deferred.items() if name not in loaded}
        self._tools = {**direct, **{tool.name: tool for tool in extra}, **loaded}

    def _offered(self) -> list[tuple[McpServer, OfferedTool]]:
        """The tools of all servers, each under a name that no other has."""
        found: dict[str, tuple[McpServer, OfferedTool]] = {}
        configured = [server.name for server in self._servers.values()]
        for server in self._active():
            for offered in self._offered_by(server):
                if offered.name in found or passes_for_another(offered.name, server.name, configured):
                    server.report(f"its tool {shown(offered.definition.name)} has the name of another tool: left out")
                else:
                    found[offered.name] = server, offered
        return list(found.values())

    def _offered_by(self, server: McpServer) -> Iterator[OfferedTool]:
        definitions: list[ToolDefinition] = server.listing.tools if server.listing is not None else []
        names = tool_names(server.name, [definition.name for definition in definitions])
        for definition in definitions:
            name, exposure = names[definition.name], tool_exposure(server.config, definition.name)
            if exposure != "hidden" and is_selected(name, self._choice.wanted, self._choice.excluded):
                yield OfferedTool(name, server.name, definition, exposure)

    def _active(self) -> list[McpServer]:
        return [server for server in self._servers.values() if server.config.enabled]

    # Servers of tools.py.

    def asker(self, server: str) -> DialogAsker | None:
        dialogs = self._port.dialogs
        return None if dialogs is None else DialogAsker(server, dialogs)

    def server(self, name: str) -> McpServer:
        server = self._servers.get(name.replace("-", "_"))
        if server is None or not server.config.enabled:
            known = ", ".join(one.name for one in self._active())
            raise ToolError(f"There is no MCP server {shown(name)}. There are: {known}")
        return server

    def with_resources(self) -> list[McpServer]:
        return [server for server in self._active() if server.listing is not None and server.listing.resources]

    async def settle(self) -> None:
        if self._starting:
            await asyncio.wait(self._starting, timeout=FIRST_CALL_WAIT_S)

    def deferred(self) -> list[SearchableTool]:
        self._update()
        return [
            SearchableTool(
                offered.name,
                offered.definition.description or offered.definition.title,
                f"{server.name} {server.config.description}",
                offered.definition.input_schema,
            )
            for server, offered in self._catalogue
            if offered.name in self._hidden or offered.name in self._loaded or server.name in self._late
        ]

    async def used(self, name: str) -> None:
        if name in self._hidden:
            await self.load([name])

    async def load(self, names: list[str]) -> None:
        added = [name for name in names if name not in self._loaded]
        if added:
            self._loaded += added
            self._dirty = True
            await self._port.save_loaded(self._loaded)

    # Runs.

    def prompt_accepted(self) -> None:
        """A prompt was accepted: start the servers whose tools are not known, also those that failed before."""
        self._loaded = self._port.loaded_tools()
        self._dirty = True
        for server in self._active():
            startable = server.can_start or server.state == "starting"  # another session may have started it
            if server.listing is None and startable and server not in self._starting.values():
                self._start(server)
        self._port.set_prompt_section(self._section())

    def start_eager(self) -> None:
        for server in self._active():
            if server.config.eager:
                self._start(server)

    def _start(self, server: McpServer) -> None:
        task = asyncio.create_task(_start_quietly(server))
        self._starting[task] = server
        task.add_done_callback(lambda done: self._starting.pop(done, None))

    async def before_model_call(self) -> None:
        """Before the first model call, wait for servers that are being started, but not for long."""
        if self._waited:
            return
        self._waited = True
        waits: dict[float, list[asyncio.Task[None]]] = {}
        for task, server in self._starting.items():
            if (wait := self._first_wait(server.config)) > 0:
                waits.setdefault(wait, []).append(task)
        await asyncio.gather(*(asyncio.wait(tasks, timeout=wait) for wait, tasks in waits.items()))
        self._late = {server.name for server in self._starting.values() if _exposures(server.config) != {"hidden"}}
        if waits or self._late:
            self._dirty = True
            self._port.set_prompt_section(self._section())

    def _first_wait(self, config: ServerConfig) -> float:
        """How long the first model call waits for a server, in seconds."""
        exposures = _exposures(config)
        if not exposures & {"auto", "direct"}:
            return 0
        must_be_there = "direct" in exposures or config.source.scope == "given" or self._port.is_single_run
        return FIRST_CALL_WAIT_S if must_be_there else AUTO_WAIT_S

    def _section(self) -> str:
        self._update()
        texts = {
            server.name: (server.config.description, server.listing.instructions)
            for server in self._active()
            if server.listing is not None
        }
        deferred = {server.name: 0 for server in self._starting.values() if server.name in self._late}
        for server, offered in self._catalogue:
            if offered.name in self._hidden or offered.name in self._loaded:
                deferred[server.name] = deferred.get(server.name, 0) + 1
        return prompt_section(texts, deferred)

    # Prompts of servers.

    def commands(self) -> list[SlashCommand]:
        prompts = self._prompts().items()
        return [SlashCommand(name, prompt.description or UNSET, "mcp") for name, (_, prompt) in prompts]

    async def expand(self, text: str) -> tuple[str, list[Image]] | None:
        """The prompt that a slash command means; None if it is not the command of a server. Raises CommandError."""
        if not text.startswith(f"/{PREFIX}"):
            return None
        name, _, words = text[1:].partition(" ")
        found = self._prompts().get(name)
        if found is None:
            return None
        server, prompt = found
        parts = await get_prompt(server, prompt, words)
        blocks, _ = await ResultWriter(self._port.machine, resize=True).blocks(parts)
        images = [block for block in blocks if isinstance(block, Image)]
        return "\n".join(block.text for block in blocks if isinstance(block, Text)), images

    def _prompts(self) -> dict[str, tuple[McpServer, PromptDefinition]]:
        """The prompts of all servers by command; of two with the same command, the first."""
        found: dict[str, tuple[McpServer, PromptDefinition]] = {}
        configured = [server.name for server in self._servers.values()]
        for server in self._active():
            for prompt in server.listing.prompts if server.listing is not None else ():
                command = prompt_command(server.name, prompt.name)
                if not passes_for_another(command, server.name, configured):
                    found.setdefault(command, (server, prompt))
        return found

    # States.

    def rows(self) -> list[McpServerRow]:
        return [_row(server) for server in self._servers.values()]

    async def restart(self, name: str) -> McpServerRow:
        """Raises CommandError."""
        try:
            server = self.server(name)
            await server.restart()
        except (ToolError, McpError) as error:
            raise CommandError(str(error)) from None
        return _row(server)

    def changed(self, server: McpServer) -> None:
        self._dirty = True
        listing = server.listing
        self._port.emit(
            McpServerUpdate(
                server.name,
                server.state,
                len(listing.tools) if listing is not None else UNSET,
                server.error or UNSET,
            )
        )

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        for name in names:
            self._port.revoke_permission(name)

    # End.

    def terminate(self) -> None:
        """Ask all processes to end that no other session uses. Does not wait."""
        for task in list(self._starting):
            task.cancel()
        for server in self._last_used():
            server.terminate()

    async def close(self) -> None:
        """End all servers that no other session uses; what does not end in time is killed."""
        self.terminate()
        await asyncio.gather(*(server.close(EXIT_GRACE_S) for server in self._last_used()), return_exceptions=True)

    def kill(self) -> None:
        for server in self._last_used():
            server.kill()

    def _last_used(self) -> list[McpServer]:
        if self._ending is None:
            self._ending = [server for server in self._servers.values() if release(server, self)]
        return self._ending


async def _start_quietly(server: McpServer) -> None:
    try:
        await server.start()
    except McpError as error:
        logger.debug("%s", error)


def _exposures(config: ServerConfig) -> set[Exposure]:
    return {config.exposure, *(exposure for _, exposure in config.tool_exposure)}


def _row(server: McpServer) -> McpServerRow:
    listing, config = server.listing, server.config
    return McpServerRow(
        name=config.name,
        source=config.source.path,
        transport=config.transport,
        state=server.state,
        version=listing.server_version if listing is not None else UNSET,
        era=listing.era if listing is not None else UNSET,
        protocol=listing.version if listing is not None else UNSET,
        tools=[tool.name for tool in listing.tools] if listing is not None else UNSET,
        error=server.error or UNSET,
        restarts=server.restarts,
    )
