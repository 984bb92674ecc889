"""A request over a connection, and the answer to it.

The only file that knows httptools, which parses responses (llhttp, the parser of Node). The parser has no limits of
its own and stores a header until it is complete, so every part of a response that is not body is limited here: status
line and headers, interim (1xx) responses, chunk-size lines with their extensions, and trailers.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_LIMIT = 64 * 1024  # bytes of headers; also of all else that comes between two pieces of the body
MAX_INTERIM_RESPONSES = 20
WRITTEN = 128 * 1024  # bytes at a time
HANDSHAKE_TIMEOUT_S = 20.0  # for TLS through a proxy
HELD_LIMIT = 256 * 1024  # bytes that wait to be read before the server has to wait


class Broken(ConnectionError):
    """What came is no answer, or only the beginning of one."""


class Unheard(Broken):
    """The connection was closed before anything of an answer came."""


class Line(asyncio.Protocol):
    """One connection. Exchanges go on over it, one after the other."""

    def __init__(self, open_ones: set[Line]) -> None:
        self._open = open_ones  # where it stands as long as it is open
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._waiting: asyncio.Future[None] | None = None
        self._exchange: Exchange | None = None  # the one that goes on
        self.keep: Callable[[Line], None] | None = None
        self.writable = True
        self.closed = False

    @property
    def usable(self) -> bool:
        """Whether something can be asked here. A line stays with its loop, which may be over, or another process's."""
        return not self.closed and self._loop is asyncio.get_running_loop()

    def begun(self) -> Exchange:
        self._exchange = Exchange(self)
        return self._exchange

    def over(self, exchange: Exchange, *, lasting: bool) -> None:
        """The line serves the next exchange, if this one leaves it in a state to do so."""
        if self._exchange is not exchange:
            return  # it was said before
        self._exchange = None
        if lasting and not self.closed and self.keep is not None:
            self.keep(self)
        else:
            self.drop()

    def drop(self) -> None:
        if self._loop.is_closed():
            self._open.discard(self)  # nobody but the collector of garbage can close it any more
        elif self._transport is not None and self._loop is asyncio.get_running_loop():
            with suppress(AttributeError):  # asyncio before 3.11.8 cannot abort a TLS connection that is closed
                self._transport.abort()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self.closed:
            self._transport.resume_reading()

    async def wait(self) -> None:
        """Until something has happened."""
        self._waiting = self._loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    async def secured(self, context: ssl.SSLContext, host: str) -> Line:
        """Start TLS over this connection, which may be a TLS connection itself.

        asyncio before 3.11.8 and 3.12.2 breaks while it reports a handshake that failed inside another TLS connection:
        it raises a TypeError or AttributeError instead of the reason, or never wakes its caller. Hence the deadline.
        """
        if self._transport.is_closing():
            raise Broken(f"the proxy closed the connection before the TLS handshake with {host}")
        inner = Line(self._open)
        self._exchange = None
        self._open.discard(self)  # asyncio reports the end of the connection to the inner protocol only
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                transport = await self._loop.start_tls(self._transport, inner, context, server_hostname=host)
        except TimeoutError:
            seconds = f"{HANDSHAKE_TIMEOUT_S:g} s"
            raise Broken(f"the TLS handshake with {host} through the proxy did not end within {seconds}") from None
        except (OSError, TypeError, AttributeError) as error:
            reason = error if isinstance(error, OSError) else error.__context__
            if isinstance(reason, ssl.SSLError):
                raise reason from None
            what = str(reason or "") or "the connection was closed"
            raise Broken(f"the TLS handshake with {host} through the proxy failed: {what}") from None
        inner.connection_made(transport)
        return inner

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # What asyncio tells.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        if self._exchange is None:
            self.drop()  # nobody asked
            return
        self._exchange.hear(data)
        self._wake()

    def eof_received(self) -> None:
        if self._exchange is not None:
            self._exchange.ended()
        # Nobody sends half a question. Asyncio would first wait until all that we have written was read.
        self.drop()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._open.discard(self)
        if self._exchange is not None:
            self._exchange.lost()
        self._wake()

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._wake()


class Exchange:
    """A request, and the answer to it as the parser tells it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.whole = False
        self._heard = False
        self._between = 0  # bytes since the last piece of the body; before there is a status, all of them
        self._header_size = 0  # of headers, those of interim responses, and trailers
        self._interim = 0
        self._held = 0
        self._pieces: list[bytes] = []
        self._to_the_end = False
        self._sent = False
        self._lasting = False
        self._failed: OSError | None = None
        # The parser takes what it calls from us once. Pieces go straight into the list, since there are many.
        self.on_body = self._pieces.append
        self._parser: Any = HttpResponseParser(self)

    # Asking.

    async def send(self, head: bytes, body: list[bytes], *, again: bool) -> None:
        """Send a request and wait for the head of the answer. A body that is sent once is let go while it goes."""
        portions = _portions(head, body, again)
        self._line.write(next(portions))
        for portion in portions:
            for _ in range(2):  # turns of the loop, in which we hear what was said: one for TCP, one for TLS
                await asyncio.sleep(0)
            while not self._line.writable and not self.status and not self._failed:
                await self._line.wait()
            if self._failed is not None or self.status >= 300:
                break  # nobody wants the rest
            self._line.write(portion)
        else:
            self._sent = True
        while not self.status:
            if self._failed is not None:
                raise self._failed
            await self._line.wait()

    async def read(self) -> bytes:
        """What has come of the body, as soon as there is something; empty at its end."""
        while not self._pieces:
            if self._failed is not None:
                raise self._failed
            if self.whole:
                return b""
            await self._line.wait()
        return self.taken()

    def taken(self) -> bytes:
        """What has come of the body; empty if nothing has."""
        pieces = self._pieces
        portion = b"".join(pieces)
        pieces.clear()
        if self._held > HELD_LIMIT:
            self._line.resume()
        self._held = 0
        return portion

    def done(self) -> None:
        """Nobody wants more of it: the line serves the next one, if this one came to its end."""
        self._line.over(self, lasting=self._sent and self._lasting and self.whole)
        self._parser = None  # which holds us, as we hold it

    def drop(self) -> None:
        """It is not to go on."""
        self._line.over(self, lasting=False)
        self._parser = None

    # What the line tells.

    def hear(self, data: bytes) -> None:
        if self._failed is not None:
            return
        self._heard = True
        status, pieces = self.status, len(self._pieces)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            # More than was asked for is no reason to doubt what was, but to hang up.
            if not self.whole:
                self._fail(f"the server's answer is not HTTP: {error}")
            self._line.drop()
        except HttpParserUpgrade:
            self._fail("the server wants to go on in another protocol")
        if self.status != status or len(self._pieces) > pieces:
            self._between = 0
        else:
            self._between += len(data)
            if self._between > HEAD_LIMIT:
                self._fail(self._too_much())
        if self._pieces:  # else there is nothing that could be taken, and nobody who lets the server go on
            self._held += len(data)
            if self._held > HELD_LIMIT:
                self._line.pause()

    def _fail(self, why: str) -> None:
        if self._failed is None:
            self._failed = Broken(why)
        self._line.drop()

    def _too_much(self) -> str:
        size = f"more than {HEAD_LIMIT >> 10} KiB"
        if not self.status:
            return f"the server's answer begins with {size} of headers"
        return f"the server's answer has {size} of chunk headers or trailers without a byte of its body"

    def ended(self) -> None:
        """The server has said all that it wants to say."""
        self.whole = self.whole or self._to_the_end

    def lost(self) -> None:
        if self.whole or self._failed is not None:
            return
        if not self.status and not self._heard:
            self._failed = Unheard("the server closed the connection without an answer")
        else:
            self._failed = Broken("the server closed the connection in the middle of its answer")

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self.whole:
            raise ValueError("a second answer")

    def on_status(self, reason: bytes) -> None:
        self.reason += reason.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_size += len(name) + len(value) + 4
        if self._header_size > HEAD_LIMIT:
            self._fail(self._too_much())
            raise ValueError("too many headers")
        if self.status:
            return  # behind the body
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # a word in between; the answer follows
            self.headers.clear()
            self.reason = ""
            self._interim += 1
            if self._interim > MAX_INTERIM_RESPONSES:
                self._fail(f"the server sent more than {MAX_INTERIM_RESPONSES} interim responses (1xx) and no answer")
                raise ValueError("too many interim responses")
            return
        self.status = status
        self._header_size = 0  # trailers are counted anew
        plain = self.headers.get("transfer-encoding", "identity").lower() == "identity"
        self._to_the_end = plain and "content-length" not in self.headers

    def on_message_complete(self) -> None:
        self.whole = bool(self.status)
        self._lasting = self._parser.should_keep_alive()


def _portions(head: bytes, body: list[bytes], again: bool) -> Iterator[bytes]:
    """A request in writes of some size. If it is not to be sent again, no part of it is kept: it may be long."""
    portion, size = [head], len(head)
    for part in body if again else _let_go(body):
        portion.append(part)
        size += len(part)
        if size > WRITTEN:
            yield b"".join(portion)
            portion, size = [], 0
    yield b"".join(portion)


def _let_go(parts: list[bytes]) -> Iterator[bytes]:
    parts.reverse()
    while parts:
        yield parts.pop()
