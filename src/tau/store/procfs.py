"""Recognises files of procfs that show the environment or the memory of a process.

The type of the file system is read from the open descriptor: procfs can be mounted in several places (a chroot,
`/host/proc` in a container), and a link or a bind mount gives a file another name.
"""

from __future__ import annotations

import os
import re
import stat
import sys

PROC_SUPER_MAGIC = 0x9FA0
SECRET_NAMES = frozenset({"environ", "mem", "kcore", "vmcore"})

_PROCESS_FILE = r".*/\d+(?:/task/\d+)?/\w+"
_STATFS_BYTES = 512  # struct statfs has 120 bytes or fewer; its first member is f_type, a long


def shows_process(descriptor: int, status: os.stat_result, path: str) -> bool:
    """True if an open file shows the environment or the memory of a process. `path` is its real path.

    The descriptor may have been opened with O_PATH.
    """
    # Files of procfs have no size and no device of their own, so most files need no second system call.
    if sys.platform != "linux" or status.st_size or os.major(status.st_dev) or not stat.S_ISREG(status.st_mode):
        return False
    if not _is_on_procfs(descriptor):
        return False
    if os.path.basename(path) in SECRET_NAMES:
        return True
    # Bind-mounted under another name. Only the owner may read environ and mem; a world-readable file is not secret.
    return not status.st_mode & (stat.S_IRGRP | stat.S_IROTH) and re.fullmatch(_PROCESS_FILE, path) is None


def opened_path(descriptor: int, path: str) -> str:
    """Return the real path of an open file or folder, which `path` named when it was opened."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:  # a system without /proc
        return os.path.realpath(path)


def _is_on_procfs(descriptor: int) -> bool:
    import ctypes

    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if ctypes.CDLL(None, use_errno=True).fstatfs(descriptor, buffer):
        return True  # fail closed: the names decide
    return ctypes.c_long.from_buffer(buffer).value == PROC_SUPER_MAGIC
