"""What the client says, line by line.

The loop reads pipes, sockets and terminals itself, when they have something, and without making them non-blocking:
that would change them for whoever else has them. A file or /dev/null it cannot watch, so a thread reads those.
Nothing is read while more than LIMIT waits to be handled: then the client's own writes wait.
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
        self._full = False
        self._arrived = asyncio.Event()
        self._room: threading.Event | None = None  # what the thread waits for, if there is one
        try:
            self._loop.add_reader(handle, self._read)
        except (OSError, NotImplementedError):
            self._room = threading.Event()
            threading.Thread(target=self._read_in_thread, args=(self._room,), name="tau-stdin", daemon=True).start()

    async def next(self) -> Line | None:
        """The next line; None when there will be no more."""
        while not self._lines:
            if self._ended:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        line = self._lines.popleft()
        if isinstance(line, bytes):
            self._size -= len(line)
            if self._full and self._size <= LIMIT // 2:
                self._go_on()
        return line

    def _read(self) -> None:
        try:
            data = os.read(self._handle, PORTION)
        except BlockingIOError:  # it was non-blocking when we got it, and another reader was faster
            return
        except OSError:
            data = b""
        self._take(data)
        if self._ended or self._full:
            self._loop.remove_reader(self._handle)

    def _read_in_thread(self, room: threading.Event) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(self._handle, PORTION)
            except OSError:
                data = b""
            room.clear()
            try:
                self._loop.call_soon_threadsafe(self._take, data)
            except RuntimeError:  # the loop has ended already
                return
            room.wait()

    def _take(self, data: bytes) -> None:
        lines = self._decoder.feed(data) if data else self._decoder.end()
        self._lines += lines
        self._size += sum(len(line) for line in lines if isinstance(line, bytes))
        self._ended = not data
        self._full = self._size > LIMIT and not self._ended
        if self._room is not None and not self._full:
            self._room.set()
        if lines or self._ended:
            self._arrived.set()

    def _go_on(self) -> None:
        self._full = False
        if self._room is not None:
            self._room.set()
        else:
            self._loop.add_reader(self._handle, self._read)
