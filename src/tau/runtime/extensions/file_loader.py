"""Starts the extensions of a session that are files, concurrently, and registers them in load order."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tau.errors import ExtensionFailure, NodeUnsupported, UsageError
from tau.extension_api.messages import Load
from tau.records.base import UNSET
from tau.runtime.extensions.connection import Transport
from tau.runtime.extensions.process import ExtensionProcess
from tau.runtime.extensions.registrations import Bus
from tau.runtime.extensions.registry import ExtensionRegistry, Handler
from tau.runtime.extensions.restarts import Act, RestartingExtension
from tau.store.extension_files import NODE_SUFFIXES
from tau.store.extension_modules import Program
from tau.store.proxy_setting import process_environment

if TYPE_CHECKING:
    from tau.runtime.extensions.node_hosts import NodeHosts

logger = logging.getLogger(__name__)

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
        self._changing = asyncio.Lock()  # all extensions are being replaced, or start anew

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
            logger.warning("Not loaded: %s. %s.", names, next(end for end in ends if isinstance(end, NodeUnsupported)))

    async def renew(self, announce: Callable[[], Awaitable[None]]) -> None:
        """Let all extensions start anew, in load order, then `announce` the start of another session to them.

        One that cannot start is reported, and its gates stay closed.
        """
        async with self._changing, self._gates_held() as gates:
            renewed = []
            for child in [child for child in self._children if not child.restarting]:
                try:
                    await child.renew()
                    renewed.append(child)
                except (ExtensionFailure, OSError) as failure:
                    if not child.stopping:
                        self._extensions.report(child.path, "load", str(failure))
                        child.give_up(str(failure), gates[child.path])
            for child in renewed:
                child.install()
            await announce()

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

    async def reload(self, found: Sequence[ExtensionFile], announce: Callable[[], Awaitable[None]]) -> None:
        """Replace the loaded extensions by `found`, then `announce` the start to them."""
        async with self._changing, self._gates_held() as gates:
            await self.stop()
            remaining = {str(item.path) for item in found}
            await self.add(found, {path: hooks for path, hooks in gates.items() if path in remaining})
            await announce()

    @asynccontextmanager
    async def _gates_held(self) -> AsyncIterator[Mapping[str, Sequence[str]]]:
        """Hold the gates of all extensions, and return them by path: one may be registered in session_start only."""
        gates = {child.path: child.gates for child in self._children}
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        held = [(hook, self._hold(hook, loaded)) for hook in {hook for hooks in gates.values() for hook in hooks}]
        try:
            yield gates
        finally:
            for hook, handler in held:
                self._extensions.off(hook, handler)
            loaded.set_result(None)

    def _hold(self, hook: str, loaded: asyncio.Future[None]) -> Handler:
        """Hold a gate until `loaded`: calls wait for that and are then checked by the new extensions."""

        async def call(payload: Mapping[str, Any]) -> None:
            await asyncio.shield(loaded)

        return self._extensions.on(hook, "<runtime>", call, -1, placeholder=True)


async def load_extensions(
    extensions: ExtensionRegistry,
    found: Sequence[ExtensionFile],
    act: Act,
    facts: Callable[[], dict[str, Any]],
    folder: Callable[[], str],
    agent_dir: str,
    mode: str,
    has_ui: bool,
    flags: Mapping[str, Any],
    following: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = os.environ,
) -> RunningExtensions:
    """`folder` returns that of the session. `environment`: that of the session; its proxies are passed on to the
    processes.
    """

    passed_environment = process_environment(environment)

    @cache
    def node_hosts(cwd: str) -> NodeHosts:
        from tau.runtime.extensions.node_hosts import NodeHosts

        return NodeHosts(lambda: extensions.settings().extension_host, cwd, passed_environment)

    def transport(path: str, package: Path | None) -> Transport:
        if path.endswith(NODE_SUFFIXES):
            return node_hosts(folder()).line(path, str(package or path))
        return ExtensionProcess(folder(), environment=passed_environment)

    def child(found: ExtensionFile, order: int, bus: Bus) -> RestartingExtension:
        path, package = str(found.path), found.package

        def load(program: Program, modules: Mapping[str, str]) -> Load:
            limit, cwd = extensions.settings().extension_host.memory_limit_mb, folder()
            # A path that is computed may lead to what was not trusted, or to what tools may write.
            closed = found.content is not None or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(cwd))
            installed = program.locked if found.content is not None else program.installed
            return Load(
                *(path, cwd, agent_dir, mode, has_ui, dict(flags), facts(), limit, dict(following), dict(modules)),
                root=UNSET if package is None else str(package),
                closed=closed,
                installed=list(map(str, installed)),
            )

        start = partial(transport, path, package)
        return RestartingExtension(path, order, extensions, bus, act, load, facts, start, found.content, package)

    running = RunningExtensions(extensions, child)
    await running.add(found)
    return running
