"""Lifecycle of a session's extensions: load, session start and shutdown hooks, reload.

Opening the session determines the extension files; starting it loads them. Without extensions, the modules that
run them are not imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tau.concurrency.tasks import failure_of
from tau.errors import Aborted, ExtensionFailure, TauError, UsageError
from tau.llm.catalog import parse_providers
from tau.records.base import UNSET
from tau.records.replies import SlashCommand, SourceInfo
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.registry import Check, ExtensionRegistry, calling_session
from tau.runtime.extensions.running_commands import RunningCommands
from tau.runtime.models.logins import LoginKey
from tau.runtime.models.selection import ModelSelection
from tau.runtime.resources import Resources
from tau.runtime.services import Services

logger = logging.getLogger(__name__)
SCOPES: dict[str, Literal["user", "project", "temporary"]] = {
    "cli": "temporary",
    "project": "project",
    "user": "user",
}
ANSWERS = ("yes", "no", "undecided")
Announce = Callable[[], Awaitable[None]]


if TYPE_CHECKING:

    class ExtensionFile(Protocol):
        """File or folder of an extension. `given`: named on the command line, so a load failure is an error."""

        @property
        def path(self) -> str | Path: ...

        @property
        def given(self) -> bool: ...

        @property
        def scope(self) -> Literal["cli", "project", "user"]: ...

        @property
        def content(self) -> Mapping[str, str] | None: ...

        @property
        def source(self) -> str: ...

        @property
        def brought_by(self) -> str | None: ...

        @property
        def hint(self) -> str: ...

        @property
        def base(self) -> Path | None: ...

        @property
        def package(self) -> Path | None: ...

    class LoadedExtensions(Protocol):
        """The loaded file extensions, as RunningExtensions in file_loader.py."""

        async def add(self, found: Sequence[ExtensionFile]) -> None: ...

        async def stop(self) -> None: ...

        def kill(self) -> None: ...

        def send_facts(self) -> None: ...

        async def reload(self, found: Sequence[ExtensionFile], announce: Callable[[], Awaitable[None]]) -> None: ...

        async def renew(self, announce: Callable[[], Awaitable[None]]) -> None: ...

    class LoadPlan(Protocol):
        """The extensions to load for a session, and what depends on them.

        `flags` are command-line options that tau does not know. `following` has the words that follow options without
        a value of their own.
        """

        flags: Mapping[str, bool | str]
        following: Mapping[str, str]

        @property
        def found(self) -> Sequence[ExtensionFile]: ...

        @property
        def undecided(self) -> bool:
            """True if there is no trust decision about the project, and asking for one is allowed."""

        async def load(self) -> LoadedExtensions:
            """Raises ExtensionFailure if an extension named on the command line cannot be loaded."""

        async def ask(self) -> None:
            """Prepare to ask extensions for trust in the project: a yes applies to its present content."""

        async def decided(self, trusted: bool | None, *, remember: bool) -> Sequence[ExtensionFile]:
            """Apply the trust decision (None: undecided). Returns the extensions that the project adds."""

        def settle(self) -> None:
            """Finish loading. Raises UsageError if something the command line names is still missing."""

        async def again(self) -> Sequence[ExtensionFile]:
            """Read settings, trust and extensions again. Returns the extensions to load."""

    class Owner(Protocol):
        """The session that the extensions belong to."""

        services: Services
        extensions: ExtensionRegistry
        hooks: HookDispatcher
        running_commands: RunningCommands
        models: ModelSelection
        resources: Resources


class ExtensionLifecycle:
    def __init__(self, owner: Owner, plan: LoadPlan | None = None) -> None:
        self._owner = owner
        self._plan = plan
        self._loading: asyncio.Future[LoadedExtensions] | None = None
        self._running: LoadedExtensions | None = None
        self._providers: set[str] = set()
        self._reloading: asyncio.Task[None] | None = None
        self._reload_wanted = False
        self._arrival: Announce | None = None  # announces a session in another folder, whose extensions are not loaded
        self._ended = False
        self._offered: tuple[list[str], ...] = ([], [])  # paths of skills and templates of extensions
        owner.extensions.changed = self._changed

    @property
    def has_extensions(self) -> bool:
        """True if there are extensions to load, or handlers to notify of the session start."""
        return bool(self._found) or bool(self._owner.extensions.handlers)

    @property
    def _found(self) -> Sequence[ExtensionFile]:
        return self._plan.found if self._plan is not None else ()

    async def start(self) -> None:
        """Load the extensions and fire session_start.

        Raises what LoadPlan.load and LoadPlan.settle raise, and UsageError for unknown options.
        """
        plan = self._plan
        if plan is not None and self.has_extensions:
            if plan.found:
                await self._load(plan)
            await self._ask_for_trust(plan)
            if plan.found and (unknown := sorted(plan.flags.keys() - self._owner.extensions.flags.keys())):
                raise UsageError(f"Unknown option: --{unknown[0]}. No extension registers it either.")
            plan.settle()
            for warning in misused_flags(plan.flags, plan.following, self._owner.extensions.flags):
                logger.warning("%s", warning)
        await self._announce_start("startup")

    async def _load(self, plan: LoadPlan) -> None:
        self._loading = asyncio.ensure_future(plan.load())
        self._running = await self._loading

    async def _ask_for_trust(self, plan: LoadPlan) -> None:
        """Ask the loaded extensions, none of which comes from the project, whether the project is trusted."""
        owner = self._owner
        if not plan.undecided:
            return
        if owner.extensions.wants("project_trust"):
            await plan.ask()
        answer = await self._ask("project_trust", {"cwd": owner.services.cwd}, check_trust)
        trusted = {"yes": True, "no": False}.get(answer.get("trusted", ""))
        added = await plan.decided(trusted, remember=bool(answer.get("remember")))
        if added and self._running is not None:
            await self._running.add(added)

    async def renew(
        self, reason: Literal["new", "resume", "fork"], previous: Mapping[str, str], *, moved: bool = False
    ) -> None:
        """Let the extensions start anew for the session that was opened, and announce it to them.

        `previous` has the file of the session that was left, if there is one. `moved`: the session runs in another
        folder, so the extensions of that folder are loaded instead, in new processes.
        """

        async def announce() -> None:
            if self._owner.extensions.renew_functions is not None:
                await self._owner.extensions.renew_functions()
            hook = "session_fork" if reason == "fork" else "session_switch"
            await self._owner.hooks.tell(hook, {"reason": reason, **previous})
            await self._announce_start(reason, previous)

        moved = self._arrival is not None or (moved and (self._running is not None or bool(self._found)))
        if self._plan is not None and moved:
            await self._replace(self._plan, announce)
        else:
            await (announce() if self._running is None else self._running.renew(announce))

    async def _replace(self, plan: LoadPlan, announce: Announce) -> None:
        """Load the extensions of the folder that was entered, and announce the session to them.

        A call by an extension is answered before that: a command goes on in its present process until it ends.
        """
        self._arrival = announce
        self._start_reloading(plan)
        if calling_session.get() is not None and self._running is not None:
            await self._running.renew(nothing)
        elif self._reloading is not None:
            await asyncio.wait([self._reloading])

    async def _announce_start(self, reason: str, previous: Mapping[str, str] = MappingProxyType({})) -> None:
        owner = self._owner
        await owner.hooks.tell("session_start", {"reason": reason, **previous})
        cwd = owner.services.cwd
        why = "reload" if reason == "reload" else "startup"
        answer = await self._ask("resources_discover", {"cwd": cwd, "reason": why})
        offered = tuple(
            [os.path.join(cwd, os.path.expanduser(path)) for path in answer.get(name, ()) if isinstance(path, str)]
            for name in ("skillPaths", "promptPaths")
        )
        if offered != self._offered:
            self._offered = offered
            owner.resources.withdraw()
            owner.resources.offer("extension", *offered)
            await owner.resources.reload()

    async def _ask(self, hook: str, payload: Mapping[str, Any], check: Check | None = None) -> Mapping[str, Any]:
        """Return the combined answer of the extensions.

        The answer is empty if an abort ends the wait: an abort never fails a start-up.
        """
        owner = self._owner
        try:
            return await owner.extensions.fire(hook, payload, owner.hooks.idle_signal, check)
        except Aborted:
            return {}

    def request_reload(self) -> None:
        """Reload when the running extension commands have ended: the request usually comes from one of them.

        A request that arrives during a reload leads to another reload after it: the present one may have read the
        files before they were changed.
        """
        if self._plan is not None:
            self._reload_wanted = True
            self._start_reloading(self._plan)

    def _start_reloading(self, plan: LoadPlan) -> None:
        if self._reloading is None and not self._ended:
            self._reloading = asyncio.create_task(self._reload_as_wanted(plan))

    async def _reload_as_wanted(self, plan: LoadPlan) -> None:
        try:
            while self._reload_wanted or self._arrival is not None:
                await self._owner.running_commands.wait(5)
                arrival, self._arrival = self._arrival, None
                if arrival is None:
                    self._reload_wanted = False  # later requests need another reload
                await self._reload(plan, arrival)
        finally:
            self._reloading = None

    async def _reload(self, plan: LoadPlan, arrival: Announce | None) -> None:
        owner = self._owner

        async def announce() -> None:
            await self._ask_for_trust(plan)
            await (self._announce_start("reload") if arrival is None else arrival())

        try:
            found = plan.found if arrival is not None else await plan.again()
            self._offered = ([], [])  # what was offered has been withdrawn
            if arrival is None:
                await owner.hooks.tell("session_shutdown", {"reason": "reload"})
            if self._running is not None:
                await self._running.reload(found, announce)
                return
            if found:
                await self._load(plan)
            await announce()
        except TauError as error:
            owner.extensions.report("<runtime>", "reload", str(error))
        except BaseException as error:
            failure = failure_of(error)
            logger.warning("extensions could not be reloaded", exc_info=failure)
            owner.extensions.report("<runtime>", "reload", str(failure))

    async def stop(self) -> None:
        self._ended = True
        for task in (self._reloading, self._loading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._running is not None:
            await self._running.stop()

    def kill(self) -> None:
        """Kill the extensions at exit, without waiting for them."""
        if self._running is not None:
            self._running.kill()

    def send_facts(self) -> None:
        """Tell the extensions of a session switch, also those without a handler for it."""
        if self._running is not None:
            self._running.send_facts()

    def commands(self) -> list[SlashCommand]:
        """The extension commands, which come first in the reply to get_commands."""
        found = {str(one.path): one for one in self._found}
        return [
            SlashCommand(
                command.name,
                command.description,
                "extension",
                path=command.path,
                source_info=source_info(command.path, found.get(command.path)),
            )
            for command in self._owner.extensions.commands.values()
        ]

    def tool_sources(self) -> dict[str, SourceInfo]:
        """Where the tools of extensions come from, by name."""
        found = {str(one.path): one for one in self._found}
        return {name: source_info(path, found.get(path)) for name, path in self._owner.extensions.tool_paths.items()}

    def _changed(self, kind: str) -> None:
        if kind == "provider":
            self._providers = register_providers(self._owner.models, self._owner.extensions, self._providers)


def source_info(path: str, found: ExtensionFile | None) -> SourceInfo:
    """Where an extension comes from; `found` is None if a program has added it."""
    if found is None:
        return SourceInfo(path, "cli", "temporary")
    base = UNSET if found.base is None else str(found.base)
    origin: Literal["package", "top-level"] = "top-level" if found.brought_by is None else "package"
    return SourceInfo(path, found.source, SCOPES[found.scope], origin, base_dir=base)


def register_providers(models: ModelSelection, extensions: ExtensionRegistry, before: set[str]) -> set[str]:
    """Add the providers of extensions to the models, and remove those no longer registered.

    Returns the names of the providers that are registered now, the `before` of the next call.
    """
    read, _ = parse_providers({"providers": extensions.providers})
    for name in before - read.keys():
        models.remove_provider(name)
    for name, config in read.items():
        models.add_provider(name, config)
    models.logins.use_extensions(login_keys(models, extensions) if extensions.logins else {})
    return set(read)


def login_keys(models: ModelSelection, extensions: ExtensionRegistry) -> dict[str, LoginKey]:
    """What makes keys of the OAuth logins of providers, for those whose extension does that."""
    from tau.runtime.extensions.provider_logins import ExtensionLogin

    auth_file = models.keys.auth_file
    return {name: ExtensionLogin(name, extensions, auth_file).key for name in extensions.logins}


def misused_flags(
    flags: Mapping[str, bool | str], following: Mapping[str, str], known: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Warnings about extension options with a missing or an unexpected value."""
    for name, value in flags.items():
        kind = known[name].get("type") if name in known else None
        if kind == "string" and value is True and name not in following:
            yield f"option --{name} needs a value; ignored"
        elif kind == "boolean" and value is not True:
            yield f"option --{name} takes no value; ignored"


def check_trust(answer: Any) -> None:
    if answer is not None and (not isinstance(answer, Mapping) or answer.get("trusted") not in ANSWERS):
        raise ExtensionFailure(f"trusted: expected one of {', '.join(ANSWERS)}")


async def nothing() -> None:
    """Announce nothing: the extensions that start anew are about to be replaced."""
