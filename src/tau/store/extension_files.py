"""Finds extension files, without opening them.

An extension is a `.py` file or a folder with an `__init__.py`. A folder of extensions is searched one level deep. The
extensions of a project are used only if the project is trusted; trust.py covers the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.core.text.globs import IgnoreRules
from tau.errors import UsageError
from tau.records.base import Value
from tau.store.files import read_small
from tau.store.path_lists import PathList
from tau.store.settings import Scope

NODE_SUFFIXES = (".ts", ".js", ".mts", ".mjs", ".cts", ".cjs")
NEEDS_NODE = "TypeScript extensions need a Node host, which tau does not have yet"
_SKIPPED = ("__pycache__", "node_modules", "__init__.py")


class FoundExtension(Value):
    path: Path
    given: bool  # named on the command line: tau does not start without it
    scope: Literal["cli", "project", "user"]
    content: Mapping[str, str] | None = None  # what trust is bound to, see trust.Decision
    base: Path | None = None  # the folder that contains `extensions`, if it was found there; None if it was named

    @property
    def source(self) -> Literal["auto", "local", "cli"]:
        """How it was found, as in SourceInfo."""
        if self.base is not None:
            return "auto"
        return "cli" if self.given else "local"


def extension_paths(
    lists: Mapping[Scope, Mapping[str, Sequence[Any]]],
    agent_dir: Path,
    cwd: Path,
    *,
    trusted: bool,
    given: Sequence[str] = (),
    only_given: bool = False,
    content: Mapping[str, str] | None = None,
) -> tuple[list[FoundExtension], list[str]]:
    """Return the extensions to load, in order, and warnings about others. `lists` is Layers.lists.

    `content` is what trust in the project is bound to.
    Raises UsageError for a path on the command line that cannot be an extension.
    """
    found = [FoundExtension(path, True, "cli") for text in given for path in _from_flag(text, cwd)]
    foreign: list[Path] = []
    if not only_given:
        scopes: tuple[Scope, ...] = ("project", "user") if trusted else ("user",)
        for scope in scopes:
            named = _loadable(listed_extensions(lists[scope].get("extensions", ())), foreign)
            found += [FoundExtension(path, False, scope, content if scope == "project" else None) for path in named]
        for scope, base in (("project", cwd / ".pi"), ("user", agent_dir)):
            if scope in scopes:
                entries = PathList(lists[scope].get("extensions", ()))
                kept = _loadable(filter(entries.allows, in_folder(base / "extensions")), foreign)
                bound = content if scope == "project" else None
                found += [FoundExtension(path, False, scope, bound, base) for path in kept]
    return _unique(found), _warnings(foreign)


def listed_extensions(lines: Sequence[str]) -> list[Path]:
    """Return the extensions that a path list of settings includes."""
    entries = PathList(lines)
    return [path for named in entries.paths() for path in _expand(named) if entries.allows(path)]


def in_folder(folder: Path) -> list[Path]:
    """Return the extensions directly in a folder, sorted by name."""
    rules = _ignored(folder)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    found = []
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith(".") or entry.name in _SKIPPED or rules.ignore(entry.name, path.is_dir()):
            continue
        if path.is_file() and path.suffix in (".py", *NODE_SUFFIXES):
            found.append(path)
        elif path.is_dir() and (main := _main_of(path)):
            found.append(path if main.suffix == ".py" else main)
    return found


def _from_flag(text: str, cwd: Path) -> list[Path]:
    if text.startswith(("npm:", "git:", "builtin:", "http:", "https:", "ssh:")):
        raise UsageError(f"--extension {text}: this version of tau loads extensions from files and folders only")
    path = Path(os.path.normpath(cwd / os.path.expanduser(text)))
    paths = list(_expand(path)) if path.is_dir() else [path]
    if not paths:
        raise UsageError(f"--extension {text}: this folder contains no Python extension")
    for each in paths:
        if each.suffix in NODE_SUFFIXES:
            raise UsageError(f"--extension {text}: {NEEDS_NODE}")
        if not each.exists():
            raise UsageError(f"--extension {text}: there is no such file")
    return paths


def _expand(path: Path) -> list[Path]:
    """Return a file or package itself, and for any other folder the extensions in it."""
    if path.is_dir() and not (path / "__init__.py").is_file():
        return in_folder(path)
    return [path] if path.exists() else []


def _main_of(folder: Path) -> Path | None:
    names = ("__init__.py", "index.ts", "index.js", "package.json")
    main = next((folder / name for name in names if (folder / name).is_file()), None)
    return folder / "index.ts" if main is not None and main.name == "package.json" else main


def _loadable(paths: Iterable[Path], foreign: list[Path]) -> list[Path]:
    """Return the extensions that Python can load; the others are added to `foreign`."""
    paths = list(paths)
    foreign += [path for path in paths if path.suffix in NODE_SUFFIXES]
    return [path for path in paths if path.suffix not in NODE_SUFFIXES]


def _unique(found: Iterable[FoundExtension]) -> list[FoundExtension]:
    """Drop duplicates: a file with two names is one extension, under the first name."""
    by_file: dict[str, FoundExtension] = {}
    for each in found:
        by_file.setdefault(os.path.realpath(each.path), each)
    return list(by_file.values())


def _ignored(folder: Path) -> IgnoreRules:
    lines: list[str] = []
    for name in (".gitignore", ".ignore", ".fdignore"):
        try:
            lines += read_small(folder / name).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
    return IgnoreRules(lines)


def _warnings(foreign: Sequence[Path]) -> list[str]:
    names = ", ".join(str(path) for path in dict.fromkeys(foreign))
    return [f"Not loaded: {names}. {NEEDS_NODE}."] if names else []
