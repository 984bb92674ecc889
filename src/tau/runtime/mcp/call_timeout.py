"""Time limit of a request: progress restarts it, up to a maximum; a dialog of the server stops it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class CallTimeout:
    """`async with` around the wait. Raises TimeoutError when the time is over."""

    def __init__(self, seconds: float, max_seconds: float | None = None) -> None:
        self._seconds = seconds
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._latest = loop.time() + (seconds if max_seconds is None else max(seconds, max_seconds))
        self._timeout = asyncio.timeout(seconds)
        self._pauses = 0
        self._remaining = 0.0

    async def __aenter__(self) -> CallTimeout:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._timeout.__aexit__(kind, error, at)

    def restart(self) -> None:
        """The server is making progress."""
        if self._pauses:
            self._remaining = self._seconds
        else:
            self._reschedule(self._seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time in which the server waits for the user does not count."""
        began = self._now()
        if not self._pauses:
            when = self._timeout.when()
            self._remaining = self._seconds if when is None else max(0.0, when - began)
            self._set(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self._latest += self._now() - began
            if not self._pauses:
                self._reschedule(self._remaining)

    def _reschedule(self, seconds: float) -> None:
        self._set(min(self._now() + seconds, self._latest))

    def _set(self, when: float | None) -> None:
        try:
            self._timeout.reschedule(when)
        except RuntimeError:  # the wait has ended
            return
