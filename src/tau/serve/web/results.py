"""The result of a prompt, for requests that wait for it: the record of `--result`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from tau.errors import CommandError
from tau.records.events import AgentSettled, ExtensionError
from tau.records.replies import Result
from tau.runtime.app.batch import RunSummary
from tau.serve.event_stream import Published
from tau.serve.live_session import LiveSession


class ResultWaiter:
    """Reads the stream of a session after a number until the run has settled. Use it with `with`."""

    def __init__(self, live: LiveSession, after: int) -> None:
        self.cursor = after
        self._live = live
        self._summary = RunSummary(lambda event: None)
        self._denials = len(live.handle.denials)
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __enter__(self) -> Self:
        self._live.stream.listeners.add(self)
        self.wake()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stream.listeners.discard(self)

    def wake(self) -> None:
        ring = self._live.stream.ring
        if self._settled.done():
            return
        if not ring.reaches(self.cursor):
            self._settled.set_exception(CommandError("The run has said more than is kept; read the session instead."))
            return
        records = list(ring.read(self.cursor, ring.last))
        self.cursor = ring.last
        for record in records:
            self._apply(record.item)
            if self._settled.done():
                return

    @property
    def settled(self) -> bool:
        return self._settled.done()

    async def result(self) -> Result:
        await self._settled
        self._summary.denials = list(self._live.handle.denials)[self._denials :]
        return self._summary.result(self._live.handle, self._summary.code)

    def _apply(self, event: Published) -> None:
        if not isinstance(event, ExtensionError):
            self._summary.pass_on(event)
        if isinstance(event, AgentSettled):
            self._settled.set_result(None)
