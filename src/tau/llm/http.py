"""HTTP transport of model calls: POST, stream the bytes, turn an error status into a message.

http_pool.py implements the protocol and is loaded with the first model call (or ahead of time by `preload`).

Every wait has a timeout, every buffer has a limit, and nothing is retried: core/agent/retry.py decides about retries,
and clients see them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from tau.core.checks.secrets import header_secrets, mask_secrets, redact_url
from tau.core.models.failures import classify
from tau.errors import ModelError, shortened
from tau.llm.proxies import proxy_for
from tau.llm.types import ModelRequest
from tau.records.base import BadRecord, encode, encode_parts, parse

if TYPE_CHECKING:
    import ssl

    from tau.llm.http_connection import HttpExchange
    from tau.llm.http_pool import ConnectionPool

logger = logging.getLogger(__name__)

MAX_ERROR_CHARACTERS = 4096
ERROR_BODY_TIMEOUT_S = 30.0  # for the whole body of an error response
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
MAX_CHUNK_BYTES = 256 * 1024
DRAIN_TIMEOUT_S = 0.5
GZIP_OR_ZLIB = 47  # for zlib: whichever header there is
UNTRUSTED_CODES = {2, 18, 19, 20, 21}  # OpenSSL's verify codes for an untrusted issuer
DEFAULT_HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # Compression would delay small events. A compressed response is decompressed all the same, within the limit.
    "accept-encoding": "identity",
    "user-agent": "tau",
}


class Http:
    """A connection pool with timeouts in seconds; 0 is none.

    `connect` is for a connection, `first_byte` for that and the beginning of a response (default: as `idle`), `idle`
    for every further chunk. `environment` names the proxies. `read_interval_s`: see HttpConnection.
    """

    def __init__(
        self,
        idle: float = 120,
        connect: float = 30,
        first_byte: float | None = None,
        environment: Mapping[str, str] = os.environ,
        read_interval_s: float = 0.0,
    ) -> None:
        self.set_timeouts(idle, connect, first_byte)
        self._environment = environment
        self._read_interval_s = read_interval_s
        self._context: ssl.SSLContext | None = None
        self._connections: ConnectionPool | None = None
        self._draining: set[asyncio.Task[None]] = set()

    def set_timeouts(self, idle: float, connect: float, first_byte: float | None) -> None:
        """Set timeouts for subsequent requests."""
        self._idle = idle or None
        self._connect = connect or None
        self._first_byte = self._idle if first_byte is None else first_byte or None

    def preload(self, url: str = "https:") -> None:
        """Load the modules and certificates for this URL ahead of time; safe to call from any thread."""
        import tau.llm.http_pool  # noqa: F401

        if url.startswith("https:"):
            self._ssl_context()

    async def post(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        response = await self._begin(request)
        try:
            if request.on_response is not None:
                await request.on_response(response.status, dict(response.headers))
            if not 200 <= response.status < 300 or response.status == 204:  # 204 has no body
                raise await self._error_response(response, request)
            page = _page_type(response.headers)
            decompress = _decompressor(response.headers)
            size, received, seconds = 0, 0, self._first_byte
            consume: Callable[[bytes], bool] | None = None

            def consume_counted(chunk: bytes) -> bool:
                nonlocal received
                received += len(chunk)
                return received <= MAX_RESPONSE_BYTES and request.consume is not None and request.consume(chunk)

            while (compressed := response.take() or await self._next_chunk(response, request, seconds, consume)) != b"":
                if compressed is not None:
                    received += len(compressed)
                if received > MAX_RESPONSE_BYTES:  # compressed data may decompress to nothing
                    raise _too_large_error()
                if compressed is None:
                    yield b""
                    continue
                seconds = self._idle
                consume = consume_counted if request.consume is not None and _is_plain(response.headers) else None
                for chunk in decompress(compressed):
                    size += len(chunk)
                    if size > MAX_RESPONSE_BYTES:
                        raise _too_large_error()
                    if chunk:
                        if page and not _begins_events(chunk):
                            raise _page_error(page)
                        page = ""
                        yield chunk
            if page:
                raise _page_error(page)
            response.finish()
        except GeneratorExit:
            # The reader stopped, usually because the answer is complete. If only the end of the response is left, the
            # connection can be reused, which saves a handshake.
            self._draining.add(task := asyncio.create_task(_drain(response)))
            task.add_done_callback(self._draining.discard)
            task.add_done_callback(lambda _: response.finish())  # also for a task that was cancelled before it started
            raise
        except zlib.error as error:
            response.drop()
            raise ModelError(f"The model server sent a corrupt compressed response: {error}", transient=True) from None
        except BaseException:
            response.drop()
            raise

    async def _begin(self, request: ModelRequest) -> HttpExchange:
        from tau.llm.http_pool import ConnectionPool, ConnectTimeout

        if self._connections is None:
            self._connections = ConnectionPool(self._ssl_context, self._read_interval_s)
        body = list(encode_parts(request.body))
        size = str(sum(map(len, body)))
        try:
            async with asyncio.timeout(self._first_byte):
                return await self._connections.post(
                    request.url,
                    {**DEFAULT_HEADERS, **_request_headers(request.headers), "content-length": size},
                    body,
                    proxy=proxy_for(request.url, self._environment),
                    connect=self._connect,
                )
        except ConnectTimeout:
            where = redact_url(request.url)
            raise ModelError(f"Connection timed out after {self._connect:g} s: {where}", transient=True) from None
        except TimeoutError:
            raise _timeout_error(self._first_byte) from None
        except (OSError, ValueError) as error:
            raise _connection_error(error, request) from None

    def _ssl_context(self) -> ssl.SSLContext:
        """Loaded on first use."""
        if self._context is None:
            self._context = trusted_certificates()
        return self._context

    async def _next_chunk(
        self,
        response: HttpExchange,
        request: ModelRequest,
        seconds: float | None,
        consume: Callable[[bytes], bool] | None = None,
    ) -> bytes | None:
        """The next chunk of the body, empty at its end; None if `consume` took it and returned False."""
        try:
            return await response.read(seconds, consume)
        except TimeoutError:
            raise _timeout_error(seconds) from None
        except OSError as error:
            raise _connection_error(error, request) from None

    async def _error_response(self, response: HttpExchange, request: ModelRequest) -> ModelError:
        status, body, received = response.status, b"", 0
        with suppress(ModelError, zlib.error, TimeoutError):  # the status says enough
            decompress = _decompressor(response.headers)
            async with asyncio.timeout(ERROR_BODY_TIMEOUT_S):
                while max(len(body), received) < 4 * MAX_ERROR_CHARACTERS:
                    compressed = await self._next_chunk(response, request, self._idle)
                    if not compressed:
                        break
                    received += len(compressed)
                    body += next(decompress(compressed), b"")
        text = mask_secrets(
            f"{status} {_redirect_notice(response, request)}{_body_text(body)}", header_secrets(request.headers)
        )
        return ModelError(
            shortened(text, MAX_ERROR_CHARACTERS),
            status=status,
            retry_after_ms=retry_after_ms(response.headers),
        )

    async def close(self) -> None:
        for task in self._draining:
            task.cancel()
        if self._draining:
            await asyncio.wait(self._draining, timeout=1)
        if self._connections is not None:
            await self._connections.close()


def trusted_certificates() -> ssl.SSLContext:
    """A TLS context that trusts the system's certificates, or those that the environment names."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if more := os.environ.get("NODE_EXTRA_CA_CERTS"):  # companies with their own CA configure pi this way
        try:
            context.load_verify_locations(more)
        except OSError as error:
            logger.warning("cannot load NODE_EXTRA_CA_CERTS=%s: %s", more, error)
    return context


def _request_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Request headers without Transfer-Encoding: tau always sends Content-Length."""
    return {lower: value for name, value in headers.items() if (lower := name.lower()) != "transfer-encoding"}


async def _drain(response: HttpExchange) -> None:
    """Read the little that may be left, then release the connection: reusable if the body is complete."""
    try:
        async with asyncio.timeout(DRAIN_TIMEOUT_S):
            remaining = MAX_CHUNK_BYTES
            while remaining > 0 and (chunk := await response.read()):
                remaining -= len(chunk)
    except Exception as error:
        logger.debug("a connection was not reused: %s", error)
    finally:
        response.finish()


def _too_large_error() -> ModelError:
    return ModelError(f"The answer is larger than {MAX_RESPONSE_BYTES >> 20} MiB.", transient=False)


def _timeout_error(seconds: float | None) -> ModelError:
    return ModelError(f"The model server sent nothing for {seconds or 0:g} s (timed out).", transient=True)


def _connection_error(error: Exception, request: ModelRequest) -> ModelError:
    """A network error as a message for the user. Loads no module: there may be no descriptor left."""
    from tau.llm.http_pool import ProxyRefused  # loaded with the connection

    what = mask_secrets(str(error) or type(error).__name__, header_secrets(request.headers))
    if not isinstance(error, OSError):
        return ModelError(
            f"Bad model server address or header for {redact_url(request.url)!r}: {what}", transient=False
        )
    if type(error).__name__ == "SSLCertVerificationError":
        is_untrusted = getattr(error, "verify_code", None) in UNTRUSTED_CODES
        hint = " SSL_CERT_FILE may name a file with the certificates to trust." if is_untrusted else ""
        return ModelError(f"Connection error: {what}{hint}", transient=False)
    if isinstance(error, ProxyRefused):
        # Some proxies answer 401 for a wrong password, which says nothing about the key of the model server.
        status = 407 if error.status == 401 else error.status
        return ModelError(f"Connection error: {what}", status=status, transient=classify("", status).is_transient)
    return ModelError(f"Connection error: {what}", transient=not getattr(error, "final", False))


def _page_type(headers: Mapping[str, str]) -> str:
    """The content type if it is that of a page. Some proxies give it to an event stream: the first bytes decide."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if kind in ("text/html", "text/plain", "application/xhtml+xml") else ""


def _begins_events(chunk: bytes) -> bool:
    beginning = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()[:6]
    return any(field.startswith(beginning[: len(field)]) for field in (b"data:", b"event:", b"id:", b"retry:", b":"))


def _page_error(kind: str) -> ModelError:
    return ModelError(f"The model server answered with {kind} instead of an event stream.", transient=False)


def _redirect_notice(response: HttpExchange, request: ModelRequest) -> str:
    """The target of a redirect, which is not followed: conversation and key go only to the configured server."""
    location = response.headers.get("location")
    if not location or not 300 <= response.status < 400:
        return ""
    return f"The server points to {redact_url(urljoin(request.url, location))}, which tau does not follow: "


def _body_text(body: bytes) -> str:
    try:
        return encode(parse(body)).decode()
    except BadRecord:
        return body.decode("utf-8", "replace").strip() or "status code (no body)"


def _is_plain(headers: Mapping[str, str]) -> bool:
    return headers.get("content-encoding", "").strip().lower() in ("", "identity")


def _decompressor(headers: Mapping[str, str]) -> Callable[[bytes], Iterator[bytes]]:
    """A function that decompresses data in chunks of limited size."""
    coding = headers.get("content-encoding", "").strip().lower()
    if _is_plain(headers):
        return lambda compressed: iter((compressed,))
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise ModelError(
            f"The model server used the content encoding {shortened(coding, 100)}, which was not requested.",
            transient=False,
        )
    decompressor: Any = None

    def decompress(compressed: bytes) -> Iterator[bytes]:
        nonlocal decompressor
        while compressed:
            if decompressor is None:
                has_header = coding != "deflate" or compressed[0] == 0x1F or compressed[0] & 0x0F == zlib.DEFLATED
                decompressor = zlib.decompressobj(GZIP_OR_ZLIB if has_header else -zlib.MAX_WBITS)
            elif decompressor.eof:
                if not compressed.startswith(b"\x1f"):
                    return  # padding after the end; the decompressor would store it
                decompressor = zlib.decompressobj(GZIP_OR_ZLIB)  # some servers compress each event separately
            yield decompressor.decompress(compressed, MAX_CHUNK_BYTES)
            compressed = decompressor.unconsumed_tail or decompressor.unused_data

    return decompress


def retry_after_ms(headers: Any) -> int | None:
    """The delay that the server requests; None if there is none, or it cannot be parsed."""
    for name, read in (("retry-after-ms", _milliseconds), ("retry-after", _seconds), ("retry-after", _from_date)):
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


def _from_date(text: str) -> float:
    import calendar
    import email.utils

    when = email.utils.parsedate_to_datetime(text)
    # A date without a zone, which one of the three HTTP date formats allows, is in UTC.
    return (calendar.timegm(when.utctimetuple()) - time.time()) * 1000
