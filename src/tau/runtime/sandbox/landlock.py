"""Landlock: what a process, and all that comes from it, may do to files.

A right is granted for everything below a folder, and nothing below can be taken
out again; what is not granted is refused. The kernel knows more rights the newer
it is. A right that it does not know cannot be refused here, which is why the mounts
of confine.py refuse all writing, too.
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
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # version: how many rights it knows; later ones know no more about files
READ = _EXECUTE | _READ_FILE | _READ_FOLDER
USE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL  # of a device
OF_FILES = _EXECUTE | USE  # rights that make sense for what is no folder
NETWORK = 0b11  # TCP: bind and connect; from version 4
SCOPES = 0b11  # abstract sockets and signals to processes outside; from version 6

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """0 if this kernel has none, or has it switched off."""
    return max(0, int(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))))


def restrict(readable: Iterable[str | int], writable: Iterable[str | int], devices: Iterable[str]) -> None:
    """From here on only this, for this process and its children. A place is a path or a descriptor of it.

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
