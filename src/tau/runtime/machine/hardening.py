"""Process hardening: hide our memory and arguments from other processes, forbid privilege gains. Linux only.

The other processes are those of the same user; the privileges are those of programs that we start.
Imported lazily, because ctypes is slow to load.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

from tau.records.settings import ChildEnvironment

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38


def hide_memory() -> None:
    """Prevent other processes, including our own commands, from reading our memory and environment through /proc or
    with a debugger. Root still can. Programs that we start are not affected."""
    _prctl(PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    """From now on, no program that we or our descendants execute gains privileges: sudo and the like do not work."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def harden(inherited: ChildEnvironment) -> None:
    """Harden this process as the settings say. The second part is for the calling thread and what it starts."""
    if inherited.filter_secrets:
        hide_memory()  # else a command could read the filtered secrets from memory
    if inherited.no_new_privileges:
        no_new_privileges()


def hide_argument(secret: str) -> None:
    """Overwrite an argument of our command line, or the part after its "=", so that process lists do not show it.

    They showed it until now: a command line is not a good place for a key.
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
