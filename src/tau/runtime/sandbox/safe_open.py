"""Safe open: open a path without following symbolic links, and identify the opened file.

A name that one process has checked can lead elsewhere by the time another process opens it. So the first process
records the identity of the file (device, inode and type), and the second process opens the name without following
links and compares.

Processes that start with `-I -S` and must stay small load this module, so it imports only the lightest modules of the
standard library.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from typing import NamedTuple

_OPENAT2 = 437
_NO_MAGIC_LINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
MAX_LINKS = 40  # the kernel's limit for one path

_libc = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """Identity of a file, independent of its name. Unique among the files that exist at the same time."""

    device: int
    inode: int
    kind: int  # the type bits of st_mode


def identity_of(descriptor: int) -> Identity:
    status = os.fstat(descriptor)
    return Identity(status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode))


def open_path(path: str) -> int:
    """Return an O_PATH descriptor of an absolute path, none of whose components may be a symbolic link.

    Raises OSError: ELOOP for a link, ENOENT, ENOTDIR, EACCES as usual.
    """
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_beneath(root, path.lstrip("/"))
    finally:
        os.close(root)


def open_beneath(top: int, path: str) -> int:
    """`open_path` for a path relative to a directory, which the path may not leave."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_MAGIC_LINKS | _NO_SYMLINKS | _BENEATH)
    name = ctypes.c_char_p(os.fsencode(path or "."))
    found = int(_libc.syscall(_OPENAT2, ctypes.c_int(top), name, how, ctypes.c_size_t(len(how))))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):  # Linux before 5.6; some containers refuse unknown system calls
        return walk_beneath(top, path)
    raise OSError(number, os.strerror(number), path)


def walk_beneath(top: int, path: str) -> int:
    """`open_beneath` for kernels without openat2: opens one component after the other."""
    found = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
    try:
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            inner = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=found)
            os.close(found)
            found = inner
            if stat.S_ISLNK(os.fstat(found).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    except BaseException:
        os.close(found)
        raise
    return found


def identify(path: str) -> Identity:
    """Return the identity of the file at an absolute path. Raises OSError like `open_path`."""
    descriptor = open_path(path)
    try:
        return identity_of(descriptor)
    finally:
        os.close(descriptor)


def links_to(path: str) -> list[str]:
    """Return the symbolic links that resolving an absolute path follows, each by its own real path."""
    found: list[str] = []
    folder, rest = "/", path.split("/")
    while rest and len(found) < MAX_LINKS:
        name = rest.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            folder = os.path.dirname(folder)
            continue
        folder = os.path.join(folder, name)
        if os.path.islink(folder):
            found.append(folder)
            leads_to = os.readlink(folder)
            folder = "/" if leads_to.startswith("/") else os.path.dirname(folder)
            rest = leads_to.split("/") + rest
    return found
