"""Reading from a connection less often than data arrives, for a client that shows it only a few times a second.

Every read costs a wake-up of the event loop, whatever its size. While pieces of an answer come faster than
`interval_s`, reading pauses for that time, and what arrives meanwhile is read at once. The first piece, and pieces that
come more slowly, are read without a delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ReadPacer:
    def __init__(self, interval_s: float, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._interval_s = interval_s
        self._pause = pause
        self._resume = resume
        self._loop = asyncio.get_running_loop()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def after_read(self) -> None:
        now = self._loop.time()
        if self._timer is None and now - self._last < self._interval_s:
            self._pause()
            self._timer = self._loop.call_at(now + self._interval_s, self._on_timer)
        self._last = now

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        self._last = self._loop.time()
        self._resume()
