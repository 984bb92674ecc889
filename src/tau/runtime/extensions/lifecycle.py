"""The extensions of a session through its life: loaded, told of its beginning and its end, loaded anew.

Their files are named when the session is opened, and looked at when it begins.
Where there are none, nothing of what runs them is even imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from tau.errors import Aborted, ExtensionFailure, TauError, UsageError
from tau.llm.catalog import providers
from tau.records.replies import SlashCommand, SourceInfo
from tau.runtime.extensions.hooks import HookDispatcher
from tau.runtime.extensions.registry import Check, ExtensionRegistry
from tau.runtime.extensions.running_commands import RunningCommands
from tau.runtime.models.selection import ModelSelection
from tau.runtime.resources import Resources
from tau.runtime.services import Services

log = logging.getLogger(__name__)
SCOPES: dict[str, Literal["user", "project", "temporary"]] = {
    "cli": "temporary",
    "project": "project",
    "user": "user",
}
ANSWERS = ("yes", "no", "undecided")


class ExtensionFile(Protocol):
    """An extension's file or folder. One that was `given` on the command line must load."""

    @property
    def path(self) -> str | Path: ...

    @property
    def given(self) -> bool: ...

    @property
    def scope(self) -> Literal["cli", "project", "user"]: ...

    @property
    def content(self) -> Mapping[str, str] | None: ...


class LoadedExtensions(Protocol):
    """Extensions that were loaded."""

    async def add(self, found: Sequence[ExtensionFile]) -> None: ...

    async def stop(self) -> None: ...

    def kill(self) -> None: ...

    async def reload(self, found: Sequence[ExtensionFile]) -> None: ...


class LoadPlan(Protocol):
    """Which extensions a session shall have, and what depends on them.

    `flags` are options of the command line that tau does not know, `following` the
    words behind those that had no value of their own.
    """

    flags: Mapping[str, bool | str]
    following: Mapping[str, str]

    @property
    def found(self) -> Sequence[ExtensionFile]: ...

    @property
    def undecided(self) -> bool:
        """Whether nobody has decided about the project, and somebody may be asked."""

    async def load(self) -> LoadedExtensions:
        """Raises ExtensionFailure if one that was named on the command line cannot be loaded."""

    async def ask(self) -> None:
        """Extensions will be asked about the project: a yes is for its content as it is now."""

    async def decided(self, trusted: bool | None, *, remember: bool) -> Sequence[ExtensionFile]:
        """Go on with the project as it was decided (None: it was not). Returns the extensions that come with it."""

    def settle(self) -> None:
        """Everything is loaded. Raises UsageError if what the command line wants is not there even now."""

    async def again(self) -> Sequence[ExtensionFile]:
        """Settings, trust and extensions as they are now."""


class Owner(Protocol):
    """The session whose guests they are."""

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
        self._ended = False
        owner.extensions.changed = self._changed

    @property
    def has_extensions(self) -> bool:
        """Whether somebody is to be loaded, or told that it begins."""
        return bool(self._found) or bool(self._owner.extensions.handlers)

    @property
    def _found(self) -> Sequence[ExtensionFile]:
        return self._plan.found if self._plan is not None else ()

    async def start(self) -> None:
        """Raises what Plan.load and Plan.settle raise, and UsageError for options that nobody knows."""
        plan = self._plan
        if plan is not None and self.has_extensions:
            if plan.found:
                await self._load(plan)
            await self._ask_for_trust(plan)
            if plan.found and (unknown := sorted(plan.flags.keys() - self._owner.extensions.flags.keys())):
                raise UsageError(f"Unknown option: --{unknown[0]}. No extension knows it either.")
            plan.settle()
            for warning in misused_flags(plan.flags, plan.following, self._owner.extensions.flags):
                log.warning("%s", warning)
        await self._announce_start("startup")

    async def _load(self, plan: LoadPlan) -> None:
        self._loading = asyncio.ensure_future(plan.load())
        self._running = await self._loading

    async def _ask_for_trust(self, plan: LoadPlan) -> None:
        """Those who are there now, none of which the project has brought, say whether it may bring anything."""
        owner = self._owner
        if not plan.undecided:
            return
        if owner.extensions.wants("project_trust"):
            await plan.ask()
        said = await self._ask("project_trust", {"cwd": owner.services.cwd}, check_trust)
        trusted = {"yes": True, "no": False}.get(said.get("trusted", ""))
        added = await plan.decided(trusted, remember=bool(said.get("remember")))
        if added and self._running is not None:
            await self._running.add(added)

    async def _announce_start(self, reason: str) -> None:
        owner = self._owner
        await owner.hooks.tell("session_start", {"reason": reason})
        cwd = owner.services.cwd
        said = await self._ask("resources_discover", {"cwd": cwd, "reason": reason})
        skills, prompts = (
            [os.path.join(cwd, os.path.expanduser(path)) for path in said.get(name, ()) if isinstance(path, str)]
            for name in ("skillPaths", "promptPaths")
        )
        if skills or prompts:
            owner.resources.offer("extension", skills, prompts)
            await owner.resources.reload()

    async def _ask(self, hook: str, payload: Mapping[str, Any], check: Check | None = None) -> Mapping[str, Any]:
        """The combined answer of the extensions. Empty if an abort ends the wait: an abort never ends a start-up."""
        owner = self._owner
        try:
            return await owner.extensions.fire(hook, payload, owner.hooks.idle_signal, check)
        except Aborted:
            return {}

    def request_reload(self) -> None:
        """Reload when the extension commands under way have ended: the request usually comes from one of them.

        A request that arrives while a reload is running is carried out after it: that reload may have read the
        files before they were changed.
        """
        if self._plan is None or self._ended:
            return
        self._reload_wanted = True
        if self._reloading is None:
            self._reloading = asyncio.create_task(self._reload_as_wanted(self._plan))

    async def _reload_as_wanted(self, plan: LoadPlan) -> None:
        try:
            while self._reload_wanted:
                await self._owner.running_commands.wait(5)
                self._reload_wanted = False  # requests from here on come too late for this reload
                await self._reload(plan)
        finally:
            self._reloading = None

    async def _reload(self, plan: LoadPlan) -> None:
        owner = self._owner
        try:
            found = await plan.again()
            await owner.hooks.tell("session_shutdown", {"reason": "reload"})
            if self._running is not None:
                await self._running.reload(found)
            elif found:
                await self._load(plan)
            await self._ask_for_trust(plan)
            await self._announce_start("reload")
        except TauError as error:
            owner.extensions.report("<runtime>", "reload", str(error))
        except Exception as error:
            log.warning("extensions could not be loaded anew", exc_info=error)
            owner.extensions.report("<runtime>", "reload", str(error))

    async def stop(self) -> None:
        self._ended = True
        for task in (self._reloading, self._loading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._running is not None:
            await self._running.stop()

    def kill(self) -> None:
        """At the last moment: does not wait."""
        if self._running is not None:
            self._running.kill()

    def commands(self) -> list[SlashCommand]:
        """The rows of get_commands that come first."""
        scopes = {str(one.path): one for one in self._found}
        rows = []
        for command in self._owner.extensions.commands.values():
            found = scopes.get(command.path)
            scope = SCOPES[found.scope] if found is not None else "temporary"
            info = SourceInfo(command.path, "cli" if scope == "temporary" else "auto", scope)
            row = SlashCommand(command.name, command.description, "extension", path=command.path, source_info=info)
            rows.append(row)
        return rows

    def _changed(self, kind: str) -> None:
        if kind == "provider":
            self._providers = register_providers(self._owner.models, self._owner.extensions, self._providers)


def register_providers(models: ModelSelection, extensions: ExtensionRegistry, before: set[str]) -> set[str]:
    """Make the models of extensions available, and those that are gone unavailable."""
    read, _ = providers({"providers": extensions.providers})
    for name in before - read.keys():
        models.remove_provider(name)
    for name, given in read.items():
        models.add_provider(name, given)
    return set(read)


def misused_flags(
    flags: Mapping[str, bool | str], following: Mapping[str, str], known: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """What to tell about options of extensions that were not given as they want to be."""
    for name, said in flags.items():
        kind = known[name].get("type") if name in known else None
        if kind == "string" and said is True and name not in following:
            yield f"option --{name} needs a value; ignored"
        elif kind == "boolean" and said is not True:
            yield f"option --{name} takes no value; ignored"


def check_trust(answer: Any) -> None:
    if answer is not None and (not isinstance(answer, Mapping) or answer.get("trusted") not in ANSWERS):
        raise ExtensionFailure(f"trusted: expected one of {', '.join(ANSWERS)}")
