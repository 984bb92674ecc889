"""HTTP/1.1 as far as model calls need it: POST over connections that are kept, through TLS and proxies.

The only file that knows httptools, which parses responses (llhttp, the parser of Node). A whole HTTP client
would cost more to load than all the rest of tau, and we would switch off most of what it can do: it must not follow
redirects, unpack, store cookies, read .netrc or try again. docs/decisions/0006 has the measurements.

Everything raised here is an OSError (of the network), or a ValueError (of the address or a header that we were given).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from httptools import HttpParserError, HttpResponseParser

HEAD_LIMIT = 64 * 1024
WRITTEN = 128 * 1024  # bytes at a time
HELD_LIMIT = 256 * 1024  # bytes that wait to be read before the server has to wait
KEPT = 15  # seconds that a connection nobody uses stays open
NEXT_ADDRESS = 0.25  # seconds before the next address of a host is tried as well
PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BREAKS = re.compile(r"[\r\n\0]")


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
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


class Connection(asyncio.Protocol):
    """One connection, and the exchange that goes on over it."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._waiting: asyncio.Future[None] | None = None
        self._writable = True
        self.closed = False
        self.keep: Callable[[Connection], None] | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget the last exchange."""
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.whole = False
        self._heard = 0  # bytes of the head
        self._held = 0
        self._pieces: list[bytes] = []
        self._to_the_end = False
        self._lasting = False
        self._failed: OSError | None = None
        # The parser takes what it calls from us once. Pieces go straight into the list, since there are many.
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)

    # Asking.

    async def send(self, head: bytes, body: list[bytes], *, again: bool) -> None:
        """Send a request and wait for the head of the answer. A body that is sent once is let go while it goes."""
        self._begin()
        for portion in _portions(head, body, again):
            self._transport.write(portion)
            while not self._writable and not self.status and not self._failed:
                await self._wait()
        while not self.status:
            if self._failed is not None:
                raise self._failed
            await self._wait()

    async def read(self) -> bytes:
        """What has come of the body, as soon as there is something; empty at its end."""
        while not self._pieces:
            if self._failed is not None:
                raise self._failed
            if self.whole:
                return b""
            await self._wait()
        return self.taken()

    def taken(self) -> bytes:
        """What has come of the body; empty if nothing has."""
        pieces = self._pieces
        portion = b"".join(pieces)
        pieces.clear()
        if self._held > HELD_LIMIT and not self.closed:
            self._transport.resume_reading()
        self._held = 0
        return portion

    def done(self) -> None:
        """The exchange is over: the connection serves the next one, if this one came to its end."""
        keep, self.keep = self.keep, None
        if keep is None:
            return  # it was said before
        if self._lasting and self.whole and not self.closed:
            keep(self)
        else:
            self.drop()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def secured(self, context: ssl.SSLContext, host: str) -> Connection:
        """The same line, behind TLS from now on."""
        inner = Connection()
        loop = asyncio.get_running_loop()
        inner._transport = await loop.start_tls(self._transport, inner, context, server_hostname=host)
        return inner

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # What asyncio tells.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._failed is not None:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            # More than was asked for is no reason to doubt what was, but to hang up.
            if not self.whole:
                self._failed = Broken(f"the server's answer is not HTTP: {error}")
            self.drop()
        if not self.status:
            self._heard += len(data)
            if self._heard > HEAD_LIMIT:
                self._failed = Broken(f"the server's answer begins with more than {HEAD_LIMIT >> 10} KiB of headers")
                self.drop()
        self._held += len(data)
        if self._held > HELD_LIMIT:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if not self.whole and self._failed is None:
            if self._to_the_end and error is None:
                self.whole = True
            elif not self.status and not self._heard:
                self._failed = Unheard("the server closed the connection without an answer")
            else:
                self._failed = Broken("the server closed the connection in the middle of its answer")
        self._wake()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._wake()

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
        self._to_the_end = not {"content-length", "transfer-encoding"} & self.headers.keys()

    def on_message_complete(self) -> None:
        self.whole = bool(self.status)
        self._lasting = self._parser.should_keep_alive()


class Connections:
    """Those that are open, and how new ones come about."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        """`context` is asked when a server has to show its certificate for the first time."""
        self._context = context
        self._resting: dict[Server, list[Connection]] = {}
        self._open: set[Connection] = set()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: list[bytes],
        *,
        proxy: str | None = None,
        connect: float | None = None,
    ) -> Connection:
        """The connection on which the answer comes, once its head is there."""
        server, target, login = _address(url, proxy)
        given = {"host": server.authority, **login, **headers}
        if proxy and not server.secure:
            given.update(_login(proxy, "proxy-authorization"))
            target = f"http://{server.authority}{target}"
        head = _head(f"POST {target} HTTP/1.1", given)
        while (connection := self._rested(server)) is not None:
            try:
                return await self._asked(connection, server, head, body, again=True)
            except Unheard:
                continue  # it was closed while it rested, and nobody has read the request
        try:
            async with asyncio.timeout(connect):
                connection = await self._dialled(server)
        except TimeoutError:
            raise ConnectTimeout(f"timed out after {connect:g} s") from None
        return await self._asked(connection, server, head, body, again=False)

    async def close(self) -> None:
        for connection in self._open:
            connection.drop()
        self._resting.clear()
        for _ in range(10):  # the sockets are closed by the loop, in its next turns
            if all(connection.closed for connection in self._open):
                break
            await asyncio.sleep(0)
        self._open.clear()

    async def _asked(
        self, connection: Connection, server: Server, head: bytes, body: list[bytes], *, again: bool
    ) -> Connection:
        self._open.add(connection)
        try:
            await connection.send(head, body, again=again)
        except BaseException:
            connection.drop()
            self._open.discard(connection)
            raise
        connection.keep = lambda connection: self._rest(server, connection)
        return connection

    def _rested(self, server: Server) -> Connection | None:
        resting = self._resting.get(server, [])
        while resting:
            if not (connection := resting.pop()).closed:
                return connection
            self._open.discard(connection)
        return None

    def _rest(self, server: Server, connection: Connection) -> None:
        self._resting.setdefault(server, []).append(connection)
        asyncio.get_running_loop().call_later(KEPT, self._expire, server, connection)

    def _expire(self, server: Server, connection: Connection) -> None:
        with suppress(ValueError, KeyError):
            self._resting[server].remove(connection)
            self._open.discard(connection)
            connection.drop()

    async def _dialled(self, server: Server) -> Connection:
        if server.proxy is None:
            return await _connected(server.host, server.port, self._context() if server.secure else None)
        proxy = urlsplit(server.proxy)
        context = self._context() if proxy.scheme == "https" else None
        connection = await _connected(proxy.hostname or "", proxy.port or PORTS[proxy.scheme], context)
        if not server.secure:
            return connection
        try:
            place = f"[{server.host}]:{server.port}" if ":" in server.host else f"{server.host}:{server.port}"
            given = {"host": place, **_login(server.proxy, "proxy-authorization")}
            await connection.send(_head(f"CONNECT {place} HTTP/1.1", given), [], again=False)
            if connection.status != 200:
                raise ProxyRefused(connection.status, connection.reason)
            return await connection.secured(self._context(), server.host)
        except BaseException:
            connection.drop()
            raise


async def _connected(host: str, port: int, context: ssl.SSLContext | None) -> Connection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            Connection, host, port, ssl=context, happy_eyeballs_delay=NEXT_ADDRESS
        )
        return connection
    except ssl.SSLError:
        raise
    except UnicodeError as error:
        raise ValueError(f"no host can be called {host!r}") from error
    except OSError as error:
        raise ConnectionError(f"cannot connect to {host}:{port}: {error.strerror or error}") from None


def _address(url: str, proxy: str | None) -> tuple[Server, str, dict[str, str]]:
    """Who to ask, for what, and how to log in there."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("it is not an http address")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?") if parts.query else ""
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    server = Server(parts.scheme == "https", host, parts.port or PORTS[parts.scheme], proxy)
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
        if _BREAKS.search(value):
            raise ValueError(f"the header {name!r} has a line break in it")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "", "")).encode()


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
