"""All extensions of a session, started side by side and registered in their order."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from tau.errors import ExtensionFailure
from tau.extension_api.api import Pi
from tau.extension_api.context import Run
from tau.extension_api.messages import Load, Register
from tau.records.base import plain
from tau.runtime.extensions.registrations import Bus, Registrations
from tau.runtime.extensions.registry import ExtensionRegistry, Handler, ProgressCallback, current_timeout
from tau.runtime.extensions.restarts import Act, RestartingExtension

SHUTDOWN = 1.0  # seconds


class ExtensionFile(Protocol):
    """An extension's file or folder. One that was `given` on the command line must load."""

    @property
    def path(self) -> str | Path: ...

    @property
    def given(self) -> bool: ...

    @property
    def content(self) -> Mapping[str, str] | None:
        """What trust in its project is bound to: SHA-256 by real path."""


class RunningExtensions:
    """The extensions that were loaded."""

    def __init__(
        self, extensions: ExtensionRegistry, child: Callable[[ExtensionFile, int, Bus], RestartingExtension]
    ) -> None:
        self._extensions = extensions
        self._child = child
        self._bus = Bus(extensions)
        self._children: list[RestartingExtension] = []

    async def add(self, found: Sequence[ExtensionFile], shut: Mapping[str, Sequence[str]] | None = None) -> None:
        """Load these, after those that are there. Raises ExtensionFailure if one that was given cannot be loaded;
        then none is left.

        With `shut` it goes on without such a one: it was there before, and the gates that it had, which are in
        `shut` by its path, stay shut.
        """
        first = len(self._children)
        children = [self._child(item, first + order, self._bus) for order, item in enumerate(found)]
        self._children += children
        try:
            ends = await asyncio.gather(*(child.start() for child in children), return_exceptions=True)
        except BaseException:
            self.kill()
            raise
        for item, child, end in zip(found, children, ends, strict=True):
            if end is None:
                child.install()
                continue
            if shut is None and (item.given or not isinstance(end, ExtensionFailure)):
                await self.stop()
                raise ExtensionFailure(f"Failed to load extension {child.path}: {end}") from end
            self._extensions.report(child.path, "load", str(end))
            child.give_up(str(end), (shut or {}).get(child.path, ()))

    async def stop(self) -> None:
        await asyncio.gather(*(child.stop(SHUTDOWN) for child in self._children))
        self._children = []

    def kill(self) -> None:
        """At the last moment: does not wait."""
        for child in self._children:
            child.kill()

    async def reload(self, found: Sequence[ExtensionFile]) -> None:
        """These instead of those that are there. What was guarded is not open in between."""
        gates = {child.path: child.gates for child in self._children}
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = [(hook, self._hold(hook, loaded)) for hook in {hook for hooks in gates.values() for hook in hooks}]
        try:
            await self.stop()
            kept = {str(item.path) for item in found}
            await self.add(found, {path: hooks for path, hooks in gates.items() if path in kept})
        finally:
            for hook, handler in held:
                self._extensions.off(hook, handler)
            loaded.set_result(None)

    def _hold(self, hook: str, loaded: asyncio.Future[None]) -> Handler:
        """Who wants to pass a gate meanwhile waits, and is then looked at by those who guard it."""

        async def call(payload: Mapping[str, Any]) -> Any:
            await asyncio.shield(loaded)
            return await self._extensions.fire(hook, payload)

        return self._extensions.on(hook, "<runtime>", call, -1)


async def load_extensions(
    extensions: ExtensionRegistry,
    found: Sequence[ExtensionFile],
    act: Act,
    facts: Callable[[], dict[str, Any]],
    cwd: str,
    agent_dir: str,
    mode: str,
    has_ui: bool,
    flags: Mapping[str, Any],
    following: Mapping[str, str] = MappingProxyType({}),
) -> RunningExtensions:
    def load(path: str, modules: Mapping[str, str]) -> Load:
        limit = extensions.settings().extension_host.memory_limit_mb
        return Load(path, cwd, agent_dir, mode, has_ui, dict(flags), facts(), limit, dict(following), dict(modules))

    def child(found: ExtensionFile, order: int, bus: Bus) -> RestartingExtension:
        return RestartingExtension(str(found.path), order, extensions, bus, act, load, facts, found.content)

    running = RunningExtensions(extensions, child)
    await running.add(found)
    return running


# In this process.

_numbers = itertools.count(1_000_000)  # after every extension from a file


class InProcessChannel:
    """The line of a function that is run in this process."""

    def __init__(
        self, extensions: ExtensionRegistry, name: str, act: Act, facts: Callable[[], dict[str, Any]], bus: Bus
    ) -> None:
        self._extensions = extensions
        self._name = name
        self._act = act
        self._facts = facts
        self._bus = bus
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._registrations = Registrations(extensions, bus, name, next(_numbers))
        self._runs: dict[int, Run] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def facts(self) -> dict[str, Any]:
        return self._facts()

    def register(self, kind: str, name: str, spec: dict[str, Any], run: Run | None = None) -> int:
        self._count += 1
        if run is not None:
            self._runs[self._count] = run
        self._registrations.add(Register(kind, self._count, name, spec), self._invoke)
        return self._count

    def unregister(self, target: int) -> None:
        self._registrations.remove(target)

    def tell(self, name: str, params: dict[str, Any]) -> None:
        if threading.get_ident() != self._thread:  # of a plain tool or command
            self._loop.call_soon_threadsafe(self.tell, name, params, context=copy_context())
            return
        task = self._loop.create_task(self._told(name, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        if name == "emit":
            return await self._bus.emit(str(params.get("channel")), params.get("data"))
        return await self._act(self._name, name, params, current_timeout.get())

    def clear(self) -> None:
        self._registrations.clear()

    async def end(self) -> None:
        """Take everything back, and stop what it was told without waiting for an answer."""
        self.clear()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SHUTDOWN)

    async def _told(self, name: str, params: dict[str, Any]) -> None:
        try:
            await self.act(name, params)
        except Exception as error:
            self._extensions.report(self._name, name, str(error) or type(error).__name__)

    async def _invoke(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Any:
        calling = InProcessCall(update)
        try:
            return plain(await self._runs[target](plain(dict(params)), calling))
        except asyncio.CancelledError:
            calling.cancelled = True
            raise


class InProcessCall:
    def __init__(self, update: ProgressCallback | None) -> None:
        self.cancelled = False
        self._update = update

    def update(self, value: Any) -> None:
        if self._update is not None:
            self._update(plain(value))

    async def put(self, value: Any) -> None:
        room = None if self._update is None else self._update(plain(value))
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
    """Run `setup(pi)` here. Functions are trusted not to block, but may raise and be late like any other."""
    line = InProcessChannel(extensions, name, act, facts, bus or Bus(extensions))
    pi = Pi(line, flags or {})
    try:
        value = setup(pi)
        if isawaitable(value):
            await value
    except Exception as error:
        line.clear()
        raise ExtensionFailure(f"Failed to load extension {name}: {error}") from error
    pi.begin()
    return line
