"""What a package offers: the files of each kind, by its manifest or its conventional folders.

The rules are those of pi 0.87.1. Extensions in Python are an addition of tau: `*.py` files and folders with an
`__init__.py` in a folder of extensions.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tau.core.packages.filters import SIGNS, chosen, is_glob, overrides
from tau.records.base import BadRecord, parse
from tau.store.extension_files import ignore_rules, manifest_entries
from tau.store.files import read_small

KINDS = ("extensions", "skills", "prompts", "themes")
SUFFIXES = {"prompts": ".md", "themes": ".json"}
MAX_FILES = 2000  # files of one kind, and names of one folder
MAX_DEPTH = 8


class PackageFolder:
    """A folder, or for a local package also a file, which is one extension."""

    def __init__(self, root: Path, *, within: Path | None = None) -> None:
        """`within`: the folder that must contain all files of the package, with links resolved; None if none must."""
        self.root = root
        self._within = within
        self.problems: list[str] = []

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The object in package.json; empty if there is none."""
        try:
            content = parse(read_small(self.root / "package.json").removeprefix(b"\xef\xbb\xbf"))
        except (OSError, BadRecord):
            return {}
        return content if isinstance(content, dict) else {}

    @cached_property
    def _lists(self) -> Mapping[str, list[str]] | None:
        """The lists of the section `pi`; None if there is no such section. A list that is not all texts is missing."""
        section = self.manifest.get("pi")
        if not isinstance(section, dict):
            return None
        return {
            kind: names
            for kind in KINDS
            if isinstance(names := section.get(kind), list) and all(isinstance(name, str) for name in names)
        }

    def files(self, entry: Mapping[str, Any] | None, kinds: Sequence[str] = KINDS) -> dict[str, dict[str, bool]]:
        """Return the files of each kind, with False for those that the filters of a settings entry turn off.

        `entry` is the object in settings; None if settings have only a text.
        """
        if os.path.isfile(self.root):
            return {"extensions": {str(self.root): True}}
        if entry is not None:
            return {kind: self._inside(self._filtered(kind, entry)) for kind in kinds}
        if self._lists is not None:
            listed = {kind: self._listed(kind, self._lists.get(kind, ())) for kind in kinds}
            return {kind: self._inside(dict.fromkeys(files, True)) for kind, files in listed.items()}
        return {kind: self._inside(dict.fromkeys(self._conventional(kind), True)) for kind in kinds}

    def has_resources(self) -> bool:
        """True if there is a manifest or a conventional folder. Else a local folder is one extension itself."""
        return self._lists is not None or any(os.path.isdir(self.root / kind) for kind in KINDS)

    def _filtered(self, kind: str, entry: Mapping[str, Any]) -> dict[str, bool]:
        given = entry.get(kind)
        filters = [each for each in given if isinstance(each, str)] if isinstance(given, list) else None
        if entry.get("autoload") is False:
            return overrides(self._offered(kind), filters, str(self.root)) if filters else {}
        if filters is None:
            lists = self._lists or {}
            default = self._listed(kind, lists[kind]) if kind in lists else self._conventional(kind)
            return dict.fromkeys(default, True)
        offered = self._offered(kind)
        kept = set(chosen(offered, filters, str(self.root))) if filters else set()
        return {path: path in kept for path in offered}

    def _offered(self, kind: str) -> list[str]:
        """All that filters can choose from."""
        names = (self._lists or {}).get(kind)
        return self._listed(kind, names) if names else self._conventional(kind)

    def _listed(self, kind: str, names: Sequence[str]) -> list[str]:
        found: list[str] = []
        for name in names:
            if not name.startswith(SIGNS):
                found += self._collected(kind, self._expanded(name))
        signed = [name for name in names if name.startswith(SIGNS)]
        return chosen(list(dict.fromkeys(found)), signed, str(self.root))

    def _expanded(self, name: str) -> list[Path]:
        if not is_glob(name):
            return [Path(os.path.normpath(self.root / name))]
        if self._within is not None and (os.path.isabs(name) or ".." in name.split("/")):
            self.problems.append(f"{name} is outside of the package: not used")  # it could mean all files of the disk
            return []
        # Without dot names, as in pi; a hostile package may have very many files.
        matches = islice(glob.iglob(name, root_dir=self.root, recursive=True), MAX_FILES)
        return [self.root / match for match in sorted(matches)]

    def _conventional(self, kind: str) -> list[str]:
        return self._collected(kind, [self.root / kind])

    def _collected(self, kind: str, paths: Iterable[Path]) -> list[str]:
        found: list[str] = []
        for path in paths:
            if os.path.isfile(path):
                found.append(str(path))
            elif os.path.isdir(path):
                found += _COLLECT[kind](path)
        return found[:MAX_FILES]

    def _inside(self, files: dict[str, bool]) -> dict[str, bool]:
        """Drop what is outside of the folder of packages: a link could make the user's own files part of a package."""
        if self._within is None or not files:
            return files
        top = os.path.realpath(self._within).rstrip(os.sep) + os.sep
        kept = {path: used for path, used in files.items() if os.path.realpath(path).startswith(top)}
        self.problems += [f"{path} is outside of the package: not used" for path in files if path not in kept]
        return kept


def _extensions(folder: Path) -> list[str]:
    """The extensions of a folder: itself, if it is one, or those in it, one level deep."""
    own = _own_extensions(folder)
    if own is not None:
        return own
    rules = ignore_rules(folder)
    found: list[str] = []
    for name in _names(folder):
        path = folder / name
        if rules.ignore(name, os.path.isdir(path)):
            continue
        if os.path.isfile(path) and name.endswith((".ts", ".js", ".py")) and not name.endswith(".d.ts"):
            found.append(str(path))
        elif os.path.isdir(path):
            found += _own_extensions(path) or []
    return found


def _own_extensions(folder: Path) -> list[str] | None:
    """The extensions of a folder that is one itself; None if it is not."""
    if os.path.isfile(folder / "__init__.py"):
        return [str(folder)]
    named = [str(path) for path in manifest_entries(folder) or () if os.path.exists(path)]
    if named:
        return named
    main = next((folder / name for name in ("index.ts", "index.js") if os.path.isfile(folder / name)), None)
    return None if main is None else [str(main)]


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MAX_FILES)]
    except OSError:
        return []
    return sorted(name for name in names if not name.startswith(".") and name not in ("node_modules", "__pycache__"))


def _below(folder: Path, suffix: str, depth: int = 0) -> list[str]:
    """All files with a suffix below a folder, without ignored ones."""
    rules = ignore_rules(folder)
    found: list[str] = []
    for name in _names(folder):
        path = folder / name
        is_folder = os.path.isdir(path)
        if rules.ignore(name, is_folder):
            continue
        if is_folder and depth < MAX_DEPTH:
            found += _below(path, suffix, depth + 1)
        elif name.endswith(suffix) and os.path.isfile(path):
            found.append(str(path))
    return found


def _skills(folder: Path) -> list[str]:
    from tau.store.skills import find_skill_files

    return [str(path) for path in find_skill_files(folder)]


_COLLECT: dict[str, Callable[[Path], list[str]]] = {
    "extensions": _extensions,
    "skills": _skills,
    "prompts": lambda folder: _below(folder, SUFFIXES["prompts"]),
    "themes": lambda folder: _below(folder, SUFFIXES["themes"]),
}
