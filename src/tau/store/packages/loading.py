"""The resources that configured packages bring to a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.store.packages.configured import ConfiguredPackage, effective, parse_entries
from tau.store.packages.layout import Layout, project_layout, user_layout
from tau.store.packages.lock_file import LockEntry, read_lock
from tau.store.packages.offers import KINDS
from tau.store.resource_query import PackageFile, PackageResources
from tau.store.settings import Scope

CHANGED = "its files are not those that were installed"


def find_packages(
    lists: Mapping[Scope, Sequence[Any]], agent_dir: Path, cwd: Path
) -> tuple[list[ConfiguredPackage], list[str]]:
    """Parse the lists `packages` of the settings, by scope. That of the project is given only if it is trusted."""
    of_project, problems = parse_entries(lists.get("project", ()), project_layout(cwd))
    of_user, more = parse_entries(lists.get("user", ()), user_layout(agent_dir))
    return [*of_project, *of_user], [*problems, *more]


def load_packages(
    lists: Mapping[Scope, Sequence[Any]],
    agent_dir: Path,
    cwd: Path,
    install: Callable[[ConfiguredPackage], str] | None = None,
    kinds: Sequence[str] = KINDS,
) -> PackageResources:
    """Return what the packages of the settings offer. Blocks.

    `install` fetches a package that is missing and returns a problem, or ""; without it, a missing package is told.
    `kinds` limits what is looked for: at a start only extensions are.
    """
    packages, problems = find_packages(lists, agent_dir, cwd)
    found = _Collector(problems, kinds)
    for one, where in effective(packages):
        problem = where.problem()
        if problem and install is not None and where.layout.root(where.source) is not None:
            problem = install(where)
        if problem:
            found.problems.append(problem)
        else:
            found.add(one, where)
    return PackageResources(found.files, list(dict.fromkeys(found.problems)))


class _Collector:
    def __init__(self, problems: Sequence[str], kinds: Sequence[str]) -> None:
        self.problems = list(problems)
        self._kinds = kinds
        self._by_path: dict[str, dict[str, PackageFile]] = {kind: {} for kind in kinds}
        self._locked: dict[Path, Mapping[str, LockEntry]] = {}
        self._changed: dict[str, bool] = {}  # by identity: asked once, told once

    @property
    def files(self) -> dict[str, list[PackageFile]]:
        return {kind: list(files.values()) for kind, files in self._by_path.items()}

    def add(self, one: ConfiguredPackage, where: ConfiguredPackage) -> None:
        if where.scope == "project" and self._is_changed(where):
            return
        contents = where.contents()
        whole = where.layout.root(where.source) is None and (
            os.path.isfile(contents.root) or (one.filters is None and not contents.has_resources())
        )
        files = {"extensions": {str(contents.root): True}} if whole else contents.files(one.filters, self._kinds)
        if any(files.values()):
            self._is_changed(where)
        elif one.filters is None and self._kinds == KINDS:
            self.problems.append(f"{one.text} offers nothing: it has no pi manifest, and no folder of resources")
        self.problems += contents.problems
        entry = self._entries(where.layout).get(where.identity) if any(files.values()) else None
        unbuilt = [name for name in entry.scripts if name not in entry.built] if entry is not None else ()
        for kind, paths in files.items():
            for path, used in paths.items():
                file = PackageFile(Path(path), one.scope, one.text, contents.root, used, whole, unbuilt)
                self._by_path[kind].setdefault(path, file)

    def _is_changed(self, where: ConfiguredPackage) -> bool:
        key = f"{where.scope}:{where.identity}"
        if key not in self._changed:
            self._changed[key] = where.is_changed(self._entries(where.layout))
            if self._changed[key]:
                consequence = ": not loaded" if where.scope == "project" else ""
                remedy = f'run "tau install {where.text}{" -l" if where.scope == "project" else ""}" to restore them'
                self.problems.append(f"{where.text}: {CHANGED}{consequence}; {remedy}")
        return self._changed[key]

    def _entries(self, layout: Layout) -> Mapping[str, LockEntry]:
        if layout.lock_file not in self._locked:
            self._locked[layout.lock_file] = read_lock(layout.lock_file)
        return self._locked[layout.lock_file]
