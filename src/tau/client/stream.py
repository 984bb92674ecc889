"""Events for one reader, in order, in a buffer that is not without end.

A full buffer makes the client stop reading, and then the agent waits. A reader
that is thrown away takes its buffer with it: the client does not hold it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tau.client.events import RpcEvent

BUFFER = 1000  # events that a reader may be behind


class Events:
    """An async iterator of events. It ends when the client is stopped, and raises AgentGone if the agent dies."""

    def __init__(self, limit: int | None, taken: Callable[[], None]) -> None:
        self._limit, self._taken = limit, taken
        self._buffer: deque[RpcEvent] = deque()
        self._news = asyncio.Event()
        self._hungry = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    @property
    def full(self) -> bool:
        return self._limit is not None and not self._over and len(self._buffer) >= self._limit

    def push(self, event: RpcEvent) -> None:
        if not self._over:
            self._buffer.append(event)
            self._hungry.clear()
            self._news.set()

    def finish(self, error: BaseException | None = None) -> None:
        """Nothing more will come after what is here."""
        if not self._over:
            self._over, self._error = True, error
            self._news.set()

    async def aclose(self) -> None:
        """Hear no more."""
        self.finish()
        self._buffer.clear()
        self._hungry.set()
        self._taken()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RpcEvent:
        await self._some()
        event = self._buffer.popleft()
        self._taken()
        return event

    async def batch(self) -> list[RpcEvent]:
        """All that is there, at least one: for readers in another thread."""
        await self._some()
        events = list(self._buffer)
        self._buffer.clear()
        self._taken()
        return events

    async def caught_up(self) -> None:
        """Until the reader has come back for more than there is."""
        await self._hungry.wait()

    async def _some(self) -> None:
        while not self._buffer:
            self._hungry.set()
            if self._over:
                raise self._error or StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
