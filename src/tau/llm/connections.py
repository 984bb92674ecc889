"""HTTP/1.1 as far as model calls need it: POST over connections that are kept, through TLS and proxies.

The only file that knows httptools, which parses responses (llhttp, the parser of Node). A whole HTTP client
would cost more to load than all the rest of tau, and we would switch off most of what it can do: it must not follow
redirects, unpack, store cookies, read .netrc or try again. docs/decisions/0007 has the measurements.

Everything raised here is an OSError (of the network), or a ValueError (of the address or a header that we were given).
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

HEAD_LIMIT = 64 * 1024
WRITTEN = 128 * 1024  # bytes at a time
HELD_LIMIT = 256 * 1024  # bytes that wait to be read before the server has to wait
KEPT = 15  # seconds that a connection nobody uses stays open
NEXT_ADDRESS = 0.25  # seconds before the next address of a host is tried as well
PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER = re.compile(r"[^\t\x20-\x7e\x80-\xff]")


class ConnectTimeout(OSError):
    """There was no connection within its time."""


class ProxyRefused(OSError):
    """The proxy does not let us through."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the proxy answered {status} {reason}")
        self.status = status


class Broken(ConnectionError):
    """What came is no answer, or only the beginning of one."""


class Unheard(Broken):
    """The connection was closed before anything of an answer came."""


class Server(NamedTuple):
    """Who is at the other end. Connections to equal ones can stand in for each other."""

    secure: bool
    host: str
    port: int
    proxy: str | None

    @property
    def authority(self) -> str:
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


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
        """The same line, behind TLS from now on."""
        inner = Line(self._open)
        self._exchange = None
        self._open.discard(self)  # what becomes of it, only the inner one is told
        try:
            inner.connection_made(await self._loop.start_tls(self._transport, inner, context, server_hostname=host))
        except TypeError as error:
            # Before 3.11.8 and 3.12.2, a handshake that fails behind another one fails a second time while it does.
            raise error.__context__ or error from None
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
        self._heard = 0  # bytes of the head
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
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            # More than was asked for is no reason to doubt what was, but to hang up.
            if not self.whole:
                self._failed = Broken(f"the server's answer is not HTTP: {error}")
            self._line.drop()
        except HttpParserUpgrade:
            self._failed = Broken("the server wants to go on in another protocol")
            self._line.drop()
        if not self.status:
            self._heard += len(data)
            if self._heard > HEAD_LIMIT:
                self._failed = Broken(f"the server's answer begins with more than {HEAD_LIMIT >> 10} KiB of headers")
                self._line.drop()
        if self._pieces:  # else there is nothing that could be taken, and nobody who lets the server go on
            self._held += len(data)
            if self._held > HELD_LIMIT:
                self._line.pause()

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
        if self.status:
            return  # behind the body
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # a word in between; the answer follows
            self.headers.clear()
            self.reason = ""
            return
        self.status = status
        plain = self.headers.get("transfer-encoding", "identity").lower() == "identity"
        self._to_the_end = plain and "content-length" not in self.headers

    def on_message_complete(self) -> None:
        self.whole = bool(self.status)
        self._lasting = self._parser.should_keep_alive()


class Connections:
    """Those that are open, and how new ones come about."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        """`context` is asked when a server has to show its certificate for the first time."""
        self._context = context
        self._resting: dict[Server, dict[Line, asyncio.TimerHandle]] = {}  # and when they have rested long enough
        self._open: set[Line] = set()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: list[bytes],
        *,
        proxy: str | None = None,
        connect: float | None = None,
    ) -> Exchange:
        """The exchange, once the head of the answer is there."""
        server, target, login = _address(url, proxy)
        given = {"host": server.authority, **login, **headers}
        if proxy and not server.secure:
            given.update(_login(proxy, "proxy-authorization"))
            target = f"http://{server.authority}{target}"
        head = _head(f"POST {target} HTTP/1.1", given)
        while (line := self._rested(server)) is not None:
            try:
                return await _asked(line, head, body, again=True)
            except Unheard:
                continue  # it was closed while it rested, and nobody has read the request
        try:
            async with asyncio.timeout(connect):
                line = await self._dialled(server)
        except TimeoutError:
            raise ConnectTimeout(f"timed out after {connect:g} s") from None
        line.keep = partial(self._rest, server)
        return await _asked(line, head, body, again=False)

    async def close(self) -> None:
        lines = tuple(self._open)
        for line in lines:
            line.drop()
        for resting in self._resting.values():
            for timer in resting.values():
                timer.cancel()
        self._resting.clear()
        for _ in range(10):  # the sockets are closed by the loop, in its next turns
            if not any(line.usable for line in lines):
                break
            await asyncio.sleep(0)

    def _rested(self, server: Server) -> Line | None:
        while resting := self._resting.get(server):
            line, timer = resting.popitem()
            timer.cancel()
            if line.usable:
                return line
            line.drop()
        return None

    def _rest(self, server: Server, line: Line) -> None:
        timer = asyncio.get_running_loop().call_later(KEPT, self._expire, server, line)
        self._resting.setdefault(server, {})[line] = timer

    def _expire(self, server: Server, line: Line) -> None:
        del self._resting[server][line]
        line.drop()

    async def _dialled(self, server: Server) -> Line:
        if server.proxy is None:
            return await self._connected(server.host, server.port, self._context() if server.secure else None)
        proxy = urlsplit(server.proxy)
        context = self._context() if proxy.scheme == "https" else None
        place = proxy.hostname or "", proxy.port or PORTS[proxy.scheme]
        line = await self._connected(*place, context, who="the proxy ")
        if not server.secure:
            return line
        try:
            there = f"[{server.host}]:{server.port}" if ":" in server.host else f"{server.host}:{server.port}"
            given = {"host": there, **_login(server.proxy, "proxy-authorization")}
            asked = await _asked(line, _head(f"CONNECT {there} HTTP/1.1", given), [], again=False)
            if not 200 <= asked.status < 300:
                raise ProxyRefused(asked.status, asked.reason)
            return await line.secured(self._context(), server.host)
        except BaseException:
            line.drop()
            raise

    async def _connected(self, host: str, port: int, context: ssl.SSLContext | None, who: str = "") -> Line:
        loop = asyncio.get_running_loop()
        try:
            _, line = await loop.create_connection(
                lambda: Line(self._open), host, port, ssl=context, happy_eyeballs_delay=NEXT_ADDRESS
            )
            return line
        except ssl.SSLError:
            raise
        except UnicodeError as error:
            raise ValueError(f"no host can be called {host!r}") from error
        except OSError as error:
            raise ConnectionError(f"cannot connect to {who}{host}:{port}: {_why(error)}") from None


async def _asked(line: Line, head: bytes, body: list[bytes], *, again: bool) -> Exchange:
    exchange = line.begun()
    try:
        await exchange.send(head, body, again=again)
    except BaseException:
        exchange.drop()
        raise
    return exchange


def _why(error: OSError) -> str:
    """Asyncio tells which addresses were tried, but what went wrong only by number."""
    numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    return " and ".join(os.strerror(int(number)) for number in numbers) or error.strerror or str(error)


def _address(url: str, proxy: str | None) -> tuple[Server, str, dict[str, str]]:
    """Who to ask, for what, and how to log in there."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("it is not an http address")
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError:  # whose text has what stands there, which may be half a password
        raise ValueError("its port is no number from 1 to 65535") from None
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?") if parts.query else ""
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    host = host.replace("%25", "%")  # before the zone of an IPv6 address, which is for us alone
    server = Server(parts.scheme == "https", host, port, proxy)
    return server, path + query, _login(url, "authorization")


def _login(url: str, header: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    from base64 import b64encode

    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(pair.encode()).decode()}"}


def _head(line: str, headers: Mapping[str, str]) -> bytes:
    lines = [line]
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"no header can be called {name!r}")
        if wrong := _NO_HEADER.search(value):
            what = "a line break" if wrong[0] in "\r\n" else f"the character U+{ord(wrong[0]):04X}"
            raise ValueError(f"the header {name!r} has {what} in it, which cannot be sent")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "", "")).encode("latin-1")


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
