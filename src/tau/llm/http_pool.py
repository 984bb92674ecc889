"""HTTP/1.1 connection pool for model calls: POST over keep-alive connections, through TLS and proxies.

A complete HTTP client takes longer to load than the rest of tau, and most of its features would be switched off: it
must not follow redirects, decompress, store cookies, read .netrc or retry. docs/decisions/0007 has the measurements.

All exceptions are OSError (network), or ValueError (an invalid URL or header).
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from tau.errors import shortened
from tau.llm.http_connection import HttpConnection, HttpExchange, NoResponse
from tau.llm.idle_connections import IDLE_CONNECTIONS, IdleConnection
from tau.records.base import Value

MAX_REASON_CHARACTERS = 200
IDLE_TIMEOUT_S = 15  # for unused connections
HAPPY_EYEBALLS_DELAY_S = 0.25  # before the next address of a host is tried as well
PORTS = {"http": 80, "https": 443}
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_INVALID_IN_HEADER = r"[^\t\x20-\x7e\x80-\xff]"


class ConnectTimeout(OSError):
    """No connection within the time limit."""


class ProxyRefused(OSError):
    """The proxy rejected the connection."""

    def __init__(self, status: int, reason: str) -> None:
        text = "".join(character if character.isprintable() else "?" for character in reason)
        super().__init__(f"the proxy answered {status} {shortened(text, MAX_REASON_CHARACTERS)}")
        self.status = status


class Origin(Value):
    """The other end of a connection. Connections to equal origins are interchangeable."""

    secure: bool
    host: str
    port: int
    proxy: str | None

    @property
    def authority(self) -> str:
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"


class ConnectionPool:
    """Open connections, and how new ones are made."""

    def __init__(self, context: Callable[[], ssl.SSLContext], read_interval_s: float = 0.0) -> None:
        """`context` is called when the first TLS connection is made. `read_interval_s`: see HttpConnection."""
        self._context = context
        self._read_interval_s = read_interval_s
        self._idle: dict[Origin, dict[HttpConnection, IdleConnection]] = {}
        self._open: set[HttpConnection] = set()

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: list[bytes],
        *,
        proxy: str | None = None,
        connect: float | None = None,
    ) -> HttpExchange:
        """Send a POST request. Returns when the response headers have arrived."""
        return await self.request("POST", url, headers, body, proxy=proxy, connect=connect)

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: list[bytes],
        *,
        proxy: str | None = None,
        connect: float | None = None,
        repeat: bool = True,
    ) -> HttpExchange:
        """Send a request. Returns when the response headers have arrived.

        With `repeat`, a request on a connection that was idle and that the server has closed is sent again on another.
        """
        server, target, auth = _parse_url(url, proxy)
        sent = {"host": server.authority, **auth, **headers}
        if proxy and not server.secure and not _is_socks(proxy):
            sent.update(_basic_auth(proxy, "proxy-authorization"))
            target = f"http://{server.authority}{target}"
        head = _request_head(f"{method} {target} HTTP/1.1", sent)
        while (connection := self._take_idle(server)) is not None:
            try:
                return await _exchange(connection, head, body, again=True)
            except NoResponse:  # closed by the server while it was idle: most probably the request was not read
                if not repeat:
                    raise
        try:
            async with asyncio.timeout(connect):
                connection = await self._open_connection(server)
        except TimeoutError:
            raise ConnectTimeout(f"timed out after {connect:g} s") from None
        connection.on_idle = partial(self._keep, server)
        return await _exchange(connection, head, body, again=False)

    async def close(self) -> None:
        connections = tuple(self._open)
        for connection in connections:
            connection.drop()
        for idle in self._idle.values():
            for entry in idle.values():
                IDLE_CONNECTIONS.remove(entry)
        self._idle.clear()
        for _ in range(10):  # the loop closes the sockets in its next iterations
            if not any(connection.usable for connection in connections):
                break
            await asyncio.sleep(0)

    def _take_idle(self, server: Origin) -> HttpConnection | None:
        while idle := self._idle.get(server):
            connection, entry = idle.popitem()
            IDLE_CONNECTIONS.remove(entry)
            if connection.usable:
                return connection
            connection.drop()
        return None

    def _keep(self, server: Origin, connection: HttpConnection) -> None:
        entry = IdleConnection(IDLE_TIMEOUT_S, partial(self._expire, server, connection))
        self._idle.setdefault(server, {})[connection] = entry
        IDLE_CONNECTIONS.add(entry)

    def _expire(self, server: Origin, connection: HttpConnection) -> None:
        entry = self._idle.get(server, {}).pop(connection, None)
        if entry is not None:  # else it was taken meanwhile
            IDLE_CONNECTIONS.remove(entry)
            connection.drop()

    async def _open_connection(self, server: Origin) -> HttpConnection:
        if server.proxy is None:
            return await self._connect(server.host, server.port, self._context() if server.secure else None)
        proxy = urlsplit(server.proxy)
        if _is_socks(server.proxy):
            return await self._connect_socks(proxy, server)
        context = self._context() if proxy.scheme == "https" else None
        proxy_address = proxy.hostname or "", proxy.port or PORTS[proxy.scheme]
        connection = await self._connect(*proxy_address, context, who="the proxy ")
        if not server.secure:
            return connection
        try:
            authority = f"[{server.host}]:{server.port}" if ":" in server.host else f"{server.host}:{server.port}"
            headers = {"host": authority, **_basic_auth(server.proxy, "proxy-authorization")}
            exchange = await _exchange(
                connection, _request_head(f"CONNECT {authority} HTTP/1.1", headers), [], again=False
            )
            if not 200 <= exchange.status < 300:
                raise ProxyRefused(exchange.status, exchange.reason)
            return await connection.start_tls(self._context(), server.host)
        except BaseException:
            connection.drop()
            raise

    def _new_connection(self) -> HttpConnection:
        return HttpConnection(self._open, self._read_interval_s)

    async def _connect_socks(self, proxy: SplitResult, server: Origin) -> HttpConnection:
        from tau.llm.socks import open_socket

        sock = await open_socket(proxy, server.host, server.port)
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                self._new_connection,
                sock=sock,
                ssl=self._context() if server.secure else None,
                server_hostname=server.host if server.secure else None,
            )
        except BaseException:
            sock.close()
            raise
        return connection

    async def _connect(self, host: str, port: int, context: ssl.SSLContext | None, who: str = "") -> HttpConnection:
        try:
            _, connection = await _connecting(self._new_connection, host, port, context)
            return connection
        except UnicodeError as error:
            raise ValueError(f"{host!r} is not a valid host name") from error
        except OSError as error:
            if context is not None and isinstance(error, ssl.SSLError):  # without TLS, ssl need not be loaded
                raise
            raise ConnectionError(f"cannot connect to {who}{host}:{port}: {_reason(error)}") from None


def _connecting(
    protocol: Callable[[], HttpConnection], host: str, port: int, context: ssl.SSLContext | None
) -> Coroutine[Any, Any, tuple[asyncio.Transport, HttpConnection]]:
    """A connection attempt of the running loop, to the first address of the host that answers.

    Loops of other libraries, such as uvloop, do not have the option for that: they try one address after the other.
    """
    loop = asyncio.get_running_loop()
    try:
        return loop.create_connection(protocol, host, port, ssl=context, happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S)
    except TypeError:  # raised for an unknown option before anything is connected
        return loop.create_connection(protocol, host, port, ssl=context)


def _is_socks(proxy: str) -> bool:
    return proxy.startswith("socks")


async def _exchange(connection: HttpConnection, head: bytes, body: list[bytes], *, again: bool) -> HttpExchange:
    exchange = connection.begin_exchange()
    try:
        await exchange.send(head, body, again=again)
    except BaseException:
        exchange.drop()
        raise
    return exchange


def _reason(error: OSError) -> str:
    """asyncio lists the addresses it tried, but the reasons only as error numbers."""
    numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    return " and ".join(os.strerror(int(number)) for number in numbers) or error.strerror or str(error)


@lru_cache(64)
def _parse_url(url: str, proxy: str | None) -> tuple[Origin, str, Mapping[str, str]]:
    """Origin, request target and authentication headers of a URL."""
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("it is not an http or https URL")
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError:  # the error text of urllib may contain part of a password
        raise ValueError("its port is not a number from 1 to 65535") from None
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~")
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?") if parts.query else ""
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    host = host.replace("%25", "%")  # before the zone of an IPv6 address, which is local
    server = Origin(parts.scheme == "https", host, port, proxy)
    return server, path + query, _basic_auth(url, "authorization")


def _basic_auth(url: str, header: str) -> dict[str, str]:
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    from base64 import b64encode

    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(pair.encode()).decode()}"}


@lru_cache(256)
def _is_token(name: str) -> bool:
    return re.fullmatch(_TOKEN, name) is not None


def _request_head(line: str, headers: Mapping[str, str]) -> bytes:
    lines = [line]
    for name, value in headers.items():
        if not _is_token(name):
            raise ValueError(f"{name!r} is not a valid header name")
        is_plain = value.isascii() and value.isprintable()
        if not is_plain and (wrong := re.search(_INVALID_IN_HEADER, value)):
            what = "a line break" if wrong[0] in "\r\n" else f"the character U+{ord(wrong[0]):04X}"
            raise ValueError(f"the header {name!r} contains {what}, which cannot be sent")
        lines.append(f"{name}: {value}")
    return "\r\n".join((*lines, "", "")).encode("latin-1")
