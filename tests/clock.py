"""A loop whose time goes slowly, and by leaps where a test lets it pass.

A machine may stand still for a second at any moment. What the program says of
seconds would then be over before that has happened which a test is about. Here they
last long enough for any machine; and what shall be over is over at once.

    def story(clock: Clock) -> Coroutine: ...
    played(story)
"""

from __future__ import annotations

import asyncio
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


def played(story: Callable[[Clock], Coroutine[Any, Any, T]]) -> T:
    """Run it to its end. No deadline here: there is one for every test."""
    clock = Clock()
    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        return runner.run(story(clock))
