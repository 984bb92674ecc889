"""Mounts of a sandbox: created from descriptors, and checked from inside.

The agent's process plans a list of mounts, and another process creates them. In between, a command of another sandbox
in the same folder can rename files, so that the names mean something else. So a source is opened without following
links and must have the planned identity; it is mounted on a descriptor of its target; and when all mounts exist, each
target is opened again, inside, before the first command runs (`check_mounts`). The last step also works if another
program has created the mounts by name.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from tau.runtime.sandbox.safe_open import Identity, identity_of, open_path

_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_EXEC, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 0x4000, 1 << 18
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CLONE, _AT_RECURSIVE, _AT_EMPTY_PATH, _AT_CWD = 1, 0x8000, 0x1000, -100
_MOVE_FROM_EMPTY_PATH, _MOVE_TO_EMPTY_PATH = 0x04, 0x40

_libc = ctypes.CDLL(None, use_errno=True)


class Mount(NamedTuple):
    """A bind mount of `source` at `target`. In a list the order matters: later mounts cover earlier ones."""

    source: str
    target: str
    writable: bool
    identity: Identity | None  # of the source; None for a placeholder that does not exist yet


class Refused(Exception):
    """The sandbox cannot be created. The message is the reason, as a sentence."""


class refusing:
    """Context manager that turns an OSError into a Refused with an explanation."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, at: Any) -> None:
        if isinstance(error, OSError):
            raise Refused(f"{self._what}: {error.strerror}") from None


def mount_all(mounts: Iterable[Mount]) -> None:
    """Make the whole file system read-only and attach the mounts over it. Requires a separate mount namespace."""
    with refusing("mounting is not allowed here"):
        call(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))
    trees = [(_clone(mount), mount.target) for mount in mounts]  # before their sources become read-only
    with refusing("mounting is not allowed here"):
        _set(_AT_CWD, "/", _READ_ONLY | _NO_SETUID, _AT_RECURSIVE)
        plain = _NO_SETUID | _NO_DEVICES | _NO_EXEC
        # Read-only, because the sysctls in it belong to root, and we may be root.
        call(_libc.mount(b"proc", b"/proc", b"proc", plain | _READ_ONLY, None))
        call(_libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", plain, b"mode=1777,size=256m"))
        with suppress(OSError):  # without it there are no terminals, which most commands do not need
            call(_libc.mount(b"devpts", b"/dev/pts", b"devpts", _NO_SETUID | _NO_EXEC, b"newinstance,ptmxmode=0666"))
    for tree, target in trees:
        with refusing(f"{target} cannot be mounted"):
            place = open_path(target)
            from_tree, to_place = (ctypes.c_int(tree), b""), (ctypes.c_int(place), b"")
            flags = ctypes.c_uint(_MOVE_FROM_EMPTY_PATH | _MOVE_TO_EMPTY_PATH)
            call(_libc.syscall(_MOVE_MOUNT, *from_tree, *to_place, flags))
        os.close(place)
        os.close(tree)


def check_mounts(mounts: Iterable[Mount]) -> list[int]:
    """Check from inside that exactly the planned source is mounted at each target, read-only if it has to be.

    Returns a descriptor for each. Raises Refused. Once a mount exists, nothing outside can move or replace it: other
    names may lead elsewhere later, but only within the mounted file system.
    """
    return [_checked(mount) for mount in mounts]


def _checked(mount: Mount) -> int:
    with refusing(f"{mount.target} cannot be opened in the sandbox"):
        place = open_path(mount.target)
        above = open_path(os.path.dirname(mount.target))
        is_mount = _mount_id(place) != _mount_id(above)
        os.close(above)
        is_read_only = bool(os.fstatvfs(place).f_flag & os.ST_RDONLY)
    if not is_mount or identity_of(place) != mount.identity:
        raise _replaced(mount.target)
    if not is_read_only and not mount.writable and not stat.S_ISCHR(os.fstat(place).st_mode):
        raise Refused(f"{mount.target} can be written")
    return place


def _mount_id(descriptor: int) -> str:
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        return next(line for line in file if line.startswith("mnt_id:"))


def _replaced(path: str) -> Refused:
    return Refused(
        f"{path} was replaced while the sandbox was being set up. Another program is changing this folder: try again"
    )


def check_sources(mounts: Iterable[Mount]) -> None:
    """Check that all sources have the planned identity before another program opens them by name. Raises Refused."""
    for mount in mounts:
        os.close(_source(mount))


def _source(mount: Mount) -> int:
    with refusing(f"{mount.source} cannot be opened without following links"):
        source = open_path(mount.source)
    if identity_of(source) != mount.identity:
        os.close(source)
        raise _replaced(mount.source)
    return source


def _clone(mount: Mount) -> int:
    """Return a detached copy of the mount tree at the source, which is not mounted anywhere yet."""
    source = _source(mount)
    with refusing(f"{mount.source} cannot be mounted"):
        flags = ctypes.c_uint(_CLONE | _AT_RECURSIVE | _AT_EMPTY_PATH | os.O_CLOEXEC)
        tree = call(_libc.syscall(_OPEN_TREE, ctypes.c_int(source), b"", flags))
        attributes = _NO_SETUID | _NO_DEVICES | (0 if mount.writable else _READ_ONLY)
        if not stat.S_ISCHR(os.fstat(source).st_mode):  # a device that the user has granted
            _set(tree, "", attributes, _AT_RECURSIVE | _AT_EMPTY_PATH)
    os.close(source)
    return tree


def _set(place: int, path: str, attributes: int, how: int) -> None:
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    where = (ctypes.c_int(place), os.fsencode(path), ctypes.c_uint(how))
    call(_libc.syscall(_MOUNT_SETATTR, *where, wanted, ctypes.c_size_t(len(wanted))))


def call(result: int) -> int:
    """Return the result of a system call made through libc. Raises OSError for a negative one."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
