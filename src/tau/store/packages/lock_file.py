"""packages.lock.json: what tau installed, from where, and the digest of its files. pi does not read it.

An entry may have `next`: what an installation that is about to be exchanged will have. It is written before the
exchange and removed after it, so that both states of the folder are known if tau is killed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, to_builtins
from tau.store.files import make_folder, read_small, replace_file
from tau.store.packages.marks import quick_mark
from tau.store.settings import as_text

FORMAT = 1


class LockEntry(Record):
    """One installation. `files` is the digest of the package's own files; absent if it is not known."""

    source: str = ""
    version: str | UnsetType = UNSET
    integrity: str | UnsetType = UNSET
    commit: str | UnsetType = UNSET
    time: str | UnsetType = UNSET
    scripts: list[str] = []  # packages with install scripts, among it and its dependencies
    built: list[str] = []  # those whose scripts were run
    files: str | UnsetType = UNSET
    mark: str | UnsetType = UNSET
    next: LockEntry | UnsetType = UNSET


class LockContent(Record):
    version: int = FORMAT
    packages: dict[str, LockEntry] = {}


def read_lock(path: Path) -> dict[str, LockEntry]:
    """Return the entries by identity. A file that cannot be read has none: what it covers counts as not locked."""
    try:
        return decode(LockContent, read_small(path)).packages
    except (OSError, BadRecord):
        return {}


def change_lock(
    path: Path,
    change: Callable[[dict[str, LockEntry]], Mapping[str, LockEntry]],
    announce: Callable[[Path, bytes | None], None] | None = None,
) -> None:
    """Replace the entries. The caller holds the lock of the folder (busy.py). Raises OSError.

    `announce` gets the new content of the file before it is written; None if the file is removed.
    """
    before = read_lock(path)
    after = dict(sorted(change(dict(before)).items()))
    if after == before:
        return
    data = as_text(to_builtins(LockContent(FORMAT, after))) + b"\n" if after else None
    if announce is not None:
        announce(path, data)
    if data is None:
        path.unlink(missing_ok=True)
        return
    make_folder(path.parent)
    replace_file(path, data)


def is_unchanged(entry: LockEntry, folder: Path, *, quick: bool) -> bool:
    """True if the files of a package are those that were installed. `quick`: sizes and times are enough if they fit."""
    known = [one for one in (entry, entry.next) if isinstance(one, LockEntry)]
    if any(not one.files for one in known):
        return True
    try:
        if quick and quick_mark(folder) in [one.mark for one in known]:
            return True
        from tau.store.packages.digests import content_digest

        digest = content_digest(folder)
    except (OSError, ValueError):  # ValueError: too large to be checked, unlike what was installed
        return False
    return digest in [one.files for one in known]
