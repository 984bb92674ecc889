"""What a session stands on: settings, trust in the project, and which extensions there are.

Read at the start, and again when somebody wants it anew, or says that the project
is to be trusted. What the command line says about it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tau.errors import UsageError
from tau.records.base import BadRecord, decode, encode, plain, replace
from tau.records.settings import Settings
from tau.store.extension_files import extension_paths
from tau.store.settings import Layers, SettingsFile, layered, merge
from tau.store.trust import Decision, decide, remember
from tau.wire import dialects
from tau.wire.dialect import Dialect


class Basis:
    """`approve` is what the command line says about trust; `given` are extensions that it names, `dialect` the one.

    `overruled` is what counts before all files, in the names that these have.

    Raises UsageError for an extension that is named and cannot be one.
    """

    def __init__(
        self,
        agent_dir: Path,
        cwd: Path,
        approve: bool | None,
        given: Sequence[str] = (),
        *,
        only_given: bool = False,
        dialect: str | None = None,
        overruled: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.agent_dir = agent_dir
        self.cwd = cwd
        self.file = SettingsFile(agent_dir / "settings.json")
        self._approve = approve
        self._given = given
        self._only_given = only_given
        self._dialect = dialect
        self._overruled = overruled
        self.read()

    def read(self, *, trusted: bool = False) -> None:
        """What is there now. Blocks. With `trusted` somebody has said that the project is to be trusted."""
        approve = True if trusted else self._approve
        layers, trust, self.dialect = read_settings(self.file, self.cwd, approve, self._dialect)
        found, told = extension_paths(
            layers.lists,
            self.agent_dir,
            self.cwd,
            trusted=trust.trusted,
            given=self._given,
            only_given=self._only_given,
        )
        self.settings = settings_with(layers.settings, self._overruled)
        self.trust, self.extensions = trust, found
        self.warnings = [*trust.warnings, *layers.problems, *told]
        self.untrusted = ""  # what to tell if nobody who can be asked trusts the project
        if trust.undecided and found:
            self.untrusted = trust.warnings[-1]
            self.warnings.remove(self.untrusted)

    def remember(self, *, trusted: bool) -> None:
        """Write down what was decided. Blocks; raises ValueError or OSError if it cannot be."""
        remember(self.cwd, self.agent_dir, trusted=trusted)


def read_settings(
    user: SettingsFile, cwd: Path, approve: bool | None, dialect: str | None = None
) -> tuple[Layers, Decision, Dialect]:
    """The user's settings, with the project's over them if it is trusted, and below both what the dialect wants."""
    trust = decide(cwd, user.path.parent, approve=approve, otherwise=user.read().default_project_trust)
    project = SettingsFile(cwd / ".pi" / "settings.json") if trust.trusted else None
    layers = layered(user, project)
    spoken = dialects.find(dialect or layers.settings.dialect)
    if spoken.defaults:
        layers = layered(user, project, spoken.defaults)
    return replace(layers, settings=replace(layers.settings, dialect=spoken.name)), trust, spoken


def settings_with(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """`settings` with what is `given` instead. Raises UsageError."""
    if not given:
        return settings
    known: dict[str, Any] = plain(settings)
    if unknown := given.keys() - known.keys():
        raise UsageError(f"settings: there is no {', '.join(sorted(unknown))}. There are: {', '.join(known)}")
    try:
        return decode(Settings, encode(merge(known, dict(given))))
    except BadRecord as error:
        raise UsageError(f"settings: {error}") from None
