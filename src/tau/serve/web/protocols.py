"""Subclasses of uvicorn's protocols, which close what uvicorn leaves open: see decision 11.

A request head must be whole within HEAD_TIMEOUT_S and MAX_HEAD_BYTES, and its target must be a path. A WebSocket may
send only small messages until its client has proven who it is, and no endless ones afterwards. The application reaches
its connection by the ASGI extension EXTENSION; other servers do not have it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from tau.serve.request_checks import MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEAD_FIELDS
from tau.serve.web.connections import EXTENSION, ConnectionTable
from tau.serve.web.keepalive import PingWheel

HEAD_TIMEOUT_S = 10.0
MAX_UNPROVED_MESSAGE = 16 * 1024
MAX_FRAGMENTS = 4096  # of one message; empty ones do not count for its size
SILENCE_TIMEOUT_MS = 40_000  # TCP_USER_TIMEOUT
KEEPALIVE_S = 20
FRAGMENT_BYTES = 64 * 1024
PING = b"\x89\x00"  # a frame without content
_TOO_LARGE = (431, "The request head is too large.")
_PHRASES = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


class _Refused(Exception):
    """Ends the parser."""


class HeadLimits(HttpToolsProtocol):
    """HTTP/1.1 with limits for request heads."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.table: ConnectionTable = app_state["connections"]
        self.head_timeout_s: float = app_state.get("head_timeout_s", HEAD_TIMEOUT_S)
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head_bytes = 0
        self._refusal = (400, "The request is not valid HTTP.")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        _set_options(connection)
        self._await_head()
        self.table.add(self, self.loop.time(), connection.fileno())

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.table.remove(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def prove(self, credential: str) -> bool:
        """The client has shown a credential. False if that has too many connections already."""
        return self.table.prove(self, credential)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # type: ignore[dict-item]
        if not self._in_head:
            self._head_bytes = 0
            self._await_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEAD_FIELDS:
            self._refusal = _TOO_LARGE
            raise _Refused
        if not self.url.startswith(b"/"):
            self._refusal = (400, "The request target must be a path.")
            raise _Refused
        super().on_headers_complete()

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        upgraded = self.transport.get_protocol()
        assert isinstance(upgraded, LimitedWebSocket)
        self.table.replace(self, upgraded, self.loop.time())

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn when the parser fails."""
        self._refuse(*self._refusal)

    def _await_head(self) -> None:
        self._in_head = True
        self._stop_timer()
        self._head_timer = self.loop.call_later(self.head_timeout_s, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(408, "The request head did not arrive in time.")

    def _refuse(self, status: int, text: str) -> None:
        self._stop_timer()
        body = b'{"error":"%s"}' % text.encode()
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, _PHRASES[status], len(body)) + body)
        self.transport.close()


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """WebSocket with limits for messages."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.table: ConnectionTable = app_state["connections"]
        self.conn.max_message_size = MAX_UNPROVED_MESSAGE
        self.resumed: Callable[[], None] | None = None  # called when the client has read
        self.wheel: PingWheel = app_state["pings"]
        self._heard = True  # something, since the last ping
        self._rest: memoryview | None = None  # of a message that is sent in fragments
        self._begun = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        super().data_received(data)

    def start_keepalive(self) -> None:
        self.wheel.add(self)

    def stop_keepalive(self) -> None:
        self.wheel.remove(self)

    def ping(self) -> None:
        if self.close_sent or self.transport.is_closing():
            self.wheel.remove(self)
        elif self._heard:
            self._heard = False
            self.transport.write(PING)
        else:
            self.wheel.remove(self)
            self.keepalive_timeout()
            if self.transport.get_write_buffer_size():  # the client does not read: closing would wait for it
                self.transport.abort()

    def shutdown(self) -> None:
        if not self.transport.is_closing():  # uvicorn fails if the client has said goodbye, and still has to read
            super().shutdown()

    def abort(self) -> None:
        self.transport.abort()

    def prove(self, credential: str) -> bool:
        if not self.table.prove(self, credential):
            return False
        self.conn.max_message_size = MAX_BODY_BYTES
        return True

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.accept" and self.transport.is_closing():
            self.handshake_complete = True  # the client has left: uvicorn would log a missing answer
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = (
                True  # by a refusal, which uvicorn does not count and would log as a missing answer
            )

    def write_text(self, data: memoryview) -> bool:
        """Send a text message. False if the client has to read before the next one.

        A large message is sent in fragments, as the client reads it: a slow client holds a reference to bytes that it
        shares with others, and not a copy.
        """
        if self.disconnected or self.close_sent or self.transport.is_closing():
            return False
        if len(data) <= FRAGMENT_BYTES:
            self.transport.write(b"".join((frame_head(0x81, len(data)), data)))
            return self.writable.is_set()
        self._rest, self._begun = data, False
        return self._write_rest()

    def _write_rest(self) -> bool:
        open_ = not (self.close_sent or self.transport.is_closing())  # no data follows a close frame
        while open_ and self._rest is not None and self.writable.is_set():
            part, self._rest = self._rest[:FRAGMENT_BYTES], self._rest[FRAGMENT_BYTES:]
            first = (0x00 if self._begun else 0x01) | (0x00 if self._rest else 0x80)
            self._begun, self._rest = True, self._rest or None
            self.transport.write(b"".join((frame_head(first, len(part)), part)))
        return self._rest is None and self.writable.is_set()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_rest() and self.resumed is not None:
            self.resumed()

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope["extensions"][EXTENSION] = self  # type: ignore[assignment]

    def handle_ping(self) -> None:
        """A client that does not read gets no answers to its pings either: they would wait in memory."""
        pong = b"".join(self.conn.data_to_send())
        if self.transport.get_write_buffer_size() <= FRAGMENT_BYTES:
            self.transport.write(pong)

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._fail(1009)
        else:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:  # uvicorn would log the traceback
                self._fail(1007)
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # the head: uvicorn expects a frame
            self.close_sent = True
            self.transport.close()
            return
        super().handle_parser_exception()

    def _fail(self, code: int) -> None:
        self.frames = []
        if not self.close_sent and self.handshake_complete and self.conn.close_sent is None:
            self.conn.fail(code)
            super().handle_parser_exception()


def frame_head(first: int, size: int) -> bytes:
    """The head of a frame that is not masked."""
    if size < 126:
        return bytes((first, size))
    return (
        bytes((first, 126)) + size.to_bytes(2, "big") if size < 65536 else bytes((first, 127)) + size.to_bytes(8, "big")
    )


def _set_options(connection: socket.socket | None) -> None:
    """Send each write at once, and let the kernel notice a client that is gone without a word."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # asyncio does this only for sockets made with IPPROTO_TCP. Without it, a second write waits for the acknowledgement
    # of the first, which clients delay by 40 ms.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_TIMEOUT_MS)
