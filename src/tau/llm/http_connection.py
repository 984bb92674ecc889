"""One HTTP/1.1 connection, and the exchanges (request and response) on it.

The only module that imports httptools, which parses responses (llhttp, the parser of Node). The parser has no limits
of its own and stores a header until it is complete, so every part of a response that is not body is limited here:
status line and headers, interim (1xx) responses, chunk-size lines with their extensions, and trailers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from tau.concurrency.read_pacing import ReadPacer
from tau.concurrency.turns import TurnFuture, run_turn

MAX_HEAD_BYTES = 64 * 1024  # headers; also anything else between two chunks of the body
MAX_INTERIM_RESPONSES = 20
READ_BYTES = 64 * 1024  # size of the buffer for one read
WRITE_BYTES = 128 * 1024  # size of one write
HANDSHAKE_TIMEOUT_S = 20.0  # for TLS through a proxy
MAX_BUFFERED_BYTES = 256 * 1024  # unread bytes before reading pauses (backpressure)


class BrokenResponse(ConnectionError):
    """The response is invalid or incomplete."""


class NoResponse(BrokenResponse):
    """The connection was closed before any byte of a response arrived."""


class HttpConnection(asyncio.BufferedProtocol):
    """One connection, for one exchange at a time.

    Data that arrives is handled in a turn: the task that waits for it decodes it before the loop continues, or the
    exchange's `consume` does, so that the task need not be resumed for every piece of an answer. The buffer
    is reused, because allocating one for every read takes longer than reading a piece of an answer. `read_interval_s`
    is for pieces that come fast (read_pacing.py); 0 reads each as it comes.
    """

    def __init__(self, open_ones: set[HttpConnection], read_interval_s: float = 0.0) -> None:
        self._open = open_ones  # set of the open connections of the pool
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._waiting: TurnFuture | None = None
        self._deadline: float | None = None  # of the wait in progress
        self._timer: asyncio.Handle | None = None  # runs at the deadline of this wait, or of an earlier one
        self._timer_at = 0.0  # uvloop has no `when` on a handle that is due
        self._exchange: HttpExchange | None = None  # the current exchange
        self._read_interval_s = read_interval_s
        self._is_full = False  # reading waits until what has arrived is taken
        self._pacer = ReadPacer(read_interval_s, self._pause_reading, self._resume_reading) if read_interval_s else None
        self.on_idle: Callable[[HttpConnection], None] | None = None
        self.writable = True
        self.closed = False

    @property
    def usable(self) -> bool:
        """True if a request can be sent: only in its own event loop, which may be closed or another process's."""
        return not self.closed and self._loop is asyncio.get_running_loop()

    def begin_exchange(self) -> HttpExchange:
        self._exchange = HttpExchange(self)
        return self._exchange

    def end_exchange(self, exchange: HttpExchange, *, lasting: bool) -> None:
        """End an exchange. The connection is kept for the next one if `lasting`."""
        if self._exchange is not exchange:
            return  # already ended
        self._exchange = None
        self._stop_timer()
        if lasting and not self.closed and self.on_idle is not None:
            self.on_idle(self)
        else:
            self.drop()

    def drop(self) -> None:
        if self._loop.is_closed():
            self._open.discard(self)  # only the garbage collector can close it now
        elif self._transport is not None and self._loop is asyncio.get_running_loop():
            with suppress(AttributeError):  # asyncio before 3.11.8 cannot abort a TLS connection that is closed
                self._transport.abort()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause(self) -> None:
        self._is_full = True
        self._pause_reading()

    def resume(self) -> None:
        self._is_full = False
        self._resume_reading()

    def _pause_reading(self) -> None:
        self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self.closed and not self._is_full:
            self._transport.resume_reading()

    def wait(self, deadline: float | None = None) -> TurnFuture:
        """Wait for the next event on the connection. Raises TimeoutError at the deadline, a time of the event loop."""
        self._waiting = waiting = TurnFuture(loop=self._loop)
        self._deadline = deadline
        if deadline is not None and (self._timer is None or self._timer_at > deadline):
            self._start_timer(deadline)
        return waiting

    def deadline_after(self, seconds: float | None) -> float | None:
        return None if seconds is None else self._loop.time() + seconds

    def _start_timer(self, when: float) -> None:
        """Start the timer. It is not restarted for every wait: one that runs too early starts itself again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(when, self._on_timer), when

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline is None or self._waiting is None or self._waiting.done():
            return
        if self._loop.time() < self._deadline:
            self._start_timer(self._deadline)
        else:
            self._waiting.fail(TimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def start_tls(self, context: ssl.SSLContext, host: str) -> HttpConnection:
        """Start TLS over this connection, which may be a TLS connection itself.

        asyncio before 3.11.8 and 3.12.2 breaks while it reports a handshake that failed inside another TLS connection:
        it raises a TypeError or AttributeError instead of the reason, or never wakes its caller. Hence the deadline.
        """
        await asyncio.sleep(0)  # leave the turn: the transport is still calling this protocol, which is replaced here
        if self._transport.is_closing():
            raise BrokenResponse(f"the proxy closed the connection before the TLS handshake with {host}")
        inner = HttpConnection(self._open, self._read_interval_s)
        self._exchange = None
        self._open.discard(self)  # asyncio reports the end of the connection to the inner protocol only
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                transport = await self._loop.start_tls(self._transport, inner, context, server_hostname=host)
        except TimeoutError:
            seconds = f"{HANDSHAKE_TIMEOUT_S:g} s"
            raise BrokenResponse(
                f"the TLS handshake with {host} through the proxy did not end within {seconds}"
            ) from None
        except (OSError, TypeError, AttributeError) as error:
            reason = error if isinstance(error, OSError) else error.__context__
            if isinstance(reason, ssl.SSLError):
                raise reason from None
            what = str(reason or "") or "the connection was closed"
            raise BrokenResponse(f"the TLS handshake with {host} through the proxy failed: {what}") from None
        inner.connection_made(transport)
        return inner

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.finish()

    def _on_data(self) -> None:
        waiting, exchange = self._waiting, self._exchange
        if waiting is None or waiting.done():
            return
        if exchange is not None and exchange.consumes():
            self._deadline = self.deadline_after(exchange.idle_s)
        else:
            waiting.finish()

    # Callbacks of asyncio.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._open.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._exchange is None:
            self.drop()  # unsolicited data
            return
        self._exchange.feed(bytes(self._buffer[:nbytes]))
        run_turn(self._loop, self._on_data)
        if self._pacer is not None and self.on_idle is not None and not self.closed:  # else it may be a proxy's answer
            self._pacer.after_read()

    def eof_received(self) -> None:
        if self._exchange is not None:
            self._exchange.on_eof()
        # tau needs no half-closed connections. asyncio would first wait until all written data is flushed.
        self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._open.discard(self)
        self._stop_timer()
        if self._pacer is not None:
            self._pacer.stop()
        if self._exchange is not None:
            self._exchange.on_connection_lost()
        self._wake()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._wake()


class HttpExchange:
    """A request and its response, filled in by callbacks of the parser."""

    def __init__(self, line: HttpConnection) -> None:
        self._line = line
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.complete = False
        self._received = False
        self._overhead = 0  # bytes since the last chunk of the body, or since the start
        self._header_size = 0  # of headers, including interim responses and trailers
        self._interim = 0
        self._buffered = 0
        self._chunks: list[bytes] = []
        self._until_close = False
        self._request_sent = False
        self._keep_alive = False
        self._failed: OSError | None = None
        self._consume: Callable[[bytes], bool] | None = None  # of the read in progress
        self._reader_is_due = False  # `consume` took a chunk and returned False
        self.idle_s: float | None = None  # for the next chunk
        # The parser looks up its callbacks once. Pieces go directly into the list, for speed.
        self.on_body = self._chunks.append
        self._parser: Any = HttpResponseParser(self)

    async def send(self, head: bytes, body: list[bytes], *, again: bool) -> None:
        """Send a request and wait for the response headers. Unless `again`, the body is freed while it is sent."""
        chunks = _writes(head, body, again)
        self._line.write(next(chunks))
        for chunk in chunks:
            for _ in range(2):  # loop iterations, to receive an early response: one for TCP, one for TLS
                await asyncio.sleep(0)
            while not self._line.writable and not self.status and not self._failed:
                await self._line.wait()
            if self._failed is not None or self.status >= 300:
                break  # the server does not want the rest
            self._line.write(chunk)
        else:
            self._request_sent = True
        while not self.status:
            if self._failed is not None:
                raise self._failed
            await self._line.wait()

    async def read(self, seconds: float | None = None, consume: Callable[[bytes], bool] | None = None) -> bytes | None:
        """Wait for body data and return it; empty at the end. Raises TimeoutError if it does not come in time.

        While this waits, `consume` gets the data in a callback. When it returns False, the result is None.
        """
        deadline: float | None = None
        self._consume, self.idle_s = consume, seconds
        try:
            while not self._chunks:
                if self._failed is not None:
                    raise self._failed
                if self.complete:
                    return b""
                if deadline is None:
                    deadline = self._line.deadline_after(seconds)
                await self._line.wait(deadline)
                if self._reader_is_due:
                    self._reader_is_due = False
                    return None
            return self.take()
        finally:
            self._consume = None

    def take(self) -> bytes:
        """Return the body data received so far, without waiting; may be empty."""
        chunks = self._chunks
        if not chunks:
            return b""
        chunk = b"".join(chunks)
        chunks.clear()
        if self._buffered > MAX_BUFFERED_BYTES:
            self._line.resume()
        self._buffered = 0
        return chunk

    def finish(self) -> None:
        """End the exchange. The connection is reused if the response is complete."""
        self._line.end_exchange(self, lasting=self._request_sent and self._keep_alive and self.complete)
        self._parser = None  # breaks a reference cycle

    def drop(self) -> None:
        """Abort the exchange and close the connection."""
        self._line.end_exchange(self, lasting=False)
        self._parser = None

    # Callbacks of the connection.

    def consumes(self) -> bool:
        """Pass new data to `consume`. False if the task that waits for it has to be resumed."""
        if self._consume is None or self.complete or self._failed is not None:
            return False
        if not self._chunks:
            return True
        self._reader_is_due = not self._consume(self.take())
        return not self._reader_is_due

    def feed(self, data: bytes) -> None:
        if self._failed is not None:
            return
        self._received = True
        status, chunks = self.status, len(self._chunks)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            # Data after a complete response does not invalidate it, but the connection is closed.
            if not self.complete:
                self._fail(f"the server's answer is not HTTP: {error}")
            self._line.drop()
        except HttpParserUpgrade:
            self._fail("the server wants to switch to another protocol")
        if self.status != status or len(self._chunks) > chunks:
            self._overhead = 0
        else:
            self._overhead += len(data)
            if self._overhead > MAX_HEAD_BYTES:
                self._fail(self._too_much())
        if self._chunks:  # else no call of `take` would resume reading
            self._buffered += len(data)
            if self._buffered > MAX_BUFFERED_BYTES:
                self._line.pause()

    def _fail(self, why: str) -> None:
        if self._failed is None:
            self._failed = BrokenResponse(why)
        self._line.drop()

    def _too_much(self) -> str:
        size = f"more than {MAX_HEAD_BYTES >> 10} KiB"
        if not self.status:
            return f"the server's answer begins with {size} of headers"
        return f"the server's answer has {size} of chunk headers or trailers without a byte of its body"

    def on_eof(self) -> None:
        """The server closed its side of the connection."""
        self.complete = self.complete or self._until_close

    def on_connection_lost(self) -> None:
        if self.complete or self._failed is not None:
            return
        if not self.status and not self._received:
            self._failed = NoResponse("the server closed the connection without an answer")
        else:
            self._failed = BrokenResponse("the server closed the connection in the middle of its answer")

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self.complete:
            raise ValueError("a second response")

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_size += len(name) + len(value) + 4
        if self._header_size > MAX_HEAD_BYTES:
            self._fail(self._too_much())
            raise ValueError("too many headers")
        if self.status:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim response; the final one follows
            self.headers.clear()
            self.reason = ""
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                self._fail(f"the server sent more than {MAX_INTERIM_RESPONSES} interim responses (1xx) and no answer")
                raise ValueError("too many interim responses")
            return
        self.status = status
        self._header_size = 0  # trailers are counted separately
        plain = self.headers.get("transfer-encoding", "identity").lower() == "identity"
        self._until_close = plain and "content-length" not in self.headers

    def on_message_complete(self) -> None:
        self.complete = bool(self.status)
        self._keep_alive = self._parser.should_keep_alive()


def _writes(head: bytes, body: list[bytes], again: bool) -> Iterator[bytes]:
    """Split a request into writes. If it will not be sent again, no part of it is kept: it may be large."""
    chunk, size = [head], len(head)
    for part in body if again else _consume(body):
        chunk.append(part)
        size += len(part)
        if size > WRITE_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    yield b"".join(chunk)


def _consume(parts: list[bytes]) -> Iterator[bytes]:
    parts.reverse()
    while parts:
        yield parts.pop()
