"""One tau at a time changes the packages of a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tau.store.files import make_folder
from tau.store.locks import holder, lock, lock_for_programs, unlock
from tau.store.packages.errors import PackageError

WAIT_S = 30.0
_HELD: ContextVar[tuple[int, ...]] = ContextVar("held locks", default=())


def held_locks() -> tuple[int, ...]:
    """Return the descriptors that a program must inherit to keep the locks that the caller holds."""
    return _HELD.get()


@contextmanager
def exclusive(base: Path, timeout: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a folder with packages.

    The system releases it when the process ends, however it ends, and so have the programs that inherited it.

    Raises PackageError if another process holds it longer than `timeout` seconds, or OSError.
    """
    make_folder(base)
    # The folder itself is locked: a file for it would be an untracked file in projects.
    handle = os.open(base, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout
        while not lock(handle):
            if time.monotonic() > deadline:
                process = holder(handle)
                who = "another process" if process is None else f"process {process}"
                raise PackageError(f"The packages in {base} are being changed by {who}; try again when it is done.")
            time.sleep(0.05)
        shared = lock_for_programs(handle)
        before = _HELD.set((*_HELD.get(), *shared))
        try:
            yield
        finally:
            _HELD.reset(before)
            for one in shared:
                os.close(one)
    finally:
        unlock(handle)
        os.close(handle)
