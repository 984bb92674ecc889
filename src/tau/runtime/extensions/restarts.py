"""Restart policy for an extension in a child process.

A process that exits or is killed is replaced by a new one, up to a limit, and the new process registers again. A
failed restart is retried with increasing delays, and earlier if a gate needs the extension. Gates fail closed: while
the extension has no process, and permanently once the limit is reached, every call that it guards is blocked. An
extension may register its gates in session_start, so calls wait until the new process has handled that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from tau.concurrency.threads import run_in_thread
from tau.errors import ExtensionFailure
from tau.extension_api.hooks import HOOKS
from tau.extension_api.messages import Load, Register, Trouble, Unregister
from tau.runtime.extensions.connection import ExtensionConnection, Transport
from tau.runtime.extensions.registrations import Bus, Registrations
from tau.runtime.extensions.registry import (
    ExtensionRegistry,
    Handler,
    PausableTimeout,
    ProgressCallback,
    current_timeout,
)
from tau.store.extension_modules import Program, first_changed, module_digests, program_of, trusted_digests

MAX_RESTARTS = 3
RESTART_WINDOW_S = 600.0  # seconds
RETRY_DELAYS_S = (
    1.0,
    5.0,
    30.0,
    120.0,
    600.0,
)  # seconds before the next retry of a failed restart; the last one repeats

RELOAD = "Reload the extensions, or start tau again, to use the new version."

Act = Callable[[str, str, dict[str, Any], PausableTimeout | None], Awaitable[Any]]


class Changed(ExtensionFailure):
    """The files of an extension differ from those that were trusted or loaded first."""


class RestartingExtension:
    """An extension and its successive processes.

    `load` builds the first message for a process from the present state, `transport` creates the process for it; `act`
    carries out actions.
    """

    def __init__(
        self,
        path: str,
        order: int,
        extensions: ExtensionRegistry,
        bus: Bus,
        act: Act,
        load: Callable[[Program, Mapping[str, str]], Load],
        facts: Callable[[], dict[str, Any]],
        transport: Callable[[], Transport],
        content: Mapping[str, str] | None = None,
        package: Path | None = None,
    ) -> None:
        """`content`: SHA-256 digests by real path, to which the trust in its project is bound.

        `package`: the folder with all of its modules, if `path` is only one of them.
        """
        self.path = path
        self._package = package
        self._content = content
        self._modules: Mapping[str, str] | None = None  # digests at the first load
        self._extensions = extensions
        self._bus = bus
        self._act = act
        self._load = load
        self._facts = facts
        self._transport = transport
        self._order = order
        self._registrations = Registrations(extensions, bus, path, order, self._peers)
        self._held: list[Register] | None = []  # until the other extensions have loaded, to keep the load order
        self._connection: ExtensionConnection | None = None
        self._guards: list[tuple[str, Handler]] = []
        self._restart: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()  # a restart failed: its waiters do not wait for the next
        self._needed = asyncio.Event()
        self._restarts: deque[float] = deque(maxlen=MAX_RESTARTS)
        self._died: str | None = None  # reason, if it exited between load and `install`
        self._down: str | None = None
        self.stopping = False

    async def start(self) -> None:
        """Start a process and collect what it registers while loading; `install` applies that.

        Raises ExtensionFailure; Changed if the files differ from those that were trusted or loaded first.
        """
        self._held, self._died = [], None
        transport = self._transport()
        try:
            program, self._modules = await self._known_modules()
        except BaseException:
            transport.kill()
            raise
        if self.stopping:
            transport.kill()
            raise ExtensionFailure("It was stopped.")
        load = self._load(program, self._modules)
        connection = self._connection = ExtensionConnection(load, transport, self, self._facts)
        await connection.start(self._load_timeout_s)

    @property
    def _load_timeout_s(self) -> float:
        return self._extensions.settings().extension_host.load_timeout_ms / 1000

    @property
    def restarting(self) -> bool:
        """True while it has no process, and is about to have another."""
        return self._restart is not None and not self._restart.done()

    async def renew(self) -> None:
        """Start anew for another session, in the present process, or in a new one if that has ended.

        What it registers meanwhile is applied by `install`, as after `start`, which raises the same.
        """
        if self.stopping:
            return
        self._clear()
        self._down = None
        if self._connection is None or not self._connection.usable:
            await self.start()
            return
        self._held, self._died = [], None
        await self._connection.renew(self._load_timeout_s)

    async def _known_modules(self) -> tuple[Program, Mapping[str, str]]:
        def look() -> tuple[Program, Mapping[str, str]]:
            program = program_of(Path(self.path), self._package)
            return program, module_digests(program, installed=self._content is not None)

        program, now = await run_in_thread(look, "look at an extension")
        if self._modules is not None:
            if (file := first_changed(self._modules, now)) is not None:
                raise Changed(f"{file} changed since the extension was loaded. {RELOAD}")
        elif (
            self._content is not None and (file := first_changed(trusted_digests(now, self._content), now)) is not None
        ):
            raise Changed(f"{file} changed since the project was trusted. {RELOAD}")
        return program, now

    def install(self) -> None:
        held, self._held = self._held or [], None
        self._extensions.terminal.remove_shown(self.path)  # what code of a session that was left has still shown
        for message in held:
            self._registrations.add(message, self._invoke)
        if self._died is not None:
            self.ended(self._died, reported=False)

    @property
    def gates(self) -> list[str]:
        """The gate hooks that this extension handles."""
        return [hook for hook, rule in HOOKS.items() if rule.gate and self._registrations.handlers(hook)]

    def give_up(self, why: str, gates: Sequence[str]) -> None:
        """Mark the extension as failed to load. The gates that it had before stay closed."""
        self._connection = None
        self._down = f"It could not be loaded: {why}"
        self._guards = [(hook, self._guard(hook)) for hook in gates]

    async def stop(self, seconds: float) -> None:
        self.stopping = True
        if self._restart is not None:
            self._restart.cancel()
        if self._connection is not None:
            await self._connection.stop(seconds)
        self._clear()

    def send_facts(self) -> None:
        if self._connection is not None and not self.stopping:
            self._connection.send_facts()

    def kill(self) -> None:
        self.stopping = True
        if self._connection is not None:
            self._connection.kill()

    def _clear(self) -> None:
        self._registrations.clear()
        for hook, guard in self._guards:
            self._extensions.off(hook, guard)
        self._guards.clear()

    def _invoke(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Awaitable[Any]:
        assert self._connection is not None
        return self._connection.call(target, params, update, loud=loud)

    # Called by the connection.

    def registered(self, message: Register) -> None:
        if self._held is not None:
            self._held.append(message)
        else:
            self._registrations.add(message, self._invoke)

    def unregistered(self, message: Unregister) -> None:
        if self._held is not None:
            self._held = [held for held in self._held if held.target != message.target]
        self._registrations.remove(message.target)

    def report_trouble(self, message: Trouble) -> None:
        self._extensions.report(self.path, message.event, message.error)

    async def perform(self, name: str, params: dict[str, Any]) -> Any:
        if name == "emit":
            return await self._bus.emit(str(params.get("channel")), params.get("data"), self._peers(params))
        if name == "get_facts":
            return self._facts()
        return await self._act(self.path, name, params, current_timeout.get())

    def _peers(self, spec: Mapping[str, Any]) -> object:
        """The process whose extensions get what is emitted without tau; None if tau passes it on to all."""
        return self._connection.peers if spec.get("elsewhere") and self._connection is not None else None

    def ended(self, why: str, *, reported: bool) -> None:
        if self.stopping:
            return
        if self._held is not None:  # not installed yet, so nothing depends on it
            self._died = why
            return
        gates = self.gates
        self._clear()
        self._guards = [(hook, self._guard(hook)) for hook in gates]
        now = asyncio.get_running_loop().time()
        if len(self._restarts) == MAX_RESTARTS and now - self._restarts[0] < RESTART_WINDOW_S:
            self._down = f"{why} It was restarted {MAX_RESTARTS} times within 10 minutes and is not restarted again."
            self._extensions.report(self.path, "exit", self._down)
            return
        if not reported:
            self._extensions.report(self.path, "exit", why)
        self._restarts.append(now)
        self._restart = asyncio.get_running_loop().create_task(self._start_again())

    # Restart.

    async def _start_again(self) -> None:
        for pause in chain(RETRY_DELAYS_S, repeat(RETRY_DELAYS_S[-1])):
            try:
                await self.start()
                break
            except Changed as change:
                self._down = f"It ended and is not restarted: {change}"
                self._extensions.report(self.path, "load", self._down)
                return
            except (ExtensionFailure, OSError) as failure:
                reported, self._down = self._down, f"It could not be restarted; the restart will be retried: {failure}"
            if reported is None:
                self._extensions.report(self.path, "load", self._down)
            await self._pause(pause)
        self._down = None
        guards = self._guards
        self.install()
        failed = await self._announce_start()
        if self._guards is guards:  # else it has ended again, and the next process has other guards
            self._guards = [(hook, guard) for hook, guard in guards if failed and not self._guarding(hook)]
            for hook, guard in guards:
                if (hook, guard) not in self._guards:
                    self._extensions.off(hook, guard)

    async def _announce_start(self) -> bool:
        """Call session_start of a restarted extension. Returns True if a handler failed: its gates may be missing."""
        failed = False
        for handler in self._registrations.handlers("session_start"):
            seconds = self._extensions.settings().extension_host.observer_timeout_ms / 1000
            try:
                await self._extensions.ask(handler.call({"type": "session_start", "reason": "reload"}), seconds)
            except ExtensionFailure as failure:
                self._extensions.report(self.path, "session_start", str(failure))
                failed = True
        return failed

    def _guarding(self, hook: str) -> list[Handler]:
        """The handlers that the present process has registered."""
        return [handler for handler in self._registrations.handlers(hook) if not handler.placeholder]

    async def _pause(self, seconds: float) -> None:
        """Wait before the next restart: at most `seconds`, and at most the first pause once it is needed."""
        tried, self._tried = self._tried, asyncio.Event()
        tried.set()
        self._needed.clear()
        await asyncio.sleep(RETRY_DELAYS_S[0])
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds - RETRY_DELAYS_S[0]):
                await self._needed.wait()

    async def _next_try(self, again: asyncio.Task[None]) -> None:
        """Request a restart soon, and wait until it has succeeded or failed."""
        self._needed.set()
        attempt = asyncio.ensure_future(self._tried.wait())
        try:
            await asyncio.wait([again, attempt], return_when=asyncio.FIRST_COMPLETED)
        finally:
            attempt.cancel()

    def _guard(self, hook: str) -> Handler:
        """Placeholder for a gate without a process: waits for the next process, or blocks the call."""

        async def call(payload: Mapping[str, Any]) -> None:
            if self._restart is not None and self.restarting:
                await self._next_try(self._restart)
            if self._down is not None or self.stopping:
                raise ExtensionFailure(self._down or "It is no longer loaded.")
            if guard in self._registrations.handlers(hook) and not self._guarding(hook):
                raise ExtensionFailure("It was restarted, but session_start failed and the gate is missing.")

        guard = self._extensions.on(hook, self.path, call, self._order, placeholder=True)
        return guard
