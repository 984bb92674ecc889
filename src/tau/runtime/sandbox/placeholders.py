"""Placeholders: empty folders at names that commands must not create while a sandbox is active.

A missing `.git` cannot be mounted read-only, so the launcher of a sandbox creates an empty folder in its place and
mounts that. Several sandboxes can share a placeholder: each holds a shared lock, and the last one to release it
removes the folder. A placeholder that a crash left behind is recognised by its mode and reused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from tau.runtime.sandbox.safe_open import Identity, identity_of, open_path

MODE = 0o500
MAX_TRIES = 100  # another process may remove the folder between two of our steps

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Placeholder(NamedTuple):
    name: str
    parent: int
    folder: int  # descriptor; the lock lasts as long as it is open

    @property
    def identity(self) -> Identity:
        return identity_of(self.folder)


def hold(path: str, within: Identity) -> Placeholder:
    """Create or share the placeholder at `path`, whose parent must be `within`. Raises OSError."""
    parent = open_path(os.path.dirname(path))
    try:
        if identity_of(parent) != within:
            raise OSError(errno.ESTALE, "was replaced by another folder", os.path.dirname(path))
        name = os.path.basename(path)
        for _ in range(MAX_TRIES):
            with suppress(FileExistsError):
                os.mkdir(name, MODE, dir_fd=parent)
            with suppress(FileNotFoundError):
                if (folder := _locked(name, parent)) is not None:
                    return Placeholder(name, parent, folder)
        raise OSError(errno.EBUSY, "is removed again and again", path)
    except BaseException:
        os.close(parent)
        raise


def _locked(name: str, parent: int) -> int | None:
    """Open and lock the folder; None if the name refers to another folder by the time the lock is acquired."""
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH)
        if os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), os.fstat(folder)):
            return folder
    except BaseException:
        os.close(folder)
        raise
    os.close(folder)
    return None


def release(held: Placeholder) -> None:
    """Remove the folder, unless another sandbox uses it or it was replaced or changed."""
    try:
        with suppress(OSError):
            fcntl.flock(held.folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named = os.stat(held.name, dir_fd=held.parent, follow_symlinks=False)
            if os.path.samestat(named, os.fstat(held.folder)) and stat.S_IMODE(named.st_mode) == MODE:
                os.rmdir(held.name, dir_fd=held.parent)  # fails if the folder is not empty
    finally:
        os.close(held.folder)
        os.close(held.parent)


def is_placeholder(path: str) -> bool:
    """True for a folder that a sandbox has created, including one that a crash left behind."""
    try:
        status = os.lstat(path)
        return stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == MODE and not os.listdir(path)
    except OSError:
        return False
