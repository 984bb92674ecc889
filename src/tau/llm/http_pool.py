"""HTTP/1.1 as far as model calls need it: POST over connections that are kept, through TLS and proxies.

A whole HTTP client would cost more to load than all the rest of tau, and we would switch off most of what it can do:
it must not follow redirects, unpack, store cookies, read .netrc or try again. docs/decisions/0007 has the measurements.

Everything raised here is an OSError (of the network), or a ValueError (of the address or a header that we were given).
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from tau.errors import shortened
from tau.llm.http_connection import Exchange, Line, Unheard

REASON_LIMIT = 200  # characters
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
        super().__init__(f"the proxy answered {status} {shortened(reason, REASON_LIMIT)}")
        self.status = status


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
