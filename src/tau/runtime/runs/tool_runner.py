"""The tools of a session, built-in and from extensions, and the execution of tool calls.

A call passes these steps: look up the tool, validate the arguments, run the `tool_call` hooks of extensions (which
may block or change the call), check the resulting call against the permissions if there are any, and execute it on
the machine of its run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tau.core.agent.tool_results import ToolDone, error_outcome, invalid_call
from tau.errors import Aborted, TauError, ToolError
from tau.records.events import Outcome
from tau.records.messages import Text, ToolCall
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal, until_aborted
from tau.runtime.extensions.hooks import HookDispatcher, refused
from tau.runtime.extensions.registry import calling_session
from tau.runtime.services import Services
from tau.tools import Tool, ToolContext
from tau.tools.read_tracking import ReadTracker
from tau.tools.registry import TOOLS

if TYPE_CHECKING:
    from tau.runtime.telemetry.observer import SessionObserver
ToolSource = Literal["builtin", "extension", "host", "mcp", "program"]


if TYPE_CHECKING:

    class PermissionGate(Protocol):
        """Decides whether a call may run. Implemented in runtime/runs/permissions.py."""

        cwd: str  # where tools run
        denials: list[str]  # the reason of each denial

        @property
        def asks_only(self) -> bool:
            """True for `--permissions ask`: nothing but the built-in rule, which allows what only reads."""

        async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
            """Return None if the call may run, otherwise the refusal."""

        def withheld(self, tool: str, arguments: Mapping[str, Any]) -> Callable[[str], bool]:
            """Return a predicate for the files that a permitted call over many files must skip. It blocks."""

        def checked(self, call: ToolCall) -> Callable[[str], bool] | None:
            """Return a predicate, True for the real paths that `permit` saw for this call; None if they are not
            certain.

            It can be requested once per call.
            """

        def was_asked(self, call: ToolCall) -> bool:
            """True if the user was asked about this call."""

        def forget(self) -> None: ...

        def revoke_tool(self, tool: str) -> None:
            """Forget that the user has allowed a tool for the session."""

    class McpTools(Protocol):
        """Tools of MCP servers, which may change between model calls. Implemented in runtime/session/mcp_access.py."""

        @property
        def offered(self) -> Mapping[str, Tool]:
            """The tools that the model has now, in order, after all others."""

        def find(self, name: str) -> Tool | None:
            """A tool that the model does not have, but may call."""

        def is_harmless(self, name: str) -> bool:
            """True for a tool that `--permissions ask` need not ask about."""

        async def before_model_call(self) -> None:
            """Called before each model call; may wait a moment for tools that are about to be known."""

        async def settle(self) -> None:
            """Wait for servers that are starting, but not for long."""


class ToolRunner:
    def __init__(
        self,
        services: Services,
        settings: Callable[[], Settings],
        hooks: HookDispatcher,
        permission_gate: PermissionGate | None = None,
    ) -> None:
        self.services = services
        self._settings = settings
        self._hooks = hooks
        self._machine = services.machine
        self._signal = AbortSignal()
        self._active: list[str] | None = None  # those that were selected; None: the usual ones
        self._known_at_selection: frozenset[str] = frozenset()  # tools that were added later are active too
        # What was selected last, but not by an extension: it stays when another session is opened.
        self._chosen: tuple[list[str] | None, frozenset[str]] = None, frozenset()
        self._program_tools: dict[str, Tool] = {}  # added by the embedding program while the session is open
        self._extra_tools: Mapping[str, Tool] = {}  # for the current prompt; they shadow others of the same name
        self.host_tools: Mapping[str, Tool] = {}  # lent by clients; they shadow built-in tools of the same name
        self.deferred_tools: Mapping[str, Tool] = {}  # of clients, that the model does not have, but may call
        self.search_tool = ""  # the name of the tool that searches for them
        self.permission_gate = permission_gate
        self.observer: SessionObserver | None = None
        # Takes the id of a call, a path, and the contents before and after; called in a thread. For a front end.
        self.file_changed: Callable[[str, str, bytes | None, bytes], None] | None = None
        self.broke_off: Callable[[str], None] | None = None  # takes what failed, in a built-in tool. For a front end
        self.mcp: McpTools | None = None
        self.reset()

    # Available tools.

    @property
    def all_tools(self) -> dict[str, Tool]:
        """All tools that the model could get. A tool of an extension replaces a built-in one of the same name."""
        return {**TOOLS, **self.services.tools, **self._program_tools, **self._added_tools}

    @property
    def extension_tools(self) -> Mapping[str, Tool]:
        return self._hooks.extensions.tools

    @property
    def _added_tools(self) -> Mapping[str, Tool]:
        """Tools that the model has without being selected, unless `set_active` leaves them out."""
        offered = {} if self.mcp is None else self.mcp.offered
        if not offered and not self.host_tools:
            return self.extension_tools
        return {**self.extension_tools, **offered, **self.host_tools}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that the model has. A tool that an extension or a client adds is among them immediately."""
        return {**self._selected_tools, **self._extra_tools} if self._extra_tools else self._selected_tools

    @property
    def _selected_tools(self) -> Mapping[str, Tool]:
        added = self._added_tools
        if not added and self._active is None:
            return self.services.tools
        known = self.all_tools
        active = self.services.tools if self._active is None else self._active
        names = [*active, *(name for name in added if name not in self._known_at_selection)]
        return {name: known[name] for name in names if name in known}

    def source(self, name: str) -> ToolSource:
        """Where a tool comes from."""
        if name in self.host_tools or name in self.deferred_tools:
            return "host"
        if self.mcp is not None and name in self.mcp.offered:
            return "mcp"
        if name in self.extension_tools:
            return "extension"
        own = self._program_tools.get(name) or self.services.tools.get(name)
        return "builtin" if own is None or own is TOOLS.get(name) else "program"

    def source_of(self, name: str) -> ToolSource | None:
        """The same; None if there is no such tool."""
        return None if self._find(name) is None else self.source(name)

    def set_active(self, tools: Sequence[str | Tool]) -> None:
        """Give the model these tools and no others; unknown names are ignored. An extension selects for its session."""
        self._program_tools |= {tool.name: tool for tool in tools if isinstance(tool, Tool)}
        names = [tool.name if isinstance(tool, Tool) else tool for tool in tools]
        known = self.all_tools
        self._active = [name for name in names if name in known]
        self._known_at_selection = frozenset(known)
        if calling_session.get() is None:
            self._chosen = self._active, self._known_at_selection

    def forget_selection(self) -> None:
        """Take back what extensions have selected in the session that was left."""
        self._active, self._known_at_selection = self._chosen

    # Tool calls.

    def begin_run(self, signal: AbortSignal, extra_tools: Mapping[str, Tool]) -> None:
        """Start the run of a prompt. The model also gets `extra_tools`, until `end_run`.

        An abort kills the background processes that the commands of the run leave behind.
        """
        self._signal = signal
        self._extra_tools = extra_tools
        variables = None if self.observer is None else self.observer.command_environment()
        self._machine = self.services.machine.sub_machine(variables)
        signal.on_abort(self._machine.kill_background)

    def end_run(self) -> None:
        self._extra_tools = {}

    def reset(self) -> None:
        """Start another conversation: its model has not read any file yet."""
        self._reads = ReadTracker(required=self._settings().edit.require_fresh)
        if self.permission_gate is not None:
            self.permission_gate.forget()

    def is_sequential(self, name: str) -> bool:
        """True for a tool that never runs at the same time as others."""
        tool = self.tools.get(name)
        return tool is not None and tool.sequential

    async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        """Return the arguments to run with, or the refusal of the call."""
        tool = self._find(call.name)
        if tool is None and self.mcp is not None:
            with suppress(Aborted):  # the model may know it from an earlier conversation
                await until_aborted(asyncio.ensure_future(self.mcp.settle()), self._signal)
            tool = self._find(call.name)
        if tool is None:
            return invalid_call(f"Tool {call.name} not found")
        try:
            given = call.arguments if tool.prepare is None else await tool.prepare(call.arguments)
        except ToolError as error:
            return error_outcome(str(error))
        arguments = _checked_arguments(tool, given)
        if isinstance(arguments, Outcome) or not self._hooks.extensions.wants("tool_call"):
            return arguments
        try:
            answer = await self._hooks.tool_call(call, arguments, self._signal)
        except Aborted as aborted:
            return error_outcome(str(aborted))
        if answer.get("block"):
            return refused(answer.get("reason"))
        return _checked_arguments(tool, answer["input"]) if "input" in answer else arguments

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        """Return the refusal of a call, or None if it may run. Exempt are extra tools: they only take a result."""
        gate, observer = self.permission_gate, self.observer
        if gate is None or call.name in self._extra_tools:
            return None
        if gate.asks_only and self._is_harmless(call.name):
            return None
        if observer is None:
            return await gate.permit(call, arguments)
        started = perf_counter()
        refusal = await gate.permit(call, arguments)
        asked = gate.was_asked(call)
        observer.permission_checked(call, refusal, asked=asked, seconds=perf_counter() - started)
        return refusal

    async def execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        settings = self._settings()
        withheld = None if self.permission_gate is None else self.permission_gate.withheld(call.name, arguments)
        checked = None if self.permission_gate is None else self.permission_gate.checked(call)
        changed = None if self.file_changed is None else partial(self.file_changed, call.id)
        context = ToolContext(
            self._machine,
            self.services.cwd,
            progress,
            self._reads,
            settings.images.auto_resize,
            call.id,
            withheld,
            checked,
            changed,
            settings.compat.file_texts,
        )
        tool = self._find(call.name)
        if tool is None:  # it was removed meanwhile
            raise ToolError(f"Tool {call.name} not found")
        try:
            return await tool.run(arguments, context)
        except Exception as error:
            if self.broke_off is not None and not isinstance(error, TauError) and self.source(call.name) == "builtin":
                self.broke_off(f"tool {call.name}: {type(error).__name__}: {error}")
            raise

    def _is_harmless(self, name: str) -> bool:
        """True for a tool that `--permissions ask` need not ask about."""
        return name == self.search_tool or (self.mcp is not None and self.mcp.is_harmless(name))

    def _find(self, name: str) -> Tool | None:
        tool = self.tools.get(name) or self.deferred_tools.get(name)
        return self.mcp.find(name) if tool is None and self.mcp is not None and self._active is None else tool

    async def run_builtin(
        self, tool: Tool, arguments: dict[str, Any], cwd: str, progress: Callable[[Outcome], None]
    ) -> Outcome:
        """Run one of tau's own tools for an extension. Raises ToolError."""
        checked = _checked_arguments(tool, arguments)
        if isinstance(checked, Outcome):
            raise ToolError("".join(block.text for block in checked.content if isinstance(block, Text)))
        context = ToolContext(self._machine, cwd, progress, self._reads, self._settings().images.auto_resize)
        return await tool.run(checked, context)

    async def review(self, done: ToolDone, arguments: dict[str, Any]) -> ToolDone:
        """Return the result after the `tool_result` hooks of extensions."""
        if not self._hooks.extensions.wants("tool_result"):
            return done
        return await self._hooks.tool_result(done, arguments, self._signal)


def _checked_arguments(tool: Tool, given: dict[str, Any]) -> dict[str, Any] | Outcome:
    from tau.core.checks.schema import check_arguments, validation_error

    schema = tool.schema_for(given) if tool.schema_for else tool.parameters
    arguments, problems = check_arguments(schema, given, convert=tool.converts)
    return invalid_call(validation_error(tool.name, problems, given)) if problems else arguments
