"""A queue between a producer and one reader in the same event loop.

`put` never waits. A producer that can wait applies backpressure with `room`: a queue that has reached its limit has
room again when the reader has emptied it, so that the two do not take turns for every item.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from tau.concurrency.turns import TurnFuture

T = TypeVar("T")


class AsyncQueue(Generic[T]):
    """`items` may be changed directly, for example to merge the newest item with the one before it."""

    def __init__(self, limit: int | None = None) -> None:
        self.items: deque[T] = deque()
        self.closed = False
        self.error: BaseException | None = None  # of the producer, for the reader to raise after the last item
        self._limit = limit
        self._is_changed = False  # since the last call of `changed`
        self._waiting: list[TurnFuture] = []  # calls of `changed`
        self._loop: asyncio.AbstractEventLoop | None = None  # of the reader; looking it up is a system call
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self.items)

    # The producer.

    @property
    def full(self) -> bool:
        """True if the limit is reached and the queue is open."""
        return self._limit is not None and not self.closed and len(self.items) >= self._limit

    @property
    def has_room(self) -> bool:
        """True if `room` would not wait."""
        return self._room.is_set()

    def put(self, *items: T) -> None:
        """Add items, without regard to the limit. A closed queue drops them."""
        if self.closed:
            return
        self.items.extend(items)
        self.wake()
        if self._limit is not None and len(self.items) >= self._limit:
            self._room.clear()

    async def room(self) -> None:
        """Wait until the reader has emptied a queue that has reached its limit. A closed queue has room."""
        await self._room.wait()

    def close(self, error: BaseException | None = None) -> None:
        """End the queue after the items that are in it, with an error if one is given. The first call counts."""
        if not self.closed:
            self.closed, self.error = True, error
            self.wake()
            self._room.set()

    # The reader.

    def take(self) -> T:
        """Return the first item. Raises IndexError if there is none."""
        item = self.items.popleft()
        if not self.items:
            self._room.set()
        return item

    def take_all(self) -> list[T]:
        """Return all items, possibly none."""
        taken = list(self.items)
        self.discard()
        return taken

    def discard(self) -> None:
        self.items.clear()
        self._room.set()

    async def ready(self) -> bool:
        """Wait for an item. False if the queue is closed and there are no more."""
        while not self.items:
            if self.closed:
                return False
            await self.changed()
        return True

    async def changed(self) -> None:
        """Wait until something was put, or the queue was closed or woken, since the last call."""
        if not self._is_changed:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            waiting = TurnFuture(loop=self._loop)
            self._waiting.append(waiting)
            try:
                await waiting
            finally:
                self._waiting.remove(waiting)
        self._is_changed = False

    def wake(self) -> None:
        """End the wait for a change without one."""
        self._is_changed = True
        for waiting in self._waiting:
            waiting.finish()
