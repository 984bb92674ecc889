"""What the client says, line by line.

A thread reads, because that works on pipes, files, /dev/null and terminals
alike, which asyncio's pipe readers do not. It stops reading while more than
LIMIT waits to be handled: then the client's own writes wait.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque

from tau.wire.lines import LineDecoder, TooLong

LIMIT = 16 * 1024 * 1024
PORTION = 256 * 1024

Line = bytes | TooLong


class Inbox:
    def __init__(self, handle: int, line_limit: int) -> None:
        self._handle = handle
        self._decoder = LineDecoder(line_limit)
        self._loop = asyncio.get_running_loop()
        self._lines: deque[Line] = deque()
        self._size = 0
        self._ended = False
        self._told = False
        self._room = threading.Condition()
        self._arrived = asyncio.Event()
        threading.Thread(target=self._read, name="tau-stdin", daemon=True).start()

    async def next(self) -> Line | None:
        """The next line; None when there will be no more."""
        while True:
            with self._room:
                if self._lines:
                    line = self._lines.popleft()
                    if isinstance(line, bytes):
                        self._size -= len(line)
                        if self._size <= LIMIT // 2:
                            self._room.notify()
                    return line
                if self._ended:
                    return None
                self._told = False
                self._arrived.clear()
            await self._arrived.wait()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._handle, PORTION)
            except OSError:
                data = b""
            self._add(self._decoder.feed(data) if data else self._decoder.end(), ended=not data)
            if not data:
                return

    def _add(self, lines: list[Line], *, ended: bool) -> None:
        if not lines and not ended:
            return
        with self._room:
            self._lines.extend(lines)
            self._size += sum(len(line) for line in lines if isinstance(line, bytes))
            self._ended = ended
            tell, self._told = not self._told, True
        if tell:
            try:
                self._loop.call_soon_threadsafe(self._arrived.set)
            except RuntimeError:  # the loop has ended already
                return
        with self._room:
            while self._size > LIMIT and not ended:
                self._room.wait()
