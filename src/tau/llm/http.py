"""The network side of model calls: POST, stream the bytes, turn a bad status into a sentence.

connections.py has the protocol, and is loaded when the first model is called
(`warm` does it ahead of time); here is what a model call makes of it.

Nothing here waits for ever, nothing is kept without a limit, and nothing is
tried twice: whether to ask again is for core/agent/retry.py to say and for the client
to see.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from tau.core.checks.secrets import masked, of_headers, shown_address
from tau.core.models.failures import transient
from tau.errors import ModelError, shortened
from tau.llm.types import Request
from tau.records.base import BadRecord, encode, encode_parts, parse

if TYPE_CHECKING:
    import ssl

    from tau.llm.http_connection import Exchange
    from tau.llm.http_pool import Connections

log = logging.getLogger(__name__)

ERROR_LIMIT = 4096
ERROR_BODY_TIMEOUT_S = 30.0  # for the whole body of a response that is not 200
RESPONSE_LIMIT = 64 * 1024 * 1024
PORTION_LIMIT = 256 * 1024
LINGER = 0.5  # seconds
UNKNOWN = {2, 18, 19, 20, 21}  # OpenSSL's numbers for certificates of somebody who is not among those we trust
HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # Events are small and want to be seen one by one; a packed answer is unpacked nevertheless, within the limit.
    "accept-encoding": "identity",
    "user-agent": "tau",
}


class Http:
    """One pool of connections. Deadlines are in seconds, and 0 is none.

    `connect` is for a connection, `first_byte` for that and the beginning of an
    answer (if not given: as `idle`), `idle` for every further piece of it.
    """

    def __init__(self, idle: float = 120, connect: float = 30, first_byte: float | None = None) -> None:
        self.use(idle, connect, first_byte)
        self._context: ssl.SSLContext | None = None
        self._connections: Connections | None = None
        self._lingering: set[asyncio.Task[None]] = set()

    def use(self, idle: float, connect: float, first_byte: float | None) -> None:
        """Other deadlines, for what is asked from now on."""
        self._idle = idle or None
        self._connect = connect or None
        self._first_byte = self._idle if first_byte is None else first_byte or None

    def warm(self, url: str = "https:") -> None:
        """Load what a call to this address needs; safe to call from any thread."""
        import tau.llm.http_pool  # noqa: F401

        if url.startswith("https:"):
            self._certificates()

    async def post(self, request: Request) -> AsyncGenerator[bytes, None]:
        response = await self._begun(request)
        try:
            if request.heard is not None:
                await request.heard(response.status, dict(response.headers))
            if response.status != 200:
                raise await self._refused(response, request)
            _check_type(response.headers)
            unpack = _unpacking(response.headers)
            size, received, seconds = 0, 0, self._first_byte
            while packed := await self._portion(response, request, seconds):
                seconds = self._idle
                received += len(packed)
                if received > RESPONSE_LIMIT:  # compressed data may expand to nothing
                    raise _too_large()
                for portion in unpack(packed):
                    size += len(portion)
                    if size > RESPONSE_LIMIT:
                        raise _too_large()
                    if portion:
                        yield portion
            response.done()
        except GeneratorExit:
            # The reader has heard enough, most often because the answer is whole. If the rest of the response is no
            # more than its end, the connection can serve the next request and spare it a handshake.
            self._lingering.add(task := asyncio.create_task(_drained(response)))
            task.add_done_callback(self._lingering.discard)
            task.add_done_callback(lambda _: response.done())  # also of a task that was cancelled before it began
            raise
        except zlib.error as error:
            response.drop()
            raise ModelError(f"The model server sent a packed answer that is broken: {error}", transient=True) from None
        except BaseException:
            response.drop()
            raise

    async def _begun(self, request: Request) -> Exchange:
        from tau.llm.http_pool import Connections, ConnectTimeout

        if self._connections is None:
            self._connections = Connections(self._certificates)
        body = list(encode_parts(request.body))
        size = str(sum(map(len, body)))
        try:
            async with asyncio.timeout(self._first_byte):
                return await self._connections.post(
                    request.url,
                    {**HEADERS, **_own(request.headers), "content-length": size},
                    body,
                    proxy=proxy_for(request.url),
                    connect=self._connect,
                )
        except ConnectTimeout:
            where = shown_address(request.url)
            raise ModelError(f"Connection timed out after {self._connect:g} s: {where}", transient=True) from None
        except TimeoutError:
            raise _silent(self._first_byte) from None
        except (OSError, ValueError) as error:
            raise _failed(error, request) from None

    def _certificates(self) -> ssl.SSLContext:
        """Those of the system, or those that the environment names. Loaded when a server has to show its own."""
        import ssl

        if self._context is None:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            if more := os.environ.get("NODE_EXTRA_CA_CERTS"):  # where a company has its own, pi was told so by this
                try:
                    context.load_verify_locations(more)
                except OSError as error:
                    log.warning("no certificates are taken from NODE_EXTRA_CA_CERTS=%s: %s", more, error)
            self._context = context
        return self._context

    async def _portion(self, response: Exchange, request: Request, seconds: float | None) -> bytes:
        """The next of the body as it comes, empty at its end."""
        # Most often there is something, and then no clock is needed.
        if portion := response.taken():
            return portion
        try:
            async with asyncio.timeout(seconds):
                return await response.read()
        except TimeoutError:
            raise _silent(seconds) from None
        except OSError as error:
            raise _failed(error, request) from None

    async def _refused(self, response: Exchange, request: Request) -> ModelError:
        status, body, received = response.status, b"", 0
        with suppress(ModelError, zlib.error, TimeoutError):  # the status says enough
            unpack = _unpacking(response.headers)
            async with asyncio.timeout(ERROR_BODY_TIMEOUT_S):
                while max(len(body), received) < 4 * ERROR_LIMIT:
                    packed = await self._portion(response, request, self._idle)
                    if not packed:
                        break
                    received += len(packed)
                    body += next(unpack(packed), b"")
        text = masked(f"{status} {_elsewhere(response, request)}{_told(body)}", of_headers(request.headers))
        return ModelError(
            shortened(text, ERROR_LIMIT),
            status=status,
            transient=transient(text, status),
            retry_after_ms=retry_after_ms(response.headers),
        )

    async def close(self) -> None:
        for task in self._lingering:
            task.cancel()
        if self._lingering:
            await asyncio.wait(self._lingering, timeout=1)
        if self._connections is not None:
            await self._connections.close()


def _own(headers: Mapping[str, str]) -> dict[str, str]:
    """Those of the request, but for what says where it ends: that we know better."""
    return {small: value for name, value in headers.items() if (small := name.lower()) != "transfer-encoding"}


async def _drained(response: Exchange) -> None:
    """Read what little may be left, then let go of the connection: alive at the end of the body, else not."""
    try:
        async with asyncio.timeout(LINGER):
            left = PORTION_LIMIT
            while left > 0 and (portion := await response.read()):
                left -= len(portion)
    except Exception as error:
        log.debug("a connection was not kept: %s", error)
    finally:
        response.done()


def _too_large() -> ModelError:
    return ModelError(f"The answer is larger than {RESPONSE_LIMIT >> 20} MiB.", transient=False)


def _silent(seconds: float | None) -> ModelError:
    return ModelError(f"The model server sent nothing for {seconds or 0:g} s (timed out).", transient=True)


def _failed(error: Exception, request: Request) -> ModelError:
    """What went wrong on the way, as one reads it."""
    import ssl

    from tau.llm.http_pool import ProxyRefused

    what = masked(str(error) or type(error).__name__, of_headers(request.headers))
    if not isinstance(error, OSError):
        return ModelError(
            f"Bad model server address or header for {shown_address(request.url)!r}: {what}", transient=False
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = " SSL_CERT_FILE may name a file with the certificates to trust." if error.verify_code in UNKNOWN else ""
        return ModelError(f"Connection error: {what}{hint}", transient=False)
    if isinstance(error, ProxyRefused):
        told = transient("", error.status)
        return ModelError(f"Connection error: {what}", status=error.status, transient=told)
    return ModelError(f"Connection error: {what}", transient=True)


def _check_type(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "text/plain", "application/xhtml+xml"):
        raise ModelError(f"The model server answered with {kind} instead of an event stream.", transient=False)


def _elsewhere(response: Exchange, request: Request) -> str:
    """Where a server sends us. A conversation and a key go nowhere but where they were meant to go."""
    there = response.headers.get("location")
    if not there or not 300 <= response.status < 400:
        return ""
    return f"The server points to {shown_address(urljoin(request.url, there))}, which tau does not follow: "


def _told(body: bytes) -> str:
    try:
        return encode(parse(body)).decode()
    except BadRecord:
        return body.decode("utf-8", "replace").strip() or "status code (no body)"


# Packed answers.


def _unpacking(headers: Mapping[str, str]) -> Callable[[bytes], Iterator[bytes]]:
    """A function from what comes to what it says, in portions that cannot burst."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding in ("", "identity"):
        return lambda packed: iter((packed,))
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ModelError(
            f"The model server answered in {shortened(coding, 100)}, which was not asked for.", transient=False
        )
    either = zlib.MAX_WBITS | 32  # kind of header
    unpacker = zlib.decompressobj(either)

    def unpack(packed: bytes) -> Iterator[bytes]:
        nonlocal unpacker
        while packed:
            if unpacker.eof:
                if not packed.startswith(b"\x1f"):
                    return  # padding behind the end; the unpacker would store it
                unpacker = zlib.decompressobj(either)  # some servers compress every event by itself
            yield unpacker.decompress(packed, PORTION_LIMIT)
            packed = unpacker.unconsumed_tail or unpacker.unused_data

    return unpack


# Proxies.


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address. Servers on this machine are reached directly."""
    from urllib.request import getproxies, proxy_bypass

    address = urlsplit(url)
    host = address.hostname or ""
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return None
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy:
        return None
    port = address.port or {"http": 80}.get(address.scheme, 443)
    exceptions = re.split(r"[\s,]+", proxies.get("no", "").lower())
    if any(_excepted(host, port, exception) for exception in exceptions) or proxy_bypass(host):
        return None
    return _proxy(proxy if "://" in proxy else f"http://{proxy}", address.scheme)


def _proxy(address: str, scheme: str) -> str:
    """An address of a proxy, if it is one of a proxy that we can use. It may have a password in it."""
    try:
        parts = urlsplit(address)
        understood = bool(parts.hostname) and parts.port != 0
    except ValueError:
        understood = False
    if not understood:
        raise ModelError(f"The address of the proxy for {scheme} cannot be understood.", transient=False)
    if parts.scheme not in ("http", "https"):
        raise ModelError(f"The proxy {parts.scheme} is of a kind that tau cannot use.", transient=False)
    return address


def _excepted(host: str, port: int, exception: str) -> bool:
    """Whether an entry of NO_PROXY is about this host, in any of the ways in which people write it."""
    if exception == "*":
        return True
    if "/" in exception:
        return _within(host, exception)
    name, at = exception, ""
    if found := re.fullmatch(r"(\[.*\]|[^:]*):(\d+)", exception):
        name, at = found.groups()
    name = name.strip("[]").removeprefix("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}")) and at in ("", str(port))


def _within(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


# How long to wait.


def retry_after_ms(headers: Any) -> int | None:
    """How long the server asks us to wait; None if it does not, or not in a way one can read."""
    for name, read in (("retry-after-ms", _milliseconds), ("retry-after", _seconds), ("retry-after", _until)):
        try:
            if value := headers.get(name):
                return max(0, round(read(value)))
        except (ValueError, TypeError, OverflowError):
            continue
    return None


def _milliseconds(text: str) -> float:
    return float(text)


def _seconds(text: str) -> float:
    if text.strip().startswith("-"):
        raise ValueError
    return float(text) * 1000


def _until(text: str) -> float:
    import calendar
    import email.utils

    when = email.utils.parsedate_to_datetime(text)
    # Where there is no zone, as in one of the three ways to write a date in HTTP, it is not ours that is meant.
    return (calendar.timegm(when.utctimetuple()) - time.time()) * 1000
