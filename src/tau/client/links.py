"""Links to a host: lines over a Unix socket or a WebSocket, each one connection that ends once.

The WebSocket is the sans-I/O half of `websockets`, from the extra `[serve]`; it is imported when it is used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from tau.client.addresses import Address
from tau.client.line import OnLine
from tau.core.text.install_hints import install_hint
from tau.errors import TauError, UsageError
from tau.wire.lines import LineDecoder

MAX_LINE_BYTES = 1 << 30  # a response can contain a whole session
CONNECT_TIMEOUT_S = 10.0
FINISH_TIMEOUT_S = 1.0
SILENCE_TIMEOUT_S = 60.0  # of a WebSocket: the host pings more often
SUBPROTOCOL = "tau.v1"
MISSING_EXTRA = f"WebSocket connections need the package `websockets`: {install_hint('serve')}. unix: works without it."


class Unreachable(TauError, ConnectionError):
    """The host cannot be reached now; a later attempt may succeed."""


class Refused(TauError, ConnectionError):
    """The host refuses this client; another attempt would be refused too."""


class Link(Protocol):
    """One connection. `on_line` gets what arrives, `on_lost` is called once with the reason for the end."""

    def send(self, lines: bytes) -> None:
        """Send whole lines."""

    async def drained(self) -> None:
        """Wait until the data that was sent is taken, or the link is lost."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...

    async def finish(self) -> None:
        """Send nothing more, and wait a moment for the host to close, so that it knows that this client has left."""

    def close(self) -> None: ...


OnLost = Callable[[str], None]


async def dial(address: Address, on_line: OnLine, on_lost: OnLost) -> Link:
    """Connect. Raises Unreachable or Refused."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await (_dial_socket if address.path else _dial_websocket)(address, on_line, on_lost)
    except TimeoutError:
        raise Unreachable(f"{address.name} did not answer within {CONNECT_TIMEOUT_S:g} s.") from None
    except (TauError, UsageError):
        raise
    except OSError as error:
        raise Unreachable(_why(address, error)) from None


def _why(address: Address, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return f"No host listens at {address.name}. Start one with `tau serve`."
    return f"{address.name} cannot be reached: {error.strerror or error}."


class SocketLink(asyncio.Protocol):
    """Lines over a stream of bytes."""

    def __init__(self, on_line: OnLine, on_lost: OnLost) -> None:
        self._on_line, self._on_lost = on_line, on_lost
        self._decoder = LineDecoder(MAX_LINE_BYTES)
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = False
        self._lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        # Of any loop: transports of uvloop are not instances of asyncio.Transport.
        self._transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        for line in self._decoder.feed(data):
            if self._closed:
                return
            self._on_line(line)

    def send(self, lines: bytes) -> None:
        if lines and not self._transport.is_closing():
            self._transport.write(lines)

    async def drained(self) -> None:
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    async def finish(self) -> None:
        self._closed = True
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self._say_goodbye()
            with suppress(TimeoutError):
                async with asyncio.timeout(FINISH_TIMEOUT_S):
                    await self._lost.wait()
        self.close()

    def _say_goodbye(self) -> None:
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def close(self) -> None:
        """Close without a call of `on_lost`."""
        self._closed = True
        self._writable.set()
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._lost.set()
        if not self._closed:
            self._closed = True
            self._on_lost(str(exc) if exc else "the host closed the connection")


async def _dial_socket(address: Address, on_line: OnLine, on_lost: OnLost) -> Link:
    loop = asyncio.get_running_loop()
    _, link = await loop.create_unix_connection(lambda: SocketLink(on_line, on_lost), address.path)
    return link


class WebSocketLink(SocketLink):
    """Lines in text messages of a WebSocket: one or more lines in each."""

    def __init__(self, protocol: Any, address: Address, on_line: OnLine, on_lost: OnLost) -> None:
        super().__init__(on_line, on_lost)
        self._protocol, self._address = protocol, address
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._message: list[bytes] = []
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if (found := transport.get_extra_info("socket")) is not None and found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = self._protocol.connect()
        if self._address.token:
            request.headers["Authorization"] = f"Bearer {self._address.token}"
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._process()
        self._watch_silence()

    def eof_received(self) -> None:
        self._protocol.receive_eof()
        self._process()

    def _process(self) -> None:
        self._flush()
        for event in self._protocol.events_received():
            if self.opened.done():
                self._on_frame(event)
            elif self._protocol.handshake_exc is None:
                self.opened.set_result(None)
        if not self.opened.done() and self._protocol.handshake_exc is not None:
            self.opened.set_exception(_refusal(self._address, self._protocol.handshake_exc))

    def _on_frame(self, frame: Any) -> None:
        if frame.opcode in (0, 1):  # a continuation, or text
            self._message.append(frame.data)
            if frame.fin:
                lines, self._message = b"".join(self._message), []
                for line in lines.split(b"\n"):
                    if line and not self._closed:
                        self._on_line(line)

    def _watch_silence(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = asyncio.get_running_loop().call_later(SILENCE_TIMEOUT_S, self._on_silence)

    def _on_silence(self) -> None:
        if self._transport.is_reading():
            self._transport.abort()
        else:
            self._watch_silence()

    def send(self, lines: bytes) -> None:
        if lines and not self._transport.is_closing() and self._protocol.state.name == "OPEN":
            self._protocol.send_text(lines.removesuffix(b"\n"))
            self._flush()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
        if self._protocol.close_expected() and self._protocol.state.name == "CLOSED":
            self._transport.close()

    def _say_goodbye(self) -> None:
        if self._protocol.state.name == "OPEN" and not self._transport.is_closing():
            self._protocol.send_close(1000)
            self._flush()

    def close(self) -> None:
        self._say_goodbye()
        super().close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if not self.opened.done():
            self.opened.set_exception(Unreachable(f"{self._address.name} closed the connection."))
            self._closed = True
        super().connection_lost(exc)


async def _dial_websocket(address: Address, on_line: OnLine, on_lost: OnLost) -> Link:
    try:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri
    except ImportError:
        raise UsageError(MISSING_EXTRA) from None
    uri = parse_uri(address.url)
    protocol = ClientProtocol(uri, subprotocols=[SUBPROTOCOL], max_size=MAX_LINE_BYTES)  # type: ignore[list-item]
    link: WebSocketLink
    _, link = await asyncio.get_running_loop().create_connection(
        lambda: WebSocketLink(protocol, address, on_line, on_lost), uri.host, uri.port, ssl=uri.secure or None
    )
    try:
        await link.opened
    except BaseException:
        link.close()
        raise
    return link


def _refusal(address: Address, error: Any) -> Refused | Unreachable:
    """The error for a handshake that failed."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if status in (401, 403):
        return Refused(
            f"{address.name} refuses the connection ({status}): check the token. `tau serve token` makes one."
        )
    if status is None or status == 429 or status >= 500:
        return Unreachable(f"{address.name} cannot be used now: {error}.")
    return Refused(f"{address.name} is not a host of tau: {error}.")
