"""Which extensions there are: files found, none of them opened.

An extension is a `.py` file, or a folder with an `__init__.py`. In a folder of
extensions they lie directly; nothing is searched deeper. What belongs to a
project counts only if that is trusted, and trust.py counts the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau.core.text.globs import Rules
from tau.errors import UsageError
from tau.records.base import Value
from tau.store.files import read_small
from tau.store.path_lists import Entries
from tau.store.settings import Scope

OF_NODE = (".ts", ".js", ".mts", ".mjs", ".cts", ".cjs")
NEEDS_NODE = "TypeScript extensions need a Node host, which tau does not have yet"
_PASSED_OVER = ("__pycache__", "node_modules", "__init__.py")


class Found(Value):
    path: Path
    given: bool  # by name, so that tau does not start without it
    scope: Literal["cli", "project", "user"]
    content: Mapping[str, str] | None = None  # what trust is bound to, see trust.Decision


def extension_paths(
    lists: Mapping[Scope, Mapping[str, Sequence[Any]]],
    agent_dir: Path,
    cwd: Path,
    *,
    trusted: bool,
    given: Sequence[str] = (),
    only_given: bool = False,
    content: Mapping[str, str] | None = None,
) -> tuple[list[Found], list[str]]:
    """The extensions to load, in order, and what to tell about others. `lists` is Layers.lists.

    `content` is what trust in the project is bound to.
    Raises UsageError for one that was asked for and cannot be one.
    """
    found = [Found(path, True, "cli") for text in given for path in _asked_for(text, cwd)]
    foreign: list[Path] = []
    if not only_given:
        scopes: tuple[Scope, ...] = ("project", "user") if trusted else ("user",)
        for scope in scopes:
            named = _ours(listed(lists[scope].get("extensions", ())), foreign)
            found += [Found(path, False, scope, content if scope == "project" else None) for path in named]
        for scope, folder in (("project", cwd / ".pi" / "extensions"), ("user", agent_dir / "extensions")):
            if scope in scopes:
                entries = Entries(lists[scope].get("extensions", ()))
                kept = _ours(filter(entries.allows, in_folder(folder)), foreign)
                found += [Found(path, False, scope, content if scope == "project" else None) for path in kept]
    return _each_once(found), _told(foreign)


def listed(lines: Sequence[str]) -> list[Path]:
    """What entries of settings stand for."""
    entries = Entries(lines)
    return [path for named in entries.named() for path in _meant(named) if entries.allows(path)]


def in_folder(folder: Path) -> list[Path]:
    """The extensions that lie in a folder, by name."""
    rules = _ignored(folder)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    found = []
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith(".") or entry.name in _PASSED_OVER or rules.ignore(entry.name, path.is_dir()):
            continue
        if path.is_file() and path.suffix in (".py", *OF_NODE):
            found.append(path)
        elif path.is_dir() and (main := _main_of(path)):
            found.append(path if main.suffix == ".py" else main)
    return found


def _asked_for(text: str, cwd: Path) -> list[Path]:
    if text.startswith(("npm:", "git:", "builtin:", "http:", "https:", "ssh:")):
        raise UsageError(f"--extension {text}: this version of tau loads extensions from files and folders only")
    path = Path(os.path.normpath(cwd / os.path.expanduser(text)))
    paths = list(_meant(path)) if path.is_dir() else [path]
    if not paths:
        raise UsageError(f"--extension {text}: there is no Python extension in this folder")
    for one in paths:
        if one.suffix in OF_NODE:
            raise UsageError(f"--extension {text}: {NEEDS_NODE}")
        if not one.exists():
            raise UsageError(f"--extension {text}: there is no such file")
    return paths


def _meant(path: Path) -> list[Path]:
    """A file or a package is itself, another folder what lies in it."""
    if path.is_dir() and not (path / "__init__.py").is_file():
        return in_folder(path)
    return [path] if path.exists() else []


def _main_of(folder: Path) -> Path | None:
    names = ("__init__.py", "index.ts", "index.js", "package.json")
    there = next((folder / name for name in names if (folder / name).is_file()), None)
    return folder / "index.ts" if there is not None and there.name == "package.json" else there


def _ours(paths: Iterable[Path], foreign: list[Path]) -> list[Path]:
    """Those Python can load; the others are noted."""
    paths = list(paths)
    foreign += [path for path in paths if path.suffix in OF_NODE]
    return [path for path in paths if path.suffix not in OF_NODE]


def _each_once(found: Iterable[Found]) -> list[Found]:
    """The same file by two names is one extension; the first name counts."""
    by_file: dict[str, Found] = {}
    for one in found:
        by_file.setdefault(os.path.realpath(one.path), one)
    return list(by_file.values())


def _ignored(folder: Path) -> Rules:
    lines: list[str] = []
    for name in (".gitignore", ".ignore", ".fdignore"):
        try:
            lines += read_small(folder / name).decode("utf-8", "replace").splitlines()
        except OSError:
            continue
    return Rules(lines)


def _told(foreign: Sequence[Path]) -> list[str]:
    names = ", ".join(str(path) for path in dict.fromkeys(foreign))
    return [f"Not loaded: {names}. {NEEDS_NODE}."] if names else []
