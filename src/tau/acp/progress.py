"""Output of running tool calls, at most a few times a second per call. The last output is always sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tau.records.events import ToolUpdate

INTERVAL_S = 0.25


class ProgressLimiter:
    """`send` is called with an update when it is due."""

    def __init__(self, send: Callable[[ToolUpdate], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._free_at: dict[str, float] = {}  # by call
        self._pending: dict[str, tuple[ToolUpdate, asyncio.TimerHandle]] = {}

    def add(self, event: ToolUpdate) -> None:
        id = event.tool_call_id
        if id in self._pending:
            self._pending[id] = event, self._pending[id][1]
        elif self._loop.time() >= self._free_at.get(id, 0):
            self._fire(id, event)
        else:
            self._pending[id] = event, self._loop.call_at(self._free_at[id], self._fire_pending, id)

    def drop(self, id: str) -> None:
        """The call has ended: its result has everything."""
        self._free_at.pop(id, None)
        pending = self._pending.pop(id, None)
        if pending is not None:
            pending[1].cancel()

    def clear(self) -> None:
        for id in list(self._free_at):
            self.drop(id)

    def _fire_pending(self, id: str) -> None:
        self._fire(id, self._pending.pop(id)[0])

    def _fire(self, id: str, event: ToolUpdate) -> None:
        self._free_at[id] = self._loop.time() + INTERVAL_S
        self._send(event)
