"""Digests of a package's own files: without .git, and without node_modules, which npm's lock file covers."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tau.store.files import read_small

MAX_FILES, MAX_BYTES, MAX_DEPTH = 4096, 64 * 1024 * 1024, 32
SKIPPED = ("node_modules", ".git", "__pycache__")


class TooLarge(ValueError):
    """A package with more files or bytes than are checked; the message says so."""


def own_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a package, below its folder, in an order that does not depend on the disk. Raises OSError.

    Links are not followed; a link counts by its target's name.
    """
    yield from _below(folder, "", 0)


def _below(folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    if depth > MAX_DEPTH:
        raise TooLarge(f"{folder} is nested too deeply")
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name in SKIPPED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(folder / entry.name, f"{prefix}{entry.name}/", depth + 1)
        else:
            yield prefix + entry.name, entry.stat(follow_symlinks=False)


def content_digest(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of a package's own files. Raises OSError or TooLarge."""
    digest, room = hashlib.sha256(), MAX_BYTES
    for count, (name, status) in enumerate(own_files(folder), 1):
        if count > MAX_FILES or status.st_size > room:
            raise TooLarge(f"{folder} has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
        path = folder / name
        data = os.fsencode(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else read_small(path, room)
        room -= len(data)
        digest.update(hashlib.sha256(os.fsencode(name)).digest() + hashlib.sha256(data).digest())
    return digest.hexdigest()
