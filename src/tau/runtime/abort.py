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


class AbortSignal:
    def __init__(self) -> None:
        self.aborted = False
        self.reason = ""  # for whoever reads the answer that was cut; empty where somebody just wanted to stop
        self._tasks: set[asyncio.Future[Any]] = set()
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def abort(self, why: str = "") -> None:
        if not self.aborted:
            self.reason = why
        self.aborted = True
        self._event.set()
        for task in list(self._tasks):
            task.cancel()
        for listener in self._listeners:
            listener()

    def on_abort(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def cancel_on_abort(self, task: asyncio.Future[Any]) -> None:
        """Stop `task` when the switch is flipped, at once if it has been."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.aborted:
            task.cancel()

    async def wait(self, seconds: float) -> bool:
        """Sleep; True if the switch was flipped before the time was over."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return self.aborted  # perhaps in the same moment
        return True
