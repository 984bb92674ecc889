"""`--after-loss continue`: take up the session and the work folder of a lost attempt.

Only on the machine where it ran, and only if nothing uses them any more: its worker held a lock, which ends with the
process, and the commands of a dead worker are killed within two seconds.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tau.fleet.attempt_files import PROMPTS_BEGUN, WORK_FOLDER
from tau.records.fleet import Order

INTERRUPTED = (
    "You were interrupted: the process that ran you has ended. Your files are as you left them, and commands that were"
    " running have ended. Find out what is done already, and go on with the task."
)
SETTLE_S = 5.0  # for the commands of the lost attempt to end
LOOK_S = 0.05


class Lost:
    """What is left of a lost attempt. `prompts` is the number of prompts that it had begun."""

    def __init__(self, draft: Path, work: Path) -> None:
        self.work = work
        self._draft = draft
        with suppress(OSError, ValueError):
            self.prompts = int((draft / PROMPTS_BEGUN).read_text())
            return
        self.prompts = 0

    @property
    def has_set_up(self) -> bool:
        """True if its `setup` has ended."""
        return os.path.exists(self._draft / "setup.log") or self.prompts > 0

    def copy_to(self, draft: Path) -> None:
        for name in ("session.jsonl", "setup.log"):
            if os.path.exists(self._draft / name):
                shutil.copyfile(self._draft / name, draft / name)


async def take_over(order: Order, root: Path) -> Lost | None:
    """The lost attempt that an order continues; None if it cannot be continued here."""
    if not order.continues:
        return None
    draft = Path(order.folder).with_name(f"{order.continues}.partial")
    try:
        work = Path((draft / WORK_FOLDER).read_text())
    except OSError:
        return None
    if not os.path.isdir(work) or not os.path.exists(draft / "session.jsonl"):
        return None
    return await asyncio.to_thread(_when_unused, root, order, draft, work)


def _when_unused(root: Path, order: Order, draft: Path, work: Path) -> Lost | None:
    end = time.monotonic() + SETTLE_S
    with held(root, order, order.continues) as is_free:
        while is_free and time.monotonic() < end:
            if not _is_used(work):
                return Lost(draft, work)
            time.sleep(LOOK_S)
    return None


def _is_used(folder: Path) -> bool:
    """True if a process works in a folder."""
    inside = f"{os.path.realpath(folder)}/"
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if f"{os.readlink(f'{entry.path}/cwd')}/".startswith(inside):
                    return True
    return False


@contextmanager
def held(root: Path, order: Order, number: int) -> Iterator[bool]:
    """The lock of an attempt at the task of an order, on this machine. False if another process has it."""
    folder = root / "held" / order.run
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{order.task.id}-{number}"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)
