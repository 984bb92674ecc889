"""Output to a terminal that may be slow: what it does not take at once waits, and nothing else is made meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tau.tui.tty import Tty


class TerminalOutput:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, tty: Tty, on_idle: Callable[[], None], on_hangup: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._tty = tty
        self._on_idle = on_idle
        self._on_hangup = on_hangup
        self._waiting = b""

    @property
    def idle(self) -> bool:
        """Whether everything was written."""
        return not self._waiting

    def write(self, data: bytes) -> None:
        if self._waiting:
            self._waiting += data
            return
        self._waiting = data
        if not self._send():
            self._loop.add_writer(self._tty.fd, self._resume)

    def take(self) -> bytes:
        """Stop writing. Returns what was not written; it may begin inside a sequence."""
        if self._waiting:
            self._loop.remove_writer(self._tty.fd)
        left, self._waiting = self._waiting, b""
        return left

    def _send(self) -> bool:
        """Whether all is written, or cannot be."""
        try:
            self._waiting = self._waiting[self._tty.write(self._waiting) :]
        except OSError:
            self._waiting = b""
            self._loop.call_soon(self._on_hangup)
        return not self._waiting

    def _resume(self) -> None:
        if self._send():
            self._loop.remove_writer(self._tty.fd)
            self._on_idle()
