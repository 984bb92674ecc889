"""Lines from the client, with backpressure.

The event loop reads pipes, sockets and terminals itself when they are readable, without making them non-blocking:
that would change them for every process that shares them. It cannot watch a file or /dev/null, so a thread reads
those. Nothing is read while more than MAX_QUEUED_BYTES wait to be handled; then the client's writes block.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque

from tau.runtime.protocol.requests import InputLine
from tau.wire.lines import LineDecoder

MAX_QUEUED_BYTES = 16 * 1024 * 1024
READ_BYTES = 256 * 1024


class Inbox:
    """Reads lines from a descriptor."""

    def __init__(self, descriptor: int, line_limit: int) -> None:
        self._descriptor = descriptor
        self._decoder = LineDecoder(line_limit)
        self._loop = asyncio.get_running_loop()
        self._lines: deque[InputLine] = deque()
        self._size = 0
        self._ended = False
        self._full = False
        self._changed = asyncio.Event()
        self._room: threading.Event | None = None  # the reader thread, if there is one, waits for this
        try:
            self._loop.add_reader(descriptor, self._read)
        except (OSError, NotImplementedError):
            self._room = threading.Event()
            threading.Thread(target=self._read_in_thread, args=(self._room,), name="tau-stdin", daemon=True).start()

    async def next(self) -> InputLine | None:
        """Return the next line, or None at the end of input."""
        while not self._lines:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        line = self._lines.popleft()
        if isinstance(line, bytes):
            self._size -= len(line)
            if self._full and self._size <= MAX_QUEUED_BYTES // 2:
                self._resume()
        return line

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:  # inherited as non-blocking, and another reader was faster
            return
        except OSError:
            data = b""
        self._add(data)
        if self._ended or self._full:
            self._loop.remove_reader(self._descriptor)

    def _read_in_thread(self, room: threading.Event) -> None:
        data = b"-"
        while data:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError:
                data = b""
            room.clear()
            try:
                self._loop.call_soon_threadsafe(self._add, data)
            except RuntimeError:  # the loop is closed
                return
            room.wait()

    def _add(self, data: bytes) -> None:
        lines = self._decoder.feed(data) if data else self._decoder.end()
        self._lines += lines
        self._size += sum(len(line) for line in lines if isinstance(line, bytes))
        self._ended = not data
        self._full = self._size > MAX_QUEUED_BYTES and not self._ended
        if self._room is not None and not self._full:
            self._room.set()
        if lines or self._ended:
            self._changed.set()

    def _resume(self) -> None:
        self._full = False
        if self._room is not None:
            self._room.set()
        else:
            self._loop.add_reader(self._descriptor, self._read)
