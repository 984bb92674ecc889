"""The queue of results on their way from model calls and tools to the agent loop."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from tau.concurrency.async_queue import AsyncQueue
from tau.core.agent.tool_results import ToolProgress
from tau.records.base import Value

RESULT_QUEUE_LIMIT = 512


class ProgressMark(Value):
    """Placeholder in the result queue for the latest progress of a tool."""

    key: int


class PublishInProgress(Value):
    """Placeholder in the result queue for an update that the model call has published and the driver waits for."""

    waiting: Awaitable[None]


class ResultQueue(AsyncQueue[Any]):
    """Results on their way to the loop. Progress of a tool is coalesced."""

    def __init__(self) -> None:
        super().__init__(limit=RESULT_QUEUE_LIMIT + 1)
        self._shown: dict[int, ToolProgress] = {}

    async def put_with_backpressure(self, results: Sequence[Any]) -> None:
        """Wait for room, then put. A cancelled wait puts the results too: they are part of the answer already."""
        try:
            await self.room()
        finally:
            self.put(*results)

    def progress(self, result: ToolProgress) -> None:
        """Put the progress of a tool; it replaces earlier progress that the loop has not read yet."""
        key = id(result.call)
        if key not in self._shown:
            self.put(ProgressMark(key))
        self._shown[key] = result

    def next(self) -> Any:
        """Return the next result, or None."""
        if not self.items:
            return None
        result = self.take()
        return self._shown.pop(result.key) if isinstance(result, ProgressMark) else result
