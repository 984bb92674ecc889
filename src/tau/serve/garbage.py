"""Memory of a host that lives long: collects reference cycles when there may be some, and returns free memory.

The process starts with thresholds that nearly turn Python's own collections off (`run_and_exit`). A session that is
closed is a cycle, and every failed tool call is one. Young objects are collected often. A collection of all objects
takes time with many live sessions, and without it closed ones pile up: Python's allocator keeps the memory of the
largest pile. So there is one as soon as the closed sessions are a part of the live ones, and when no other was closed
for a while. Then free memory is also returned to the system.
"""

from __future__ import annotations

import asyncio
import gc

from tau.runtime.machine import allocator

RUNS_PER_YOUNG = 50
MIN_CLOSED_PER_FULL = 8
LIVE_PER_CLOSED = 20
QUIET_S = 5.0  # after the last closed session


class CycleCollector:
    def __init__(self) -> None:
        self._settled = 0
        self._closed = 0  # since the last full collection
        self._quiet: asyncio.TimerHandle | None = None

    def settled(self) -> None:
        """A prompt has settled."""
        self._settled += 1
        gc.collect(1 if self._settled % RUNS_PER_YOUNG == 0 else 0)

    def closed(self, live: int) -> None:
        """A session was closed; `live` others are not."""
        self._closed += 1
        if self._quiet is not None:
            self._quiet.cancel()
        if self._closed >= max(MIN_CLOSED_PER_FULL, live // LIVE_PER_CLOSED):
            self._full()
        else:
            gc.collect(0)
            self._quiet = asyncio.get_running_loop().call_later(QUIET_S, self._at_rest)

    def _full(self) -> None:
        self._quiet, self._closed = None, 0
        gc.collect()

    def _at_rest(self) -> None:
        self._full()
        allocator.return_free_memory()


CYCLES = CycleCollector()  # garbage belongs to the process
