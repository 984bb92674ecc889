"""The bounded event buffer of one reader.

A full buffer makes the client stop reading, and then the agent waits. The client holds readers weakly, so that the
buffer of an abandoned reader is freed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tau.client.events import RpcEvent

MAX_BUFFERED_EVENTS = 1000  # events


class Events:
    """An async iterator of events. It ends when the client is stopped, and raises AgentGone if the agent dies."""

    def __init__(self, limit: int | None, on_consumed: Callable[[], None]) -> None:
        self._limit, self._on_consumed = limit, on_consumed
        self._buffer: deque[RpcEvent] = deque()
        self._available = asyncio.Event()
        self._drained = asyncio.Event()
        self._over = False
        self._error: BaseException | None = None

    @property
    def full(self) -> bool:
        return self._limit is not None and not self._over and len(self._buffer) >= self._limit

    def push(self, event: RpcEvent) -> None:
        if not self._over:
            self._buffer.append(event)
            self._drained.clear()
            self._available.set()

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream after the buffered events, with an error if one is given."""
        if not self._over:
            self._over, self._error = True, error
            self._available.set()

    async def aclose(self) -> None:
        """Stop receiving events."""
        self.finish()
        self._buffer.clear()
        self._drained.set()
        self._on_consumed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RpcEvent:
        await self._wait_for_events()
        event = self._buffer.popleft()
        self._on_consumed()
        return event

    async def batch(self) -> list[RpcEvent]:
        """Return all buffered events, at least one, for readers in another thread."""
        await self._wait_for_events()
        events = list(self._buffer)
        self._buffer.clear()
        self._on_consumed()
        return events

    async def caught_up(self) -> None:
        """Wait until the reader has consumed everything and waits for more."""
        await self._drained.wait()

    async def _wait_for_events(self) -> None:
        while not self._buffer:
            self._drained.set()
            if self._over:
                raise self._error or StopAsyncIteration
            self._available.clear()
            await self._available.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
