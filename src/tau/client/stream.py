"""The bounded event buffer of one reader.

A full buffer makes the client stop reading, and then the agent waits. The client holds readers weakly, so that the
buffer of an abandoned reader is freed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tau.client.events import RpcEvent
from tau.concurrency.async_queue import AsyncQueue

MAX_BUFFERED_EVENTS = 1000  # events


class Events:
    """An async iterator of events. It ends when the client is stopped, and raises AgentGone if the agent dies."""

    def __init__(self, limit: int | None, on_consumed: Callable[[], None]) -> None:
        self._queue = AsyncQueue[RpcEvent](limit)
        self._on_consumed = on_consumed
        self._drained = asyncio.Event()

    @property
    def full(self) -> bool:
        return self._queue.full

    def push(self, event: RpcEvent) -> None:
        if not self._queue.closed:
            self._drained.clear()
            self._queue.put(event)

    def finish(self, error: BaseException | None = None) -> None:
        """End the stream after the buffered events, with an error if one is given."""
        self._queue.close(error)

    async def aclose(self) -> None:
        """Stop receiving events."""
        self.finish()
        self._queue.discard()
        self._drained.set()
        self._on_consumed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RpcEvent:
        await self._wait_for_events()
        event = self._queue.take()
        self._on_consumed()
        return event

    async def batch(self) -> list[RpcEvent]:
        """Return all buffered events, at least one, for readers in another thread."""
        await self._wait_for_events()
        events = self._queue.take_all()
        self._on_consumed()
        return events

    async def caught_up(self) -> None:
        """Wait until the reader has consumed everything and waits for more."""
        await self._drained.wait()

    async def _wait_for_events(self) -> None:
        while not self._queue.items:
            self._drained.set()
            if self._queue.closed:
                raise self._queue.error or StopAsyncIteration
            await self._queue.changed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()
