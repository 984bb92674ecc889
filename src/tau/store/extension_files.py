"""Finds extension files, without opening them.

An extension is a `.py`, `.ts` or `.js` file, or a folder with an `__init__.py`, a `package.json` that names extensions
of pi, or an `index.ts` or `index.js`. A folder of extensions is searched one level deep. The extensions of a project
are used only if the project is trusted; trust.py covers the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.core.text.globs import IgnoreRules
from tau.errors import UsageError
from tau.records.base import BadRecord, Value, parse
from tau.store.files import read_small
from tau.store.path_lists import PathList
from tau.store.settings import Scope

NODE_SUFFIXES = (".ts", ".js", ".mts", ".mjs", ".cts", ".cjs")
_SKIPPED = ("__pycache__", "node_modules", "__init__.py")


class ExtensionPath(Value):
    """`path` is what is loaded. `package` is the folder of an extension for Node that has one of its own."""

    path: Path
    package: Path | None = None

    @property
    def top(self) -> Path:
        """The file or folder with everything that belongs to it."""
        return self.package or self.path

    @property
    def needs_node(self) -> bool:
        return self.path.suffix in NODE_SUFFIXES


class FoundExtension(Value):
    path: Path
    given: bool  # named on the command line: tau does not start without it
    scope: Literal["cli", "project", "user"]
    content: Mapping[str, str] | None = None  # what trust is bound to, see trust.Decision
    base: Path | None = None  # the folder that contains `extensions`, if it was found there; None if it was named
    package: Path | None = None  # see ExtensionPath
    brought_by: str | None = None  # the source of the package that offers it; `base` is its folder then
    hint: str = ""  # what to add to the message if it cannot be loaded

    @property
    def source(self) -> str:
        """How it was found, as in SourceInfo."""
        if self.brought_by is not None:
            return self.brought_by
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
    node_problem: Callable[[], str] = lambda: "",
    packaged: Sequence[FoundExtension] = (),
) -> tuple[list[FoundExtension], list[str]]:
    """Return the extensions to load, in order, and warnings about others. `lists` is Layers.lists.

    `packaged` are those of packages: first those of packages on the command line, at the end the others.
    `content` is what trust in the project is bound to. `node_problem` says why there is no Node; it is called only if
    an extension needs it.
    Raises UsageError for a path on the command line that cannot be an extension.
    """
    found = [
        FoundExtension(one.path, True, "cli", package=one.package) for text in given for one in _from_flag(text, cwd)
    ]
    found += [one for one in packaged if one.given]
    problems: list[str] = []
    if not only_given:
        scopes: tuple[Scope, ...] = ("project", "user") if trusted else ("user",)
        for scope in scopes:
            bound = content if scope == "project" else None
            named, more = listed_extensions(lists[scope].get("extensions", ()))
            problems += [f"extensions: {problem}" for problem in more]
            found += [FoundExtension(one.path, False, scope, bound, package=one.package) for one in named]
        for scope, base in (("project", cwd / ".pi"), ("user", agent_dir)):
            if scope in scopes:
                entries = PathList(lists[scope].get("extensions", ()))
                kept = [one for one in in_folder(base / "extensions") if _allowed(entries, one)]
                bound = content if scope == "project" else None
                found += [FoundExtension(one.path, False, scope, bound, base, one.package) for one in kept]
        found += [one for one in packaged if not one.given]
    loadable, more = _loadable(_unique(found), node_problem)
    return loadable, problems + more


def listed_extensions(lines: Sequence[str], within: Path | None = None) -> tuple[list[ExtensionPath], list[str]]:
    """Return the extensions that a path list of settings includes, and problems; `within` as in PathList.paths."""
    entries = PathList(lines)
    paths, problems = entries.paths(within)
    return [one for named in paths for one in expand(named) if _allowed(entries, one)], problems


def _allowed(entries: PathList, one: ExtensionPath) -> bool:
    return entries.allows(one.path) and (one.package is None or entries.allows(one.package))


def in_folder(folder: Path) -> list[ExtensionPath]:
    """Return the extensions directly in a folder, sorted by name."""
    rules = ignore_rules(folder)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    found = []
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith(".") or entry.name in _SKIPPED or rules.ignore(entry.name, os.path.isdir(path)):
            continue
        if os.path.isfile(path) and path.suffix in (".py", *NODE_SUFFIXES) and not entry.name.endswith(".d.ts"):
            found.append(ExtensionPath(path))
        elif os.path.isdir(path):
            found += _package(path)
    return found


def _from_flag(text: str, cwd: Path) -> list[ExtensionPath]:
    if text.startswith("builtin:"):
        raise UsageError(f"--extension {text}: tau loads extensions from files, folders and packages")
    path = Path(os.path.normpath(cwd / os.path.expanduser(text)))
    paths = expand(path) if os.path.isdir(path) else [ExtensionPath(path)]
    if not paths:
        raise UsageError(f"--extension {text}: this folder contains no extension")
    for each in paths:
        if not os.path.exists(each.path):
            raise UsageError(f"--extension {text}: there is no such file")
    return paths


def expand(path: Path) -> list[ExtensionPath]:
    """Return a file or package itself, and for any other folder the extensions in it."""
    if not os.path.isdir(path):
        return [ExtensionPath(path)] if os.path.exists(path) else []
    return _package(path) or in_folder(path)


def _package(folder: Path) -> list[ExtensionPath]:
    """Return the extensions of a folder that is one package; none if it is not."""
    if os.path.isfile(folder / "__init__.py"):
        return [ExtensionPath(folder)]
    named = manifest_entries(folder)
    if named is not None:
        return [each for path in named for each in _of_manifest(path, folder)]
    main = next((folder / name for name in ("index.ts", "index.js") if os.path.isfile(folder / name)), None)
    return [] if main is None else [ExtensionPath(main, folder)]


def _of_manifest(path: Path, folder: Path) -> list[ExtensionPath]:
    """The extensions that one entry of a manifest names: a file, or those in a folder."""
    if os.path.isfile(path):
        return [ExtensionPath(path, folder if path.suffix in NODE_SUFFIXES else None)]
    return [
        ExtensionPath(one.path, folder if one.needs_node else one.package)
        for one in (expand(path) if os.path.isdir(path) else [])
    ]


def manifest_entries(folder: Path) -> list[Path] | None:
    """The paths in `pi.extensions` of a folder's package.json; None if it has no such list."""
    try:
        manifest = parse(read_small(folder / "package.json"))
    except (OSError, BadRecord):
        return None
    section = manifest.get("pi") if isinstance(manifest, dict) else None
    names = section.get("extensions") if isinstance(section, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return [Path(os.path.normpath(folder / name)) for name in names]


def _unique(found: Iterable[FoundExtension]) -> list[FoundExtension]:
    """Drop duplicates: a file with two names is one extension, under the first name."""
    by_file: dict[str, FoundExtension] = {}
    for each in found:
        by_file.setdefault(os.path.realpath(each.path), each)
    return list(by_file.values())


def _loadable(found: list[FoundExtension], node_problem: Callable[[], str]) -> tuple[list[FoundExtension], list[str]]:
    """Return the extensions that can be loaded here, and a warning about those that need Node if there is none."""
    foreign = [one for one in found if one.path.suffix in NODE_SUFFIXES]
    problem = node_problem() if foreign else ""
    if not problem:
        return found, []
    for one in foreign:
        if one.given:
            raise UsageError(f"--extension {one.path}: {problem}")
    names = ", ".join(str(one.path) for one in foreign)
    return [one for one in found if one not in foreign], [f"Not loaded: {names}. {problem}."]


def ignore_rules(folder: Path) -> IgnoreRules:
    """The rules of the ignore files directly in a folder."""
    lines: list[str] = []
    for name in (".gitignore", ".ignore", ".fdignore"):
        try:
            lines += read_small(folder / name).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
    return IgnoreRules(lines)
