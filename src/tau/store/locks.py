"""One writer per file, by a lock the system gives back whatever becomes of us.

The only file of the store that is different on each kind of system.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int) -> bool:
        """Lock an open file for this handle alone; False if somebody has it."""
        try:
            # A byte far behind any content: Windows keeps others from reading what is locked.
            os.lseek(handle, 2**40, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def holder(handle: int) -> int | None:
        return None

else:
    import fcntl

    def lock(handle: int) -> bool:
        """Lock an open file for this handle alone; False if somebody has it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks: better unlocked than unusable
            return True
        return True

    def holder(handle: int) -> int | None:
        """The process that has the lock, where the system tells."""
        wanted = os.fstat(handle)
        place = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}:{wanted.st_ino}"
        try:
            with open("/proc/locks", encoding="ascii") as locks:
                for row in locks:
                    words = row.split()
                    if "FLOCK" in words and place in words:
                        return int(words[4])
        except (OSError, ValueError, IndexError):
            return None
        return None
