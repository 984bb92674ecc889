"""Functions of the program that take part in what its agent does: hooks, permission, answers to dialogs.

All of it goes the way of extensions, so a function in the program and a file in
the project are asked in the same manner. Hooks must be quick and are given the
time that extensions have; who asks a person has all the time there is.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tau.core.answering import Answer, Dialog, DialogHandler, Dialogs, Method, response
from tau.core.structured import NAME as STRUCTURED
from tau.extensions.api import Pi
from tau.host.actions import acting, facts
from tau.host.extensions import PATIENCE
from tau.host.loading import DirectLine, load_function
from tau.host.registering import Bus
from tau.host.session import Session
from tau.library.readers import AgentEvent, report
from tau.library.threads import Threads
from tau.records.base import plain
from tau.records.dialogs import Confirm, Editor, Input, Select

Setup = Callable[[Pi], Any]
Hook = Callable[..., Any]
Permission = Callable[[str, dict[str, Any]], bool | str | Awaitable[bool | str]]

LAST = 2_000_000  # after every extension: what is asked for is what will be done
DENIED = "The user does not allow this call of {name}."


class Partners:
    """The functions of one agent."""

    def __init__(self, session: Session, threads: Threads) -> None:
        self._session = session
        self._threads = threads
        self._bus = Bus(session.extensions)
        self._lines: list[DirectLine] = []
        self._dialogs = Dialogs()
        self._answering: set[asyncio.Task[None]] = set()
        self._pi: Pi | None = None

    async def begin(self, setups: Sequence[Setup], hooks: Mapping[str, Hook | Sequence[Hook]]) -> None:
        """Raises ExtensionFailure."""

        def own(pi: Pi) -> None:
            self._pi = pi
            for name, given in hooks.items():
                for hook in [given] if callable(given) else given:
                    self.on(name, hook)

        session = self._session
        for setup in (*setups, own):
            name = "<program>" if setup is own else f"<{getattr(setup, '__qualname__', type(setup).__name__)}>"
            line = await load_function(
                session.extensions, setup, name, acting(session), lambda: facts(session), self._bus
            )
            self._lines.append(line)

    # Hooks.

    def on(self, name: str, hook: Hook) -> Callable[[], None]:
        assert self._pi is not None
        pi, places = self._pi, _places(hook)

        def handler(event: Any, ctx: Any) -> Any:
            return hook(event, ctx) if places > 1 else hook(event)

        pi.on(name, handler)
        return lambda: pi.off(handler)

    # Permission.

    def ask_before_tools(self, permission: Permission) -> None:
        async def asked(event: Mapping[str, Any]) -> dict[str, Any] | None:
            name = str(event["toolName"])
            if name == STRUCTURED:
                return None  # it does nothing
            patience = PATIENCE.get()
            with patience.paused() if patience is not None else nullcontext():
                said = await self._threads.call(permission, name, dict(event["input"]))
            if said is True:
                return None
            return {"block": True, "reason": said if said and isinstance(said, str) else DENIED.format(name=name)}

        self._session.extensions.on("tool_call", "<permission>", asked, LAST)

    # Dialogs.

    def answer_dialogs(self, handler: DialogHandler, methods: tuple[Method, ...] = ()) -> Callable[[], None]:
        async def answer(dialog: Dialog) -> Answer:
            said: Answer = await self._threads.call(handler, dialog)
            return said

        self._session.dialogs.has_ui = True
        return self._dialogs.add(answer, methods)

    def hear(self, event: AgentEvent) -> None:
        if isinstance(event, Select | Confirm | Input | Editor):
            task = asyncio.ensure_future(self._answer(event))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, dialog: Dialog) -> None:
        try:
            answer = await self._dialogs.answer(dialog)
        except Exception as error:
            report("A handler of dialogs failed, so the dialog is cancelled", error)
            answer = response(dialog, None)
        self._session.dialogs.answer(plain(answer))

    async def end(self) -> None:
        for task in tuple(self._answering):
            task.cancel()
        for line in self._lines:
            await line.end()


def _places(function: Callable[..., Any]) -> int:
    """How many arguments it takes by position."""
    try:
        kinds = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return 1
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return 2
    return sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
