"""Hooks, permission callback and dialog handlers of the program.

They use the same mechanism as extensions, so functions of the program and extension files are called in the same way.
Hooks must be quick and have the time limit of extensions; the permission callback and dialog handlers have none,
because they may ask a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from tau.concurrency.tasks import failure_of
from tau.core.agent.structured_output import TOOL_NAME as STRUCTURED
from tau.core.checks.dialog_handlers import Answer, Dialog, DialogHandler, DialogHandlers, Method, ui_response
from tau.errors import ExtensionFailure
from tau.extension_api.api import Pi
from tau.functions.threads import Threads
from tau.library.arguments import hook_argument_count
from tau.library.subscriptions import AgentEvent, report
from tau.records.base import to_builtins
from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.runtime.app.handle import SessionHandle
from tau.runtime.extensions.loader import InProcessChannel, load_function
from tau.runtime.extensions.registrations import Bus
from tau.runtime.extensions.registry import current_timeout

Setup = Callable[[Pi], Any]
Hook = Callable[..., Any]
Permission = Callable[[str, dict[str, Any]], bool | str | Awaitable[bool | str]]

AFTER_EXTENSIONS = 2_000_000  # after every extension, so that it sees the final call
DENIED = "The user does not allow this call of {name}."


class ProgramHooks:
    """The callbacks of one agent."""

    def __init__(self, handle: SessionHandle, threads: Threads) -> None:
        self._handle = handle
        self._threads = threads
        self._bus = Bus(handle.extensions)
        self._channels: list[InProcessChannel] = []
        self._dialogs = DialogHandlers()
        self._dialog_tasks: set[asyncio.Task[None]] = set()
        self._pi: Pi | None = None

    async def load(self, setups: Sequence[Setup], hooks: Mapping[str, Hook | Sequence[Hook]]) -> None:
        """Load the setup functions and hooks as in-process extensions. Raises ExtensionFailure."""

        def program(pi: Pi) -> None:
            self._pi = pi
            for name, handlers in hooks.items():
                for hook in [handlers] if callable(handlers) else handlers:
                    self.on(name, hook)

        actions = self._handle.actions()
        for setup in (*setups, program):
            name = "<program>" if setup is program else f"<{getattr(setup, '__qualname__', type(setup).__name__)}>"
            channel = await load_function(self._handle.extensions, setup, name, actions.act, actions.facts, self._bus)
            self._channels.append(channel)
        self._handle.extensions.renew_functions = partial(self._renew, setups)

    async def _renew(self, setups: Sequence[Setup]) -> None:
        """Run the setup functions again, for another session; the hooks of the program stay."""
        for setup, channel in zip(setups, self._channels, strict=False):
            try:
                await channel.set_up(setup, {})
            except ExtensionFailure as failure:
                self._handle.extensions.report(channel.name, "load", str(failure))

    # Hooks.

    def on(self, name: str, hook: Hook) -> Callable[[], None]:
        assert self._pi is not None
        pi, count = self._pi, hook_argument_count(hook)

        def handler(event: Any, ctx: Any) -> Any:
            return hook(event, ctx) if count > 1 else hook(event)

        pi.on(name, handler)
        return lambda: pi.off(handler)

    # Permission.

    def ask_before_tools(self, permission: Permission) -> None:
        async def check(event: Mapping[str, Any]) -> dict[str, Any] | None:
            name = str(event["toolName"])
            if name == STRUCTURED:
                return None  # it has no side effects
            timeout = current_timeout.get()
            with timeout.paused() if timeout is not None else nullcontext():
                decision = await self._threads.call(permission, name, dict(event["input"]))
            if decision is True:
                return None
            return {
                "block": True,
                "reason": decision if decision and isinstance(decision, str) else DENIED.format(name=name),
            }

        self._handle.extensions.on("tool_call", "<permission>", check, AFTER_EXTENSIONS)

    # Dialogs.

    def answer_dialogs(self, handler: DialogHandler, methods: tuple[Method, ...] = ()) -> Callable[[], None]:
        async def answer(dialog: Dialog) -> Answer:
            reply: Answer = await self._threads.call(handler, dialog)
            return reply

        self._handle.dialogs.has_ui = True
        return self._dialogs.add(answer, methods)

    def on_event(self, event: AgentEvent) -> None:
        if isinstance(event, Select | Confirm | Input | Editor):
            task = asyncio.ensure_future(self._answer(event))
            self._dialog_tasks.add(task)
            task.add_done_callback(self._dialog_tasks.discard)

    async def _answer(self, dialog: Dialog) -> None:
        try:
            answer = await self._dialogs.answer(dialog)
        except BaseException as error:
            report("A dialog handler failed, so the dialog is cancelled", failure_of(error))
            answer = ui_response(dialog, None)
        self._handle.dialogs.answer(to_builtins(answer))

    async def close(self) -> None:
        for task in tuple(self._dialog_tasks):
            task.cancel()
        for channel in self._channels:
            await channel.end()
