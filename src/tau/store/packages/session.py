"""The packages of a session: those of the settings, and those that `-e` names for one run."""

from __future__ import annotations

import logging
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

log = logging.getLogger(__name__)


def is_offline(environment: Mapping[str, str] = os.environ) -> bool:
    """True if the variable PI_OFFLINE forbids to fetch anything."""
    return environment.get("PI_OFFLINE", "").lower() in ("1", "true", "yes")


def session_packages(
    agent_dir: Path,
    cwd: Path,
    lists: Mapping[Scope, Sequence[Any]],
    named: Sequence[str],
    settings: Settings,
    fetches: bool,
) -> PackageResources:
    """Return what packages bring. Blocks. `named` are the sources of `-e`; raises UsageError if one cannot be loaded.

    A start fetches nothing but what `-e` names, unless the setting installMissingPackages says so.
    """
    fetches = fetches and not is_offline()

    def install(package: ConfiguredPackage) -> str:
        from tau.store.packages.installer import install_missing

        return install_missing(package, settings.npm_command)

    of_settings = load_packages(
        lists, agent_dir, cwd, install if fetches and settings.install_missing_packages else None
    )
    if not named:
        return of_settings
    given = _temporary(agent_dir, named, settings, fetches)
    files = {kind: [*given.get(kind, ()), *of_settings.files.get(kind, ())] for kind in of_settings.files}
    return PackageResources(files, of_settings.problems)


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
