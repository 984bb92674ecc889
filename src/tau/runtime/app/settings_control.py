"""The settings of a running session: every one with its value and where that comes from, and how to change it.

A change is written into the user's settings.json, or into that of a trusted project, and takes effect at once where
the session can still follow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tau.errors import CommandError
from tau.records.base import BadRecord, decode, encode, to_builtins
from tau.records.setting_declarations import SettingDeclaration, setting_declarations
from tau.records.settings import STRICTER_ONLY, USER_ONLY_SETTINGS, Settings
from tau.runtime.app.extension_plan import Equipment, apply_settings
from tau.runtime.session.session import Session
from tau.store.settings import SettingsFile, merge

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory

Scope = Literal["user", "project"]
Origin = Literal["default", "user", "project", "flag"]
UNTRUSTED = "The project is not trusted, so its settings have no effect. /trust trusts it."


class SettingState(NamedTuple):
    declaration: SettingDeclaration
    value: Any  # as in JSON
    origin: Origin


class SettingsControl:
    def __init__(self, opening: SessionFactory, session: Session, equipment: Equipment) -> None:
        self._opening = opening
        self._config = opening.config
        self._session = session
        self._equipment = equipment
        self.only: Sequence[str] | None = None  # the settings that can be seen and changed here, if not all

    @property
    def agent_dir(self) -> Path:
        return self._config.agent_dir

    @property
    def project_trusted(self) -> bool:
        return self._config.trust.trusted

    def states(self) -> Sequence[SettingState]:
        content = to_builtins(self._session.settings)
        return [
            SettingState(declaration, declaration.value_in(content), self._origin(declaration.place))
            for declaration in setting_declarations()
            if self.only is None or _is_named(declaration.place, self.only)
        ]

    def _origin(self, place: str) -> Origin:
        config = self._config
        if config.is_overruled(place) or (place == "sandbox.level" and self._opening.options.sandbox is not None):
            return "flag"
        file = config.origins.get(place)
        if file is None:
            return "default"
        return "user" if file == config.file.path else "project"

    async def change(self, place: str, value: Any, scope: Scope = "user") -> str:
        """Save a value and use it. Returns why it has no effect although it is saved; else "".

        Raises CommandError if it cannot be saved.
        """
        self.check(place)
        changes = _nested(place, value)
        try:
            decode(Settings, encode(merge(to_builtins(Settings()), changes)))
        except BadRecord as error:
            raise CommandError(str(error)) from None
        if scope == "project":
            self._check_project(place, value)
        try:
            await self._session.services.machine.in_thread(lambda: self._write(changes, scope))
        except (OSError, ValueError) as error:
            raise CommandError(f"The setting could not be saved: {error}") from None
        await self._use()
        return self._obstacle(place, value, scope)

    def check(self, place: str) -> None:
        """Raise CommandError if there is no such setting, or if it cannot be changed here."""
        known = {declaration.place for declaration in setting_declarations()}
        if place not in known:
            raise CommandError(f"There is no setting {place}. docs/settings.md lists them.")
        if self.only is not None and not _is_named(place, self.only):
            raise CommandError(f"{place}: the session runs at a host and has the host's value. Change it there.")

    async def reload(self) -> None:
        """Read the files again and use them."""
        await self._session.services.machine.in_thread(self._config.read_again)
        await self._use()

    def _check_project(self, place: str, value: Any) -> None:
        if not self.project_trusted:
            raise CommandError(UNTRUSTED)
        if _is_named(place, USER_ONLY_SETTINGS):
            raise CommandError(f"{place} can only be set in your own settings.")
        if place in STRICTER_ONLY and value is False:
            raise CommandError(f"A project can switch {place} on, but not off.")

    def _write(self, changes: dict[str, Any], scope: Scope) -> None:
        """Blocks. Raises OSError or ValueError."""
        config = self._config
        if scope == "user":
            _change(config.file, changes)
            config.read_again()
            return
        before = config.trust
        config.read_again()
        if not config.trust.trusted or config.trust.content != before.content:
            raise ValueError("the project has changed since it was trusted")
        _change(config.project_file, changes)
        config.trust_own_change()
        config.read_again()

    async def _use(self) -> None:
        session, query = self._session, self._opening.resource_query()
        apply_settings(self._opening, session, self._equipment)
        if query != session.resources.query:
            await session.resources.reload(query)

    def _obstacle(self, place: str, value: Any, scope: Scope) -> str:
        origin = self._origin(place)
        if origin == "flag":
            return "The command line sets another value for this run."
        if origin == "project" and scope == "user":
            return "The project sets another value, which wins."
        if (
            isinstance(value, dict)
            and next(one for one in self.states() if one.declaration.place == place).value != value
        ):
            return "Entries that are left out stay in the file; remove them there."
        return ""


def _change(file: SettingsFile, changes: dict[str, Any]) -> None:
    with suppress(FileExistsError):
        file.path.parent.mkdir(parents=True)
    file.read()
    if not file.is_readable:
        raise ValueError(file.problems[0])
    file.change(changes)


def _is_named(place: str, names: Sequence[str]) -> bool:
    """True if a setting is among names of settings and of groups of them."""
    return any(place == name or place.startswith(f"{name}.") for name in names)


def _nested(place: str, value: Any) -> dict[str, Any]:
    name, _, inner = place.partition(".")
    return {name: {inner: value} if inner else value}
