"""Extension loader: starts the extensions of a session concurrently and registers them in load order."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import cache, partial
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tau.errors import ExtensionFailure, NodeUnsupported, UsageError
from tau.extension_api.api import Pi
from tau.extension_api.channel import TargetFunction
from tau.extension_api.messages import Load, Register
from tau.records.base import UNSET, replace, to_builtins
from tau.runtime.extensions.connection import Transport
from tau.runtime.extensions.process import ExtensionProcess
from tau.runtime.extensions.registrations import Bus, Registrations
from tau.runtime.extensions.registry import (
    ExtensionRegistry,
    Handler,
    ProgressCallback,
    calling_session,
    current_timeout,
)
from tau.runtime.extensions.restarts import Act, RestartingExtension
from tau.store.extension_files import NODE_SUFFIXES
from tau.store.proxy_setting import process_environment

if TYPE_CHECKING:
    from tau.runtime.extensions.node_hosts import NodeHosts

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0  # seconds


class ExtensionFile(Protocol):
    """File or folder of an extension. `given`: named on the command line, so a load failure is an error."""

    @property
    def path(self) -> str | Path: ...

    @property
    def given(self) -> bool: ...

    @property
    def content(self) -> Mapping[str, str] | None:
        """SHA-256 digests by real path, to which the trust in its project is bound."""

    @property
    def package(self) -> Path | None:
        """The folder of an extension in TypeScript, if it has one of its own."""

    @property
    def hint(self) -> str:
        """What to add to the message if it cannot be loaded."""


class RunningExtensions:
    """The loaded file extensions of a session."""

    def __init__(
        self, extensions: ExtensionRegistry, child: Callable[[ExtensionFile, int, Bus], RestartingExtension]
    ) -> None:
        self._extensions = extensions
        self._child = child
        self._bus = Bus(extensions)
        self._children: list[RestartingExtension] = []

    async def add(self, found: Sequence[ExtensionFile], closed: Mapping[str, Sequence[str]] | None = None) -> None:
        """Load `found` after the extensions that are already loaded.

        Raises ExtensionFailure if an extension with `given` cannot be loaded; all extensions are stopped then.

        With `closed`, which a reload passes, loading continues without such an extension. `closed` maps paths to the
        gates of the extension before the reload; these gates stay closed if it cannot be loaded.
        """
        first = len(self._children)
        children = [self._child(item, first + order, self._bus) for order, item in enumerate(found)]
        self._children += children
        try:
            ends = await asyncio.gather(*(child.start() for child in children), return_exceptions=True)
        except BaseException:
            self.kill()
            raise
        unsupported: list[RestartingExtension] = []
        for item, child, end in zip(found, children, ends, strict=True):
            if end is None:
                child.install()
                continue
            if isinstance(end, NodeUnsupported):
                if item.given and closed is None:
                    await self.stop()
                    raise UsageError(f"--extension {child.path}: {end}") from end
                unsupported.append(child)
                child.give_up(str(end), (closed or {}).get(child.path, ()))
                continue
            if closed is None and (item.given or not isinstance(end, ExtensionFailure)):
                await self.stop()
                raise ExtensionFailure(f"Failed to load extension {child.path}: {end}") from end
            self._extensions.report(child.path, "load", f"{end} {item.hint}".rstrip())
            child.give_up(str(end), (closed or {}).get(child.path, ()))
        if unsupported:
            names = ", ".join(child.path for child in unsupported)
            log.warning("Not loaded: %s. %s.", names, next(end for end in ends if isinstance(end, NodeUnsupported)))

    async def stop(self) -> None:
        await asyncio.gather(*(child.stop(SHUTDOWN_TIMEOUT_S) for child in self._children))
        self._children = []

    def send_facts(self) -> None:
        for child in self._children:
            child.send_facts()

    def kill(self) -> None:
        """Kill all child processes at exit, without waiting for them."""
        for child in self._children:
            child.kill()

    async def reload(self, found: Sequence[ExtensionFile]) -> None:
        """Replace the loaded extensions by `found`. Their gates stay closed in between."""
        gates = {child.path: child.gates for child in self._children}
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = [(hook, self._hold(hook, loaded)) for hook in {hook for hooks in gates.values() for hook in hooks}]
        try:
            await self.stop()
            remaining = {str(item.path) for item in found}
            await self.add(found, {path: hooks for path, hooks in gates.items() if path in remaining})
        finally:
            for hook, handler in held:
                self._extensions.off(hook, handler)
            loaded.set_result(None)

    def _hold(self, hook: str, loaded: asyncio.Future[None]) -> Handler:
        """Hold a gate during a reload: calls wait for its end and are then checked by the new extensions."""

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
    environment: Mapping[str, str] = os.environ,
) -> RunningExtensions:
    """`environment`: that of the session; its proxies are passed on to the processes."""

    passed_environment = process_environment(environment)

    def load(path: str, modules: Mapping[str, str]) -> Load:
        limit = extensions.settings().extension_host.memory_limit_mb
        return Load(path, cwd, agent_dir, mode, has_ui, dict(flags), facts(), limit, dict(following), dict(modules))

    @cache
    def node_hosts() -> NodeHosts:
        from tau.runtime.extensions.node_hosts import NodeHosts

        return NodeHosts(lambda: extensions.settings().extension_host, cwd, passed_environment)

    def transport(path: str, package: Path | None) -> Transport:
        if path.endswith(NODE_SUFFIXES):
            return node_hosts().line(path, str(package or path))
        return ExtensionProcess(cwd, environment=passed_environment)

    def child(found: ExtensionFile, order: int, bus: Bus) -> RestartingExtension:
        path, package = str(found.path), found.package

        def load_with_root(path: str, modules: Mapping[str, str]) -> Load:
            return replace(load(path, modules), root=UNSET if package is None else str(package))

        start = partial(transport, path, package)
        return RestartingExtension(
            path, order, extensions, bus, act, load_with_root, facts, start, found.content, package
        )

    running = RunningExtensions(extensions, child)
    await running.add(found)
    return running


# Extensions in this process.

_numbers = itertools.count(1_000_000)  # orders after every file extension


class InProcessChannel:
    """Channel of an extension that is a function in this process."""

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
        self._runs: dict[int, TargetFunction] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

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
        return await self._act(self._name, name, params, current_timeout.get())

    def clear(self) -> None:
        self._registrations.clear()

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
        except Exception as error:
            self._extensions.report(self._name, name, str(error) or type(error).__name__)

    async def _invoke(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Any:
        call = InProcessCall(update)
        try:
            return to_builtins(await self._runs[target](to_builtins(dict(params)), call))
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
    pi = Pi(channel, flags or {})
    try:
        value = setup(pi)
        if isawaitable(value):
            await value
    except Exception as error:
        channel.clear()
        raise ExtensionFailure(f"Failed to load extension {name}: {error}") from error
    pi.mark_loaded()
    return channel
