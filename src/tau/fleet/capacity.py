"""How many attempts a worker takes: none while its disk is full, and none when it has grown too large."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from tau.records.fleet import Capacity

FREE_AGAIN = 0.05  # of the disk
NO_LIMIT = 0


def is_disk_full(error: BaseException) -> bool:
    """Also for git and others that only say so."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return os.strerror(errno.ENOSPC) in str(error)


def memory_used() -> int:
    """Resident bytes of this process; 0 if the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def parse_bytes(text: str) -> int:
    """`2G`, `500M` or a number. Raises ValueError."""
    factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:].upper())
    size = float(text[:-1]) * factor if factor else int(text)
    if not 0 < size < float("inf"):
        raise ValueError(f"{text} is not a size")
    return int(size)


class CapacityWatch:
    """`memory` in bytes; a worker that uses more takes no orders, ends when it is idle, and is replaced."""

    def __init__(self, root: Path, slots: int, memory: int = NO_LIMIT) -> None:
        self._root = root
        self._slots = slots
        self._memory = memory
        self._disk_is_full = False
        self.is_worn = False
        self._said = slots

    def disk_full(self) -> None:
        """An attempt could not write."""
        self._disk_is_full = True

    def look(self) -> Capacity | None:
        """What has changed since the last time."""
        if self._disk_is_full:
            usage = shutil.disk_usage(self._root)
            self._disk_is_full = usage.free < usage.total * FREE_AGAIN
        if self._memory and not self.is_worn:
            self.is_worn = memory_used() > self._memory
        reason = "its disk is full" if self._disk_is_full else "it uses too much memory" if self.is_worn else ""
        slots = 0 if reason else self._slots
        if slots == self._said:
            return None
        self._said = slots
        return Capacity(slots, reason)
