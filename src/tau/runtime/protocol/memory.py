"""Transport in memory: a client in the same process and event loop, without descriptors and threads.

It has the backpressure of a pipe: the client waits while too much input is queued, and the server while the client does
not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from tau.runtime.protocol.line_queue import LineQueue
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.transport import LineHandler
from tau.wire.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import BatchSource

MAX_BUFFERED_BYTES = 64 * 1024  # output that the client has not read; like the buffer of a pipe


class MemoryTransport:
    """The server's end. `client` is the other end."""

    write_now = None
    _source: BatchSource

    def __init__(self, line_limit: int = MAX_LINE_BYTES) -> None:
        self.client = MemoryClient(self)
        self._input = LineQueue(self.client.input_resumed, line_limit)
        self._writing = False  # the source has more, and the client has to read first

    async def receive(self) -> InputLine | None:
        return await self._input.next()

    def deliver_to(self, handler: LineHandler) -> None:
        """Not supported: the server would run inside a call of its client."""

    def connect(self, source: BatchSource) -> None:
        self._source = source

    def write(self) -> None:
        self._writing = True
        while self._writing and self.client.has_room:
            if batch := self._source.take():
                self.client.add_output(batch)
            else:
                self._writing = False

    async def close(self) -> None:
        self._writing = False
        self.client.end_output()

    # Called by the client's end.

    def feed(self, data: bytes) -> bool:
        """Add input; empty means its end. Returns False if the client has to wait."""
        self._input.feed(data)
        return not self._input.full

    def resume_writing(self) -> None:
        if self._writing:
            self.write()

    def client_left(self) -> None:
        self._writing = False
        self._input.feed(b"")
        self._source.connection_lost()


class MemoryClient:
    """The client's end."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self._batches: deque[bytes] = deque()
        self._buffered = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._input_ended = self._output_ended = False

    async def write(self, data: bytes) -> None:
        """Send bytes: lines, or parts of lines."""
        await self._writable.wait()
        if data and not self._input_ended and not self._transport.feed(data):
            self._writable.clear()

    def end_input(self) -> None:
        """Send nothing more."""
        if not self._input_ended:
            self._input_ended = True
            self._transport.feed(b"")

    async def read(self) -> bytes:
        """Bytes of the server, as soon as there are any; empty when it has closed the connection."""
        while not self._batches and not self._output_ended:
            self._readable.clear()
            await self._readable.wait()
        if not self._batches:
            return b""
        batch = self._batches.popleft()
        self._buffered -= len(batch)
        self._transport.resume_writing()
        return batch

    def disconnect(self) -> None:
        """Close both directions: the server loses its client."""
        if not self._output_ended:
            self.end_output()
            self._input_ended = True
            self._transport.client_left()

    # Called by the server's end.

    @property
    def has_room(self) -> bool:
        return self._buffered < MAX_BUFFERED_BYTES

    def add_output(self, batch: bytes) -> None:
        self._batches.append(batch)
        self._buffered += len(batch)
        self._readable.set()

    def end_output(self) -> None:
        self._output_ended = True
        self._readable.set()

    def input_resumed(self) -> None:
        self._writable.set()
