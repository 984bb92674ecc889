"""Received lines that wait to be handled, with backpressure: above MAX_QUEUED_BYTES no more should be read.

Lines that arrive while their reader is idle need not wait: a LineHandler gets them in the callback that received them,
without a switch to the task of the reader. It may leave lines to the reader, and then gets none until the reader has
taken them all, so that the order is kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.transport import LineHandler
from tau.wire.lines import MAX_LINE_BYTES, LineDecoder

MAX_QUEUED_BYTES = 16 * 1024 * 1024


class LineQueue:
    """Bytes in, lines out. Calls `resume` when a queue that was full has room again."""

    def __init__(self, resume: Callable[[], None], line_limit: int = MAX_LINE_BYTES) -> None:
        self._resume = resume
        self._decoder = LineDecoder(line_limit)
        self._lines: deque[InputLine] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._reader_waits = False
        self._handler: LineHandler | None = None
        self.ended = False
        self.full = False

    def deliver_to(self, handler: LineHandler) -> None:
        """Set the handler of lines that arrive while a call of `next` waits."""
        self._handler = handler

    def feed(self, data: bytes) -> None:
        """Add received bytes; empty means the end of the input."""
        lines = self._decoder.feed(data) if data else self._decoder.end()
        if self._reader_waits and self._handler is not None and lines and not self._lines:
            handled = self._handler(lines)
            if handled == len(lines) and data:
                return
            del lines[:handled]
        self._lines += lines
        self._size += sum(len(line) for line in lines if isinstance(line, bytes))
        self.ended = not data
        self.full = self._size > MAX_QUEUED_BYTES and not self.ended
        if lines or self.ended:
            self._changed.set()

    async def next(self) -> InputLine | None:
        """Return the next line, or None at the end of the input."""
        while not self._lines:
            if self.ended:
                return None
            self._changed.clear()
            self._reader_waits = True
            try:
                await self._changed.wait()
            finally:
                self._reader_waits = False
        line = self._lines.popleft()
        if isinstance(line, bytes):
            self._size -= len(line)
            if self.full and self._size <= MAX_QUEUED_BYTES // 2:
                self.full = False
                self._resume()
        return line
