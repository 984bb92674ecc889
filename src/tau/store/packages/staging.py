"""A new state of a folder is made beside the old one, then both are exchanged: there is never a half state.

Files that npm and git do not write in place are hard links to those of the old state, so that a copy costs little.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from tau.store.files import make_folder

PREFIX, OLD = ".tau-staging-", ".old"
RENAME_EXCHANGE, AT_FDCWD = 2, -100
# Below these folders files are replaced, never changed in place.
_LINKED_BELOW = ("node_modules", "objects")


@contextmanager
def staging_folder(beside: Path) -> Iterator[Path]:
    """Make a private folder in the parent of `beside`, and remove it at the end, with what was exchanged into it."""
    parent = Path(os.path.realpath(beside.parent))
    make_folder(parent)
    folder = parent / f"{PREFIX}{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_leftovers(*parents: Path) -> None:
    """Remove the staging folders of a tau that was killed. The caller holds the lock."""
    for parent in parents:
        with suppress(OSError):
            for path in parent.glob(f"{PREFIX}*"):
                _restore(path)
                remove_tree(path)


def _restore(staging: Path) -> None:
    """Undo an exchange in two steps that was interrupted between them."""
    for old in staging.glob(f"*{OLD}"):
        target = Path(os.path.normpath(staging.parent / unquote(old.name.removesuffix(OLD))))
        if target.is_relative_to(staging.parent) and not os.path.lexists(target):
            old.rename(target)


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, also if parts of it are read-only."""
    if os.path.islink(path) or os.path.isfile(path):
        path.unlink(missing_ok=True)
        return

    def retry(function: object, name: str, _: object) -> None:
        with suppress(OSError):
            os.chmod(os.path.dirname(name), 0o700)
            os.chmod(name, 0o700)
            os.unlink(name) if not os.path.isdir(name) else os.rmdir(name)

    shutil.rmtree(path, onerror=retry)
    if os.path.exists(path):
        shutil.rmtree(path, ignore_errors=True)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder; files of installed packages and git objects become hard links. Raises OSError."""
    _copy(str(source), str(target), linked=False)


def _copy(source: str, target: str, *, linked: bool) -> None:
    os.mkdir(target, 0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            into = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), into)
            elif entry.is_dir():
                # Not the files directly in node_modules: npm writes its own there.
                _copy(entry.path, into, linked=linked or os.path.basename(source) in _LINKED_BELOW)
            elif entry.is_file(follow_symlinks=False):
                _copy_file(entry.path, into, linked=linked)
    shutil.copystat(source, target)


def _copy_file(source: str, target: str, *, linked: bool) -> None:
    if linked:
        with suppress(OSError):  # a file system without hard links
            os.link(source, target)
            return
    shutil.copy2(source, target)


def make_independent(folder: Path) -> None:
    """Replace a folder of hard links by a real copy, because its files are about to be changed in place."""
    draft = folder.with_name(f".{folder.name}{PREFIX}")
    shutil.copytree(folder, draft, symlinks=True)
    remove_tree(folder)
    draft.rename(folder)


def exchange(new: Path, target: Path) -> None:
    """Put `new` in the place of `target`. The old state, if there is one, goes to the staging folder, or is removed.

    `new` is in a staging folder beside `target`, or beside a folder above it. Raises OSError.
    """
    target = Path(os.path.realpath(target))
    make_folder(target.parent)
    if not os.path.lexists(target):
        os.rename(new, target)
    elif not _exchange(str(new), str(target)):
        # Its name says where it was, see _restore.
        old = new.with_name(f"{quote(os.path.relpath(target, new.parent.parent), safe='')}{OLD}")
        os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            os.rename(old, target)
            raise
        remove_tree(old)
    with suppress(OSError):
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: str, other: str) -> bool:
    """Exchange two names in one step; False if the system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    rename = getattr(library, "renameat2", None)
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), other)
