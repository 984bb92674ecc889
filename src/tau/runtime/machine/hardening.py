"""What other processes of the same user can learn from ours, and what those that we start may become. Linux only.

Loaded when one of it is asked for: what it takes (ctypes) is slow to load.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38


def hide_memory() -> None:
    """Our memory and our environment are not to be read through /proc, nor by a debugger; not even by a command of
    our own. Whoever is root still can. What we start is not affected."""
    _prctl(PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """Nothing that comes from us, from now on, gains rights by being executed: sudo and the like have no effect."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def hide_argument(secret: str) -> None:
    """Write over an argument of our command line, or what follows its "=", so that lists of processes do not show it.

    They did until now: a key has better places than a command line.
    """
    if sys.platform != "linux" or not secret:
        return
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b") ")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end are the 48th and 49th in proc(5)
        wanted, at = secret.encode("utf-8", "surrogateescape"), start
        for argument in ctypes.string_at(start, end - start).split(b"\0"):
            if argument == wanted or (argument.startswith(b"--") and argument.endswith(b"=" + wanted)):
                ctypes.memset(at + len(argument) - len(wanted), ord("*"), len(wanted))
            at += len(argument) + 1


def _prctl(what: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(what, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)
