"""Delays between the streams on which a server announces changes: a stream that ended is opened again."""

from __future__ import annotations

import asyncio

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0


class Backoff:
    """The delay doubles up to MAX_DELAY_S, and begins anew after a stream that worked.

    That is one which delivered something, or was open for longer than the delay: a proxy may cut idle streams.
    """

    def __init__(self, first_s: float = FIRST_DELAY_S) -> None:
        self._first_s = self._delay_s = first_s
        self._opened_at: float | None = None
        self._again = False

    def opened(self) -> bool:
        """The stream is open. True if it replaces another one: changes may have been missed between them."""
        self._opened_at = asyncio.get_running_loop().time()
        return self._again

    def delivered(self) -> None:
        self._delay_s = self._first_s

    async def wait(self, at_least_s: float = 0.0) -> None:
        """The stream has ended, or could not be opened."""
        now = asyncio.get_running_loop().time()
        if self._opened_at is not None and now - self._opened_at > self._delay_s:
            self._delay_s = self._first_s
        delay, self._delay_s = max(self._delay_s, at_least_s), min(self._delay_s * 2, MAX_DELAY_S)
        self._opened_at, self._again = None, True
        await asyncio.sleep(delay)
