"""File locks, which the system releases when the process ends, however it ends.

The only module of the store that differs between operating systems.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> bool:
        """Lock an open file exclusively; False if another process holds the lock."""
        try:
            # A byte far beyond the contents: on Windows, other processes cannot read locked bytes.
            os.lseek(handle, 2**40, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    surely_lock = lock_shared = lock  # there are no shared locks

    def unlock(handle: int) -> None:
        """Does nothing: closing the file unlocks it."""

    def holder(handle: int) -> int | None:
        return None

    def lock_for_programs(handle: int) -> list[int]:
        """Return nothing: a lock cannot be inherited."""
        return []

else:
    import fcntl

    # Node does not let its own children inherit lower descriptors.
    FIRST_FOR_PROGRAMS = 20

    def lock(handle: int) -> bool:
        """Lock an open file exclusively; False if another process holds the lock."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: work without one
            return True
        return True

    def lock_shared(handle: int) -> bool:
        """Lock an open file together with others that do so; False if a process holds it exclusively."""
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def surely_lock(handle: int) -> bool:
        """Like `lock`, but False on a file system without locks."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Unlock an open file at once: closing it is not enough while a duplicate of its descriptor is open."""
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)

    def holder(handle: int) -> int | None:
        """Return the process that took the lock, if it is alive and the system tells."""
        wanted = os.fstat(handle)
        inode = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}:{wanted.st_ino}"
        try:
            with open("/proc/locks", encoding="ascii") as locks:
                for row in locks:
                    words = row.split()
                    if "FLOCK" in words and inode in words and os.path.exists(f"/proc/{words[4]}"):
                        return int(words[4])
        except (OSError, ValueError, IndexError):
            return None
        return None

    def lock_for_programs(handle: int) -> list[int]:
        """Return descriptors with which programs that inherit them keep a lock after this process was killed."""
        return [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, FIRST_FOR_PROGRAMS)]
