"""Run the tools a model calls: looked up, checked, on the machine of the run they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tau.core.loop import refusal
from tau.core.schema import check, complaint
from tau.host.around import Surroundings
from tau.host.switch import Switch
from tau.records.events import Outcome
from tau.records.messages import ToolCall
from tau.records.settings import Settings
from tau.tools import ToolContext
from tau.tools.seen import Seen


class Toolbox:
    def __init__(self, around: Surroundings, settings: Callable[[], Settings]) -> None:
        self._around = around
        self._settings = settings
        self._machine = around.machine
        self.forget()

    def begin(self, switch: Switch) -> None:
        """A run begins: what its commands leave in the background ends when it is aborted."""
        self._machine = self._around.machine.part()
        switch.listen(self._machine.kill_background)

    def forget(self) -> None:
        """Another conversation: its model has read nothing yet."""
        self._seen = Seen(required=self._settings().edit.require_fresh)

    async def check(self, call: ToolCall) -> dict[str, Any] | Outcome:
        """The arguments to run with, or why the call is refused."""
        tool = self._around.tools.get(call.name)
        if tool is None:
            return refusal(f"Tool {call.name} not found")
        schema = tool.schema_for(call.arguments) if tool.schema_for else tool.parameters
        arguments, problems = check(schema, call.arguments)
        return refusal(complaint(call.name, problems, call.arguments)) if problems else arguments

    async def execute(self, call: ToolCall, arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
        resize = self._settings().images.auto_resize
        context = ToolContext(self._machine, self._around.cwd, progress, self._seen, resize)
        return await self._around.tools[call.name].run(arguments, context)
