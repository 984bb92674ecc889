"""The packages of a session: those of the settings, and those that `-e` names for one run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.errors import UsageError
from tau.records.settings import Settings
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.loading import load_packages
from tau.store.resource_query import PackageFile, PackageResources
from tau.store.settings import Scope

EXTENSIONS = ("extensions",)


def is_offline(environment: Mapping[str, str] = os.environ) -> bool:
    """True if the variable PI_OFFLINE forbids to fetch anything."""
    return environment.get("PI_OFFLINE", "").lower() in ("1", "true", "yes")


class SessionPackages:
    """Loads in two steps: a start needs only extensions, and the first prompt also skills and prompt templates."""

    def __init__(
        self,
        agent_dir: Path,
        cwd: Path,
        lists: Mapping[Scope, Sequence[Any]],
        named: Sequence[str],
        settings: Settings,
        *,
        fetches: bool,
    ) -> None:
        """`named` are the sources of `-e`. A start fetches nothing but these, unless a setting says so.

        Blocks. Raises UsageError if one of them cannot be loaded.
        """
        self._places = lists, agent_dir, cwd
        self._fetches = fetches and not is_offline()
        self._given = _temporary(agent_dir, named, settings, self._fetches) if named else {}
        self._settings = settings
        install = self._install if self._fetches and settings.install_missing_packages else None
        found = load_packages(*self._places, install, EXTENSIONS)
        self.problems = found.problems
        self.extensions = [*self._given.get("extensions", ()), *found.files["extensions"]]
        self._resources: PackageResources | None = None

    def resources(self) -> PackageResources:
        """Everything that packages offer, and problems that are not in `problems`. Blocks; finds it once."""
        if self._resources is None:
            found = load_packages(*self._places)
            files = {kind: [*self._given.get(kind, ()), *files] for kind, files in found.files.items()}
            self._resources = PackageResources(files, [one for one in found.problems if one not in self.problems])
        return self._resources

    def _install(self, package: ConfiguredPackage) -> str:
        from tau.store.packages.installer import install_missing

        return install_missing(package, self._settings.npm_command)


def _temporary(
    agent_dir: Path, named: Sequence[str], settings: Settings, fetches: bool
) -> dict[str, list[PackageFile]]:
    from tau.store.packages.temporary import TemporaryPackages

    packages = TemporaryPackages(agent_dir, settings.npm_command)
    files: dict[str, list[PackageFile]] = {}
    for text in dict.fromkeys(named):
        try:
            offered = packages.files(text, fetches=fetches)
        except (ValueError, OSError) as error:
            raise UsageError(f"--extension {text}: {error}") from None
        if not any(offered.values()):
            raise UsageError(f"--extension {text}: this package offers nothing")
        for kind, found in offered.items():
            files[kind] = [*files.get(kind, ()), *found]
    return files
