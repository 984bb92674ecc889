"""A disk whose n-th call fails: to be run for n = 1, 2, 3, … until a story ends without having met it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from tau.store.journal import Disk

ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EINTR)


class Fault(NamedTuple):
    """From the `first` call on, `times` calls go wrong: with an error, or with less than was to be written.

    `short` is None for nothing written, 0 for half of it, -1 for all but the last byte.
    """

    first: int
    times: int
    error: int
    short: int | None = None

    def __str__(self) -> str:
        what = {None: "", 0: ", half written", -1: ", written but for a byte"}[self.short]
        return f"{errno.errorcode[self.error]} at call {self.first}, {self.times} times{what}"


class Unsynced(Disk):
    """For files that nobody wants to keep."""

    def sync(self, handle: int) -> None:
        pass


class Faults(Disk):
    """Opening counts as a call only where `opening` is wanted; syncing takes time and is never really done."""

    def __init__(self, first: int, count: int, error: int, short: int | None = None, *, opening: bool = False) -> None:
        self.calls = 0
        self.faulty = range(first, first + count)
        self.error = error
        self.short = short
        self._opening = opening

    @property
    def met(self) -> bool:
        """Whether the story came as far as the fault."""
        return self.calls >= self.faulty.start

    def open(self, path: Path, flags: int) -> int:
        if self._opening:
            self._fail()
        return super().open(path, flags)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        try:
            self._fail()
        except OSError:
            if self.short is None or len(data) < 2:
                raise
            # Half of it gets there, and the rest is a call of its own; -1: all but the last byte.
            return super().write(handle, data[: self.short if self.short < 0 else len(data) // 2])
        return super().write(handle, data)

    def sync(self, handle: int) -> None:
        self._fail()  # and else not done: it takes time, and nobody cuts the power

    def cut(self, handle: int, size: int) -> None:
        self._fail()
        super().truncate(handle, size)

    def _fail(self) -> None:
        self.calls += 1
        if self.calls in self.faulty:
            raise OSError(self.error, os.strerror(self.error))
