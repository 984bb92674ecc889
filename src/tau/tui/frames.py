"""When to paint: a key at once, streamed pieces at most 20 times a second, never while the terminal is behind.

Changes are gathered in the view; a frame is made only when it can be written. So a terminal that reads slowly costs
nothing but its own delay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tau.concurrency.turns import call_in_turn

FRAME_INTERVAL_S = 0.04
REMOTE_FRAME_INTERVAL_S = 0.066  # over SSH


class FrameScheduler:
    """Calls `paint` in the event loop. `ready` says whether the terminal takes a frame now."""

    def __init__(self, paint: Callable[[], None], ready: Callable[[], bool], interval_s: float) -> None:
        self._paint = paint
        self._ready = ready
        self._interval_s = interval_s
        self._last = 0.0
        self._waiting: asyncio.TimerHandle | None = None
        self._is_next = False  # the waiting frame is painted in this turn of the loop, or the next
        self.paused = False  # during a resize, or while another program has the terminal

    def request(self, *, at_once: bool = False, in_turn: bool = False) -> None:
        """Paint soon. Requests that come before the frame are part of it.

        `at_once` does not wait for the interval. `in_turn` paints in this turn of the loop, if there is one, and not in
        the next iteration: only if no task that was just started is about to change the view.
        """
        if self._is_next or (self._waiting is not None and not at_once):
            return  # the waiting frame comes no later than one for this request would
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = now if at_once else max(now, self._last + self._interval_s)
        if due > now:
            self._waiting = loop.call_at(due, self._frame)
            return
        self.cancel()
        self._is_next = True
        if in_turn:
            call_in_turn(loop, self._next_frame)
        else:
            loop.call_soon(self._next_frame)

    def _next_frame(self) -> None:
        if self._is_next:  # otherwise it was cancelled
            self._frame()

    def _frame(self) -> None:
        self._waiting, self._is_next = None, False
        if self.paused or not self._ready():
            return  # the end of the pause, or of the output, requests a frame again
        self._last = asyncio.get_running_loop().time()
        self._paint()

    def cancel(self) -> None:
        self._is_next = False
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def frame_interval_s(environment: Mapping[str, str]) -> float:
    return REMOTE_FRAME_INTERVAL_S if environment.get("SSH_CONNECTION") else FRAME_INTERVAL_S
