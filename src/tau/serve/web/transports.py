"""WebSocketTransport: a WebSocket as the Transport of a channel. A text message is one or more whole lines.

Under our own listener, output is written without a task and without a copy for each client; under another ASGI server a
task sends it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from tau.runtime.protocol.line_queue import LineQueue
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.transport import LineHandler

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import BatchSource

logger = logging.getLogger(__name__)


class DirectConnection(Protocol):
    """The connection of our own listener (`LimitedWebSocket`)."""

    resumed: Callable[[], None] | None

    def write_text(self, data: memoryview) -> bool: ...


class WebSocketTransport:
    """`send` is that of the ASGI server; `connection` is faster, where there is one."""

    write_now = None
    _source: BatchSource

    def __init__(self, send: Callable[[Any], Awaitable[None]], connection: DirectConnection | None) -> None:
        self._send = send
        self._connection = connection
        self._input = LineQueue(self._resume_input)
        self._input_has_room = asyncio.Event()
        self._input_has_room.set()
        self._parts: list[bytes] = []  # of a line that is too large for one batch
        self._blocked = False  # the client has to read first
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        if connection is not None:
            connection.resumed = self._resume

    # Input.

    async def receive(self) -> InputLine | None:
        return await self._input.next()

    def deliver_to(self, handler: LineHandler) -> None:
        self._input.deliver_to(handler)

    async def feed(self, text: str) -> None:
        """Add a message of the client. Waits while too much input is queued."""
        data = text.encode("utf-8", "surrogatepass")
        self._input.feed(data if data.endswith(b"\n") else data + b"\n")
        if self._input.full:
            self._input_has_room.clear()
            await self._input_has_room.wait()

    def lose(self) -> None:
        """The client is gone, or must go."""
        if not self._closed:
            self._closed = True
            self._input.feed(b"")
            self._source.connection_lost()

    def _resume_input(self) -> None:
        self._input_has_room.set()

    # Output.

    def connect(self, source: BatchSource) -> None:
        self._source = source

    def write(self) -> None:
        if self._connection is not None:
            self._blocked = False
            self._write_directly(self._connection)
        elif self._task is None:
            self._task = asyncio.create_task(self._send_all())

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    def _resume(self) -> None:
        if self._blocked and self._connection is not None:
            self._blocked = False
            self._write_directly(self._connection)

    def _write_directly(self, connection: DirectConnection) -> None:
        while not self._blocked and not self._closed:
            batch = self._source.take()
            if not batch:
                return
            if (message := self._message(batch)) is not None:
                self._blocked = not connection.write_text(message)

    async def _send_all(self) -> None:
        try:
            while not self._closed and (batch := self._source.take()):
                if (message := self._message(batch)) is not None:
                    await self._send({"type": "websocket.send", "text": str(message, "utf-8", "replace")})
        except Exception as error:  # closed meanwhile: what is raised depends on the server
            logger.debug("a WebSocket was closed while it was written to: %r", error)
            self.lose()
        finally:
            self._task = None

    def _message(self, batch: bytes) -> memoryview | None:
        """Whole lines, without the last LF; None if the batch ends inside a line."""
        if not batch.endswith(b"\n"):
            self._parts.append(batch)
            return None
        if self._parts:
            batch = b"".join((*self._parts, batch))
            self._parts.clear()
        return memoryview(batch)[:-1]
