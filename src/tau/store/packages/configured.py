"""The packages that settings name, and their state on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.core.packages.sources import BadSource, NpmSource, Source, parse_source
from tau.records.base import Value
from tau.store.packages.layout import Layout, PackageScope, global_npm_folder
from tau.store.packages.lock_file import LockEntry, is_unchanged
from tau.store.packages.offers import PackageFolder

PackageEntry = str | Mapping[str, Any]


class ConfiguredPackage(Value):
    """One entry of the list `packages`. `filters` is the object; None if the entry is only a text."""

    text: str
    source: Source
    layout: Layout
    filters: Mapping[str, Any] | None = None

    @property
    def scope(self) -> PackageScope:
        return self.layout.scope

    @property
    def identity(self) -> str:
        return self.layout.identity(self.source)

    @property
    def is_override(self) -> bool:
        """True for a project's entry that only changes what the user's entry for the same package loads."""
        return self.scope == "project" and self.filters is not None and self.filters.get("autoload") is False

    def folder(self) -> Path:
        """Where it is. Older versions of pi installed into npm's global folder."""
        folder = self.layout.folder(self.source)
        if not isinstance(self.source, NpmSource) or self.scope != "user" or os.path.exists(folder):
            return folder
        older = global_npm_folder()
        return folder if older is None or not os.path.exists(older / self.source.name) else older / self.source.name

    def contents(self) -> PackageFolder:
        folder = self.folder()
        root = self.layout.root(self.source)
        is_managed = root is not None and folder.is_relative_to(root)
        return PackageFolder(folder, within=root if is_managed else None)

    def problem(self) -> str:
        """Say why it cannot be loaded; "" if it can."""
        folder = self.folder()
        if os.path.exists(folder) and (not isinstance(self.source, NpmSource) or self.source.version is None):
            return ""
        flag = " -l" if self.scope == "project" else ""
        if not os.path.exists(folder):
            if self.layout.root(self.source) is None:
                return f"{self.text}: there is no {folder}"
            return f'{self.text} is not installed; run "tau install {self.text}{flag}"'
        if isinstance(self.source, NpmSource):
            installed = str(PackageFolder(folder).manifest.get("version", ""))
            if not self.source.accepts(installed):
                return f'{self.text} is installed as {installed or "?"}; run "tau install {self.text}{flag}"'
        return ""

    def is_changed(self, locked: Mapping[str, LockEntry]) -> bool:
        """True if its files are not those that tau installed. Of a project, contents are always compared."""
        entry = locked.get(self.identity)
        return entry is not None and not is_unchanged(entry, self.folder(), quick=self.scope == "user")


def parse_entries(entries: Iterable[Any], layout: Layout) -> tuple[list[ConfiguredPackage], list[str]]:
    """Parse the list `packages` of one settings file, and return problems with others."""
    found: list[ConfiguredPackage] = []
    problems: list[str] = []
    for entry in entries:
        filters = entry if isinstance(entry, Mapping) else None
        text = entry if filters is None else filters.get("source")
        if not isinstance(text, str):
            problems.append("packages: an entry without a source is ignored")
            continue
        try:
            found.append(ConfiguredPackage(text.strip(), parse_source(text), layout, filters))
        except BadSource as error:
            problems.append(f"packages: {error}")
    return found, problems


def effective(packages: Sequence[ConfiguredPackage]) -> list[tuple[ConfiguredPackage, ConfiguredPackage]]:
    """Return each entry that counts, with the entry that says where the package is. Those of the project come first.

    Of two entries for one package the project's counts; one with `autoload: false` is a filter on top of the user's.
    Alone, such an entry chooses from what the project has installed, if anything.
    """
    kept: list[ConfiguredPackage] = []
    at: dict[str, int] = {}
    for one in sorted(packages, key=lambda one: one.scope != "project"):
        index = at.get(one.identity)
        if index is None:
            at[one.identity] = len(kept)
            kept.append(one)
        elif one.scope == "project":
            kept[index] = one
        elif kept[index].is_override:
            kept.append(one)
    of_user = {one.identity: one for one in kept if one.scope == "user"}
    placed = [(one, of_user.get(one.identity, one) if one.is_override else one) for one in kept]
    return [(one, where) for one, where in placed if not where.is_override or not where.problem()]
