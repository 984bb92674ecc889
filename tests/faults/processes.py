"""Who lives below a process, and who is left of them: read from /proc, so Linux only."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from pathlib import Path


def children(pid: int) -> list[int]:
    """The children of every thread of it; none if it is gone.

    A thread that ends meanwhile leaves its children to another, which may have been looked at already: look again.
    """
    while True:
        try:
            threads = [*Path(f"/proc/{pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            return []
        try:
            return [int(one) for thread in threads for one in (thread / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue


def below(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    found: list[int] = []
    waiting = children(pid)
    while waiting:
        found.append(waiting.pop())
        waiting += children(found[-1])
    return found


class Watch:
    """The processes below one, held by handles: a number that is given to another process later is not mistaken.

    with Watch(agent.pid) as watch:
        agent.signal(signal.SIGKILL)
        assert watch.left(within=2) == []
    """

    def __init__(self, pid: int, others: Iterable[int] = ()) -> None:
        self._handles: dict[int, int] = {}
        for one in (*below(pid), *others):
            try:
                self._handles[one] = os.pidfd_open(one)
            except ProcessLookupError:
                continue

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles.values():
            os.close(handle)

    def __len__(self) -> int:
        return len(self._handles)

    def left(self, *, within: float) -> list[int]:
        """Those that are still there when the time is over, or none as soon as all are gone."""
        until = time.monotonic() + within
        return [pid for pid, handle in self._handles.items() if not _ended(handle, until)]


def _ended(handle: int, until: float) -> bool:
    return bool(select.select([handle], [], [], max(0.0, until - time.monotonic()))[0])
