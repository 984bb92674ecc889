"""Loops with a time of their own, for a machine that may stand still for a second at any moment.

What the program says of seconds would then be over before that has happened which a
test is about, or a second would take two. `Clock` goes slowly, and by leaps where a test
lets time pass: for what other processes and threads have a part in. `Leaping` is for what
happens in the loop alone: whenever all wait, it is at once the moment that the
first of them waits for. What is measured with its time is exact.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

SLOWER = 100  # times


class Clock(asyncio.SelectorEventLoop):
    _passed = 0.0

    def time(self) -> float:
        return super().time() / SLOWER + self._passed

    def let_pass(self, seconds: float) -> None:
        self._passed += seconds


class Leaping(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)

    def time(self) -> float:
        return self._leap.now


class _Leap(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(timeout if timeout is None else 0)
        if timeout is not None and not ready:
            self.now += max(0.0, timeout)
        return ready


def played(story: Callable[[Clock], Coroutine[Any, Any, T]]) -> T:
    """Run it to its end on a slow clock. No deadline here: there is one for every test."""
    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        return runner.run(story(clock))


def leapt(story: Coroutine[Any, Any, T]) -> T:
    """Run it to its end without waiting."""
    with asyncio.Runner(loop_factory=Leaping) as runner:
        return runner.run(story)
