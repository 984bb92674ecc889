"""Turns: a chain of callbacks and tasks that runs within one iteration of the event loop.

A piece of an answer passes several tasks: one reads it, one decides about it, and a callback writes it. asyncio resumes
each of them in the next iteration, with a system call between them. In a turn, the next one runs as soon as the
previous one waits:

    run_turn       starts a turn in a callback of the loop, such as `data_received`
    call_in_turn   schedules a callback in the turn, or with `call_soon` if there is none
    TurnFuture     resumes the task that awaits it in the turn; AsyncQueue is made of these

A turn ends after MAX_CALLS calls, so that it cannot starve the loop; `call_soon` takes the rest. What runs in a turn
must be fit to run in a callback: the code that schedules a callback goes on before it is called.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any

MAX_CALLS = 64
# The calls of turns that are under way, by event loop. Each loop uses its own entry, in its own thread.
_turns: dict[asyncio.AbstractEventLoop, deque[Callable[[], object]]] = {}


def run_turn(loop: asyncio.AbstractEventLoop, callback: Callable[..., object], *args: object) -> None:
    """Call `callback` and then whatever is scheduled in this turn. Must not be called by a task."""
    if loop in _turns:
        callback(*args)
        return
    calls = _turns[loop] = deque()
    try:
        callback(*args)
        for _ in range(MAX_CALLS):
            if not calls:
                break
            next_callback = calls.popleft()
            try:
                next_callback()
            except Exception as error:
                _report(loop, next_callback, error)
    finally:
        del _turns[loop]
        for late in calls:
            loop.call_soon(late)


def call_in_turn(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call `callback` later in the current turn, or in the next iteration of the loop. Only in the loop's thread."""
    calls = _turns.get(loop)
    if calls is None:
        loop.call_soon(callback)
    else:
        calls.append(callback)


def _report(loop: asyncio.AbstractEventLoop, callback: Callable[[], object], error: Exception) -> None:
    loop.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})


class TurnFuture(asyncio.Future[None]):
    """A future for one task, which `finish` resumes in the current turn. Cancelled or failed, it is like any other."""

    _waiter: Callable[[], object] | None = None

    def finish(self) -> None:
        if self.done():
            return
        self.set_result(None)
        if (waiter := self._take_waiter()) is not None:
            call_in_turn(self.get_loop(), waiter)

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self.done() or self._waiter is not None or context is None:
            super().add_done_callback(callback, context=context)
        else:
            self._waiter = partial(context.run, callback, self)

    def cancel(self, msg: Any | None = None) -> bool:
        return super().cancel(msg) and self._resume_later()

    def fail(self, error: Exception) -> None:
        if not self.done():
            self.set_exception(error)
            self._resume_later()

    def _resume_later(self) -> bool:
        if (waiter := self._take_waiter()) is not None:
            self.get_loop().call_soon(waiter)
        return True

    def _take_waiter(self) -> Callable[[], object] | None:
        """It refers to this future: kept here, it would be a cycle, and a long answer makes thousands of them."""
        waiter, self._waiter = self._waiter, None
        return waiter
