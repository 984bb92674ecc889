"""The extensions of a session through its life: loaded, told of its beginning and its end, loaded anew.

Their files are named when the session is opened, and looked at when it begins.
Where there are none, nothing of what runs them is even imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from tau.errors import UsageError
from tau.host.around import Surroundings
from tau.host.errands import Errands
from tau.host.extensions import Extensions
from tau.host.hooking import Hooks
from tau.host.models import Models
from tau.host.resources import Resources
from tau.llm.catalog import providers
from tau.records.replies import SlashCommand, SourceInfo

log = logging.getLogger(__name__)
SCOPES: dict[str, Literal["user", "project", "temporary"]] = {
    "cli": "temporary",
    "project": "project",
    "user": "user",
}


class Found(Protocol):
    """An extension's file or folder. One that was `given` on the command line must load."""

    @property
    def path(self) -> str | Path: ...

    @property
    def given(self) -> bool: ...

    @property
    def scope(self) -> Literal["cli", "project", "user"]: ...


class Running(Protocol):
    """Extensions that were loaded."""

    async def stop(self) -> None: ...

    def kill(self) -> None: ...

    async def reload(self) -> None: ...


class Owner(Protocol):
    """The session whose guests they are."""

    around: Surroundings
    extensions: Extensions
    hooks: Hooks
    errands: Errands
    models: Models
    resources: Resources


class Guests:
    """`load` loads what was found. `flags` are options of the command line that tau does not know."""

    def __init__(
        self,
        owner: Owner,
        found: Sequence[Found] = (),
        load: Callable[[], Awaitable[Running]] | None = None,
        flags: Mapping[str, bool | str] | None = None,
    ) -> None:
        self._owner = owner
        self._found = found
        self._load = load
        self._flags = dict(flags or {})
        self._loading: asyncio.Future[Running] | None = None
        self._running: Running | None = None
        self._providers: set[str] = set()
        self._reloading: asyncio.Task[None] | None = None
        owner.extensions.changed = self._changed

    @property
    def expected(self) -> bool:
        """Whether somebody is to be loaded, or told that it begins."""
        return bool(self._found) or bool(self._owner.extensions.handlers)

    async def begin(self) -> None:
        """Raises ExtensionFailure if one that was named cannot be loaded, UsageError for options nobody knows."""
        if self._found and self._load is not None:
            self._loading = asyncio.ensure_future(self._load())
            self._running = await self._loading
        if self._found and (unknown := sorted(self._flags.keys() - self._owner.extensions.flags.keys())):
            raise UsageError(f"Unknown option: --{unknown[0]}. No extension knows it either.")
        await self._tell_begun("startup")

    async def _tell_begun(self, reason: str) -> None:
        owner = self._owner
        await owner.hooks.tell("session_start", {"reason": reason})
        if not owner.extensions.wants("resources_discover"):
            return
        cwd = owner.around.cwd
        said = await owner.extensions.fire("resources_discover", {"cwd": cwd, "reason": reason}, owner.hooks.outside)
        skills, prompts = (
            [os.path.join(cwd, os.path.expanduser(path)) for path in said.get(name, ()) if isinstance(path, str)]
            for name in ("skillPaths", "promptPaths")
        )
        if skills or prompts:
            owner.resources.offer("extension", skills, prompts)
            await owner.resources.reload()

    def reload_soon(self) -> None:
        """When the commands under way have ended: who asks for it is most often one of them."""
        if self._reloading is None:
            self._reloading = asyncio.create_task(self._reload())

    async def _reload(self) -> None:
        owner = self._owner
        try:
            await owner.errands.done(5)
            await owner.hooks.tell("session_shutdown", {"reason": "reload"})
            owner.resources.withdraw()
            await owner.resources.reload()
            if self._running is not None:
                await self._running.reload()
            await self._tell_begun("reload")
        except Exception as error:
            log.warning("extensions could not be loaded anew", exc_info=error)
            owner.extensions.report("<runtime>", "reload", str(error))
        finally:
            self._reloading = None

    async def end(self) -> None:
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            await asyncio.wait([self._loading])
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
            self._providers = put_providers(self._owner.models, self._owner.extensions, self._providers)


def put_providers(models: Models, extensions: Extensions, before: set[str]) -> set[str]:
    """Make the models of extensions available, and those that are gone unavailable."""
    read, problems = providers({"providers": extensions.providers})
    for problem in problems:
        extensions.report("<runtime>", "register_provider", problem.what)
    for name in before - read.keys():
        models.withdraw(name)
    for name, given in read.items():
        models.offer(name, given)
    return set(read)
