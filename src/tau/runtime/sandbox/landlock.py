"""Landlock: restricts which files a process and all its descendants may access.

A right is granted for everything below a folder, without exceptions below it; access that is not granted is denied.
Newer kernels know more rights. A right that the kernel does not know cannot be denied here, which is why the
read-only mounts of mounts.py deny all writing, too.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BELOW_A_PATH = 1
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version: number of file rights; later versions add none
READ = _EXECUTE | _READ_FILE | _READ_FOLDER
USE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL  # for a device
OF_FILES = _EXECUTE | USE  # rights that apply to anything but a folder
NETWORK = 0b11  # TCP: bind and connect; from version 4
SCOPES = 0b11  # abstract sockets of, and signals to, outside processes; from version 6

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the Landlock version of this kernel; 0 if it has none or has it disabled."""
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))))


def restrict(readable: Iterable[str | int], writable: Iterable[str | int], devices: Iterable[str]) -> None:
    """From now on, allow this process and its children only these accesses. A place is a path or its descriptor.

    Paths that do not exist are left out.
    """
    known = version()
    all_rights = (1 << RIGHTS.get(known, RIGHTS[max(RIGHTS)])) - 1
    fields = [all_rights, NETWORK if known >= 4 else 0, SCOPES if known >= 6 else 0]
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    rules = _checked(_libc.syscall(_CREATE, struct.pack("QQQ", *fields), ctypes.c_size_t(size), ctypes.c_uint(0)))
    try:
        for rights, places in ((READ, readable), (all_rights, writable), (USE, devices)):
            for place in places:
                _grant(rules, place, rights & all_rights)
        _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(_libc.syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0)))
    finally:
        os.close(rules)


def _grant(rules: int, named: str | int, rights: int) -> None:
    try:
        place = os.dup(named) if isinstance(named, int) else os.open(named, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _checked(_libc.syscall(_ADD, ctypes.c_int(rules), ctypes.c_int(_BELOW_A_PATH), rule, ctypes.c_uint(0)))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
