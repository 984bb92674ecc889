"""Functions of the embedding program as extensions, in its own process. file_loader.py loads those in files."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import Any

from tau.concurrency.tasks import await_foreign, failure_of
from tau.errors import ExtensionFailure
from tau.extension_api.api import Pi
from tau.extension_api.channel import SetupChannel, TargetFunction
from tau.extension_api.hooks import HOOKS
from tau.extension_api.messages import Register
from tau.records.base import to_builtins
from tau.runtime.extensions.registrations import Bus, Registrations
from tau.runtime.extensions.registry import ExtensionRegistry, ProgressCallback, calling_session, current_timeout
from tau.runtime.extensions.restarts import Act

SHUTDOWN_TIMEOUT_S = 1.0  # seconds

_numbers = itertools.count(1_000_000)  # orders after every file extension


class InProcessChannel:
    """Channel of an extension that is a function in this process."""

    def __init__(
        self, extensions: ExtensionRegistry, name: str, act: Act, facts: Callable[[], dict[str, Any]], bus: Bus
    ) -> None:
        self._extensions = extensions
        self.name = name
        self._act = act
        self._facts = facts
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._registrations = Registrations(extensions, bus, name, next(_numbers))
        self._runs: dict[int, TargetFunction] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._present: SetupChannel | None = None

    async def set_up(self, setup: Callable[[Pi], Any], flags: Mapping[str, Any]) -> None:
        """Run `setup(pi)`, for another session again, when nothing of its last run is left.

        Raises ExtensionFailure. The gates that there were before stay closed then.
        """
        gates = [hook for hook, rule in HOOKS.items() if rule.gate and self._registrations.handlers(hook)]
        await self.end()
        left, self._present = self._present, SetupChannel(self)
        if left is not None:
            left.next = self._present
        pi = Pi(self._present, flags)
        try:
            value = setup(pi)
            if isawaitable(value):
                await await_foreign(value)
        except BaseException as error:
            cause = failure_of(error)
            self.clear()
            failure = ExtensionFailure(f"Failed to load extension {self.name}: {cause}")
            for hook in gates:
                self.register("handler", hook, {}, partial(_refuse, failure))
            raise failure from cause
        pi.mark_loaded()

    @property
    def facts(self) -> dict[str, Any]:
        return self._facts()

    def register(self, kind: str, name: str, spec: dict[str, Any], run: TargetFunction | None = None) -> int:
        self._count += 1
        if run is not None:
            self._runs[self._count] = run
        self._registrations.add(Register(kind, self._count, name, spec), self._invoke)
        return self._count

    def unregister(self, target: int) -> None:
        self._registrations.remove(target)

    def tell(self, name: str, params: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:  # called by a synchronous tool or command
            self._loop.call_soon_threadsafe(self.tell, name, params, context=copy_context())
            return
        context = copy_context()
        context.run(calling_session.set, self.facts.get("sessionId"))
        task = self._loop.create_task(self._act_and_report(name, params), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        if name == "emit":
            return await self._bus.emit(str(params.get("channel")), params.get("data"))
        return await self._act(self.name, name, params, current_timeout.get())

    def clear(self) -> None:
        self._registrations.clear()
        self._runs.clear()

    async def end(self) -> None:
        """Remove all registrations, and cancel the actions that were started by `tell`."""
        self.clear()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN_TIMEOUT_S)

    async def _act_and_report(self, name: str, params: dict[str, Any]) -> None:
        try:
            await self.act(name, params)
        except BaseException as error:
            failure = failure_of(error)
            self._extensions.report(self.name, name, str(failure) or type(failure).__name__)

    async def _invoke(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Any:
        call = InProcessCall(update)
        try:
            return to_builtins(await await_foreign(self._runs[target](to_builtins(dict(params)), call)))
        except asyncio.CancelledError:
            call.cancelled = True
            raise


class InProcessCall:
    def __init__(self, update: ProgressCallback | None) -> None:
        self.cancelled = False
        self._update = update

    def update(self, value: Any) -> None:
        if self._update is not None:
            self._update(to_builtins(value))

    async def put(self, value: Any) -> None:
        room = None if self._update is None else self._update(to_builtins(value))
        if room is not None:
            await room


async def load_function(
    extensions: ExtensionRegistry,
    setup: Callable[[Pi], Any],
    name: str,
    act: Act,
    facts: Callable[[], dict[str, Any]],
    bus: Bus | None = None,
    flags: Mapping[str, Any] | None = None,
) -> InProcessChannel:
    """Run `setup(pi)` in this process.

    Such functions are trusted not to block the event loop, but may raise and time out like any other extension.
    """
    channel = InProcessChannel(extensions, name, act, facts, bus or Bus(extensions))
    await channel.set_up(setup, flags or {})
    return channel


async def _refuse(failure: ExtensionFailure, params: Mapping[str, Any], call: Any) -> None:
    raise failure
