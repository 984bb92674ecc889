"""`tau list`: the packages of the settings, and their state on disk. It starts no program and uses no network."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from tau.cli.packages import Folders, as_json
from tau.core.packages.sources import GitSource, NpmSource
from tau.runtime.terminal import emit, say
from tau.store.files import read_small
from tau.store.packages.configured import ConfiguredPackage
from tau.store.packages.lock_file import LockEntry, read_lock

TITLES = {"user": "User packages:", "project": "Project packages:"}


def run_list(arguments: Namespace, folders: Folders) -> int:
    packages = folders.packages()
    locks = {layout.lock_file: read_lock(layout.lock_file) for layout in {one.layout for one in packages}}
    rows = [package_row(one, locks[one.layout.lock_file]) for one in packages]
    if arguments.json:
        emit(as_json(rows))
        return 0
    if not rows:
        say("No packages installed.")
    for scope, title in TITLES.items():
        of_scope = [row for row in rows if row["scope"] == scope]
        if of_scope and of_scope[0] is not rows[0]:
            say()
        for at, row in enumerate(of_scope):
            if at == 0:
                say(title)
            _print(row)
    return 0


def package_row(one: ConfiguredPackage, locked: dict[str, LockEntry]) -> dict[str, Any]:
    folder = one.folder()
    is_there = os.path.exists(folder)
    return {
        "source": one.text,
        "scope": one.scope,
        "filtered": one.filters is not None,
        "version": _version(one, folder) if is_there else None,
        "path": str(folder) if is_there else None,
        "missing": bool(one.problem()),
        "changed": is_there and one.is_changed(locked),
        "locked": one.identity in locked,
    }


def _print(row: dict[str, Any]) -> None:
    words = [row["source"], "(filtered)" if row["filtered"] else "", f"[{row['version']}]" if row["version"] else ""]
    state = "missing" if row["missing"] else "changed since it was installed" if row["changed"] else ""
    say("  " + " ".join(word for word in [*words, f"- {state}" if state else ""] if word))
    if row["path"]:
        say(f"    {row['path']}")


def _version(one: ConfiguredPackage, folder: Path) -> str | None:
    if isinstance(one.source, NpmSource):
        version = one.contents().manifest.get("version")
        return version if isinstance(version, str) else None
    return head_commit(folder) if isinstance(one.source, GitSource) else None


def head_commit(folder: Path) -> str | None:
    """The commit that is checked out, read from the files of git."""
    try:
        head = read_small(folder / ".git" / "HEAD").decode().strip()
        if not head.startswith("ref: "):
            return head[:12]
        name = head.removeprefix("ref: ")
        loose = folder / ".git" / name
        if os.path.exists(loose):
            return read_small(loose).decode().strip()[:12]
        for line in read_small(folder / ".git" / "packed-refs").decode().splitlines():
            if line.endswith(f" {name}"):
                return line[:12]
    except (OSError, UnicodeDecodeError):
        return None
    return None
