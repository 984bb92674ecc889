"""The tools of a session, its own and those of extensions, and running the ones a model calls.

A call is looked up, checked, and shown to the extensions that guard tools; what
they leave of it is put to the permissions, where there are any. Then it runs on
the machine of the run it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tau.core.agent.loop import ToolDone, refusal
from tau.core.checks.schema import check, complaint
from tau.errors import Aborted
from tau.records.events import Outcome
from tau.records.messages import ToolCall
from tau.records.settings import Settings
from tau.runtime.abort import AbortSignal
from tau.runtime.extensions.hooks import HookDispatcher, refused
from tau.runtime.services import Services
from tau.tools import Tool, ToolContext
from tau.tools.read_tracking import Seen
from tau.tools.registry import TOOLS


class PermissionGate(Protocol):
    """Who decides whether a call may run. The real one is runtime/runs/permissions.py."""

    denials: list[str]  # why each of them may not

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        """None, or why it may not."""

    def withheld(self, tool: str, arguments: Mapping[str, Any]) -> Callable[[str], bool]:
        """Which files a call that may run, and looks at many, must pass over. To ask for one blocks."""

    def checked(self, call: ToolCall) -> Callable[[str], bool] | None:
        """Whether a real path is one that `permit` saw for this call. Asked once; None if it saw no path for sure."""

    def forget(self) -> None: ...


class ToolRunner:
    def __init__(self, around: Services, settings: Callable[[], Settings], hooks: HookDispatcher) -> None:
        self._around = around
        self._settings = settings
        self._hooks = hooks
        self._machine = around.machine
        self._switch = AbortSignal()
        self._chosen: list[str] | None = None  # by an extension, out of `_choice`
        self._choice: frozenset[str] = frozenset()
        self.extra_tools: Mapping[str, Tool] = {}  # for the prompt under way; others of the same names step back
        self.permission_gate: PermissionGate | None = None
        self.reset()

    # Which there are.

    @property
    def all_tools(self) -> dict[str, Tool]:
        """Everything that could be given to the model. An extension's tool stands for a built-in one of its name."""
        return {**TOOLS, **self._around.tools, **self._hooks.extensions.tools}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What the model has. A tool that an extension registers is among them at once."""
        return {**self._selected_tools, **self.extra_tools} if self.extra_tools else self._selected_tools

    @property
    def _selected_tools(self) -> Mapping[str, Tool]:
        added = self._hooks.extensions.tools
        if not added and self._chosen is None:
            return self._around.tools
        known = self.all_tools
        chosen = self._around.tools if self._chosen is None else self._chosen
        names = [*chosen, *(name for name in added if name not in self._choice)]
        return {name: known[name] for name in names if name in known}

    def set_active(self, names: Sequence[str]) -> None:
        """Give the model these and no others; names that nobody knows are passed over."""
        known = self.all_tools
        self._chosen = [name for name in names if name in known]
        self._choice = frozenset(known)

    # Running them.

    def begin_run(self, switch: AbortSignal) -> None:
        """A run begins: what its commands leave in the background ends when it is aborted."""
        self._switch = switch
        self._machine = self._around.machine.part()
        switch.on_abort(self._machine.kill_background)

    def reset(self) -> None:
        """Another conversation: its model has read nothing yet."""
        self._reads = Seen(required=self._settings().edit.require_fresh)
        if self.permission_gate is not None:
            self.permission_gate.forget()

    async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        """The arguments to run with, or why the call is refused."""
        tool = self.tools.get(call.name)
        if tool is None:
            return refusal(f"Tool {call.name} not found")
        arguments = _fitting(tool, call.arguments)
        if isinstance(arguments, Outcome) or not self._hooks.extensions.wants("tool_call"):
            return arguments
        try:
            said = await self._hooks.tool_call(call, arguments, self._switch)
        except Aborted as aborted:
            return refusal(str(aborted))
        if said.get("block"):
            return refused(said.get("reason"))
        return _fitting(tool, said["input"]) if "input" in said else arguments

    async def permit(self, call: ToolCall, arguments: dict[str, Any]) -> Outcome | None:
        """Why a call may not run, if it may not. A tool that is lent does nothing but hand in a result."""
        if self.permission_gate is None or call.name in self.extra_tools:
            return None
        return await self.permission_gate.permit(call, arguments)

    async def execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        resize = self._settings().images.auto_resize
        withheld = None if self.permission_gate is None else self.permission_gate.withheld(call.name, arguments)
        checked = None if self.permission_gate is None else self.permission_gate.checked(call)
        context = ToolContext(
            self._machine, self._around.cwd, progress, self._reads, resize, call.id, withheld, checked
        )
        return await self.tools[call.name].run(arguments, context)

    async def review(self, done: ToolDone, arguments: dict[str, Any]) -> ToolDone:
        """The result as extensions leave it."""
        if not self._hooks.extensions.wants("tool_result"):
            return done
        return await self._hooks.tool_result(done, arguments, self._switch)


def _fitting(tool: Tool, given: dict[str, Any]) -> dict[str, Any] | Outcome:
    schema = tool.schema_for(given) if tool.schema_for else tool.parameters
    arguments, problems = check(schema, given)
    return refusal(complaint(tool.name, problems, given)) if problems else arguments
