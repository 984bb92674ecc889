"""Path lists in settings: paths and globs to include and exclude.

    "shared/skills", "~/notes/*.md"     include these
    "!drafts/**"                        exclude everything that matches this glob, wherever it was found
    "-old.md", "+drafts/good.md"        exclude this path; include this path whatever the globs say

Paths are already absolute here: store/settings.py resolves them against the folder of the settings file.

A list of a project that is not trusted is expanded too, to protect what it names. So the search has a budget.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tau.core.text.globs import BadGlob, compile_glob
from tau.records.base import Value
from tau.store.paths import is_storable

MAX_GLOB_FILES = 1000  # files of one glob
MAX_ENTRIES = 50_000  # names that the globs of one list are compared with
MAX_DEPTH = 64  # folders below the first wildcard of a glob
SEARCH_TIMEOUT_S = 5.0  # for all globs of one list


class PathList(Value):
    lines: Sequence[str] = ()

    def paths(self, within: Path | None = None) -> tuple[list[Path], list[str]]:
        """Return the included paths in order, with globs expanded, and problems. Blocks.

        `within`: globs that search in other folders are not expanded.
        """
        found: list[Path] = []
        problems: list[str] = []
        search = _GlobSearch()
        for line in self.lines:
            path = line.removeprefix("+")
            if not path or line[0] in "!-" or not is_storable(path):
                continue
            if not glob.has_magic(path) or os.path.lexists(path):
                found.append(Path(path))
            elif within is None or _fixed_part(path).is_relative_to(within):
                found += map(Path, search.expand(path))
                if search.is_over:
                    problems.append(f"{path} stands for too many files or folders: only those found so far are used")
                    break
        return list(dict.fromkeys(found)), problems

    def allows(self, path: Path) -> bool:
        """True if a file is not excluded. A folder in the list stands for everything in it."""
        allowed = not any(_matches(line[1:], path) for line in self.lines if line.startswith("!"))
        for prefix, verdict in (("+", True), ("-", False)):
            if any(path.is_relative_to(line[1:]) for line in self.lines if line.startswith(prefix)):
                allowed = verdict
        return allowed


def _matches(pattern: str, path: Path) -> bool:
    try:
        matches = compile_glob(pattern).fullmatch
    except BadGlob:
        return False
    return any(matches(str(folder)) for folder in (path, *path.parents))


def _fixed_part(pattern: str) -> Path:
    """The folder in which a glob searches."""
    path = Path(pattern)
    return next((one for one in path.parents if not glob.has_magic(str(one))), path)


class _GlobSearch:
    """Expands globs as `glob.iglob` does, and ends when its budget for all of them is used up."""

    def __init__(self) -> None:
        self._entries = 0
        self._deadline = time.monotonic() + SEARCH_TIMEOUT_S

    @property
    def is_over(self) -> bool:
        return self._entries > MAX_ENTRIES or time.monotonic() > self._deadline

    def expand(self, pattern: str) -> list[str]:
        top = _fixed_part(pattern)
        named = Path(pattern).relative_to(top).parts
        parts = tuple(part for at, part in enumerate(named) if part != "**" or named[at + 1 : at + 2] != ("**",))
        return sorted(islice(self._matches(str(top), parts, 0), MAX_GLOB_FILES))

    def _matches(self, folder: str, parts: tuple[str, ...], depth: int) -> Iterator[str]:
        first, rest = parts[0], parts[1:]
        any_depth = first == "**"
        if any_depth:
            if rest:
                yield from self._matches(folder, rest, depth)
            else:
                yield folder
        if depth > MAX_DEPTH:
            return
        for name in self._names(folder, first):
            path = os.path.join(folder, name)
            if not rest and not (any_depth and os.path.isdir(path)):
                yield path
            elif os.path.isdir(path):
                yield from self._matches(path, parts if any_depth else rest, depth + 1)

    def _names(self, folder: str, pattern: str) -> list[str]:
        """The names in a folder that match a part of a glob, sorted. Hidden ones only if the glob names the dot."""
        self._entries += 1
        if self.is_over:
            return []
        if not glob.has_magic(pattern):
            return [pattern] if os.path.lexists(os.path.join(folder, pattern)) else []
        from fnmatch import fnmatchcase

        names = []
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    self._entries += 1
                    if self._entries > MAX_ENTRIES:
                        break
                    if entry.name.startswith(".") == pattern.startswith(".") and fnmatchcase(entry.name, pattern):
                        names.append(entry.name)
        except OSError:
            pass  # a folder that cannot be read has no files for us
        return sorted(names)
