"""A switch that stops work in progress without stopping its owner.

Cancelling a task says "go away" to everything in it. Abort says less: drop this
piece of work and tell me. A task put under a switch is cancelled when the switch
is flipped; it finds the switch flipped and reports, where a cancellation from
outside passes through untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Switch:
    def __init__(self) -> None:
        self.flipped = False
        self.why = ""  # for whoever reads the answer that was cut; empty where somebody just wanted to stop
        self._tasks: set[asyncio.Future[Any]] = set()
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def flip(self, why: str = "") -> None:
        if not self.flipped:
            self.why = why
        self.flipped = True
        self._event.set()
        for task in list(self._tasks):
            task.cancel()
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def watch(self, task: asyncio.Future[Any]) -> None:
        """Stop `task` when the switch is flipped, at once if it has been."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.flipped:
            task.cancel()

    async def wait(self, seconds: float) -> bool:
        """Sleep; True if the switch was flipped before the time was over."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return self.flipped  # perhaps in the same moment
        return True
