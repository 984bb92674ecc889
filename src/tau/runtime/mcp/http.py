"""MCP over HTTP: one POST per message, answered with JSON or with a stream of events.

Legacy servers may have a session (`Mcp-Session-Id`) and a GET stream for messages outside of a request. In the modern
era there is neither, and closing the stream of a request cancels it.

Headers with secrets go to the origin of the configured address only: a redirect (307, 308) is followed within it,
cookies are not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any
from urllib.parse import urljoin, urlsplit

from tau.core.checks.secrets import redact_url
from tau.errors import ModelError
from tau.llm.http import trusted_certificates
from tau.llm.http_connection import HttpExchange
from tau.llm.http_pool import ConnectionPool
from tau.llm.proxies import proxy_for
from tau.mcp.definitions import safe_text
from tau.mcp.messages import McpError, modern_headers
from tau.records.base import BadRecord, Value, encode, parse
from tau.runtime.mcp.backoff import FIRST_DELAY_S, Backoff
from tau.runtime.mcp.transport import MAX_MESSAGE_BYTES, Outgoing, Receiver
from tau.wire.sse import SSEDecoder

logger = logging.getLogger(__name__)
CONNECT_TIMEOUT_S = 30.0
MAX_ERROR_BODY = 64 * 1024
MAX_ERROR_TEXT = 500
MAX_REDIRECTS = 5
DELETE_TIMEOUT_S = 1.0
STREAM_RETRIED = (401, 408, 429, 500, 502, 503, 504)  # answers after which the GET stream is tried again
LISTS_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
RESUMES = 5  # of the stream of one answer, one after another, that fail or bring no new event
RESUME_DELAY_S = 1.0  # if the server names none
MIN_RESUME_DELAY_S = 0.1
MAX_RESUME_DELAY_S = 30.0
MAX_EVENT_ID = 1024

# Returns the headers with secrets, such as a token that may have been refreshed since the last request.
SecretHeaders = Callable[[], Awaitable[Mapping[str, str]]]


class Endpoint(Value):
    """The address of a server, and what is sent with every request. `environment` names the proxies."""

    url: str
    headers: SecretHeaders
    environment: Mapping[str, str]


class LoginRequired(McpError):
    """The server answered 401. `challenge` is its WWW-Authenticate header."""

    def __init__(self, challenge: str) -> None:
        super().__init__("It requires a login.", login=True, status=401)
        self.challenge = challenge


class HttpClient:
    """Requests to one endpoint, on connections that are kept alive."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._pool = ConnectionPool(_certificates)

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes = b"", *, url: str = "", repeat: bool = True
    ) -> HttpExchange:
        """Send a request; returns when the response has begun. Raises McpError if there is none."""
        url = url or self.endpoint.url
        for _ in range(MAX_REDIRECTS):
            exchange = await self._send(method, headers, body, url, repeat)
            target = _target(exchange, url) if exchange.status in (307, 308) else ""
            if not target or _origin(target) != _origin(url):
                return exchange
            await _discard(exchange)
            url = target
        raise McpError(f"It redirects more than {MAX_REDIRECTS} times.")

    async def _send(self, method: str, headers: Mapping[str, str], body: bytes, url: str, repeat: bool) -> HttpExchange:
        sent = {"accept-encoding": "identity", "user-agent": "tau", **await self.endpoint.headers(), **headers}
        if method == "POST":
            sent |= {"content-type": "application/json", "content-length": str(len(body))}
        try:
            return await self._pool.request(
                method,
                url,
                {name.lower(): value for name, value in sent.items()},
                [body] if body else [],
                proxy=proxy_for(url, self.endpoint.environment),
                connect=CONNECT_TIMEOUT_S,
                repeat=repeat,
            )
        except (OSError, ValueError, ModelError) as error:
            raise McpError(f"{redact_url(url)}: {error or type(error).__name__}") from None

    async def close(self) -> None:
        await self._pool.close()


class HttpTransport:
    """Implements Transport. `retry_s` is the delay before an ended GET stream is opened again; it grows."""

    def __init__(self, endpoint: Endpoint, retry_s: float = FIRST_DELAY_S) -> None:
        self._client = HttpClient(endpoint)
        self._retry_s = retry_s
        self._receiver: Receiver | None = None
        self._posts: dict[int, asyncio.Task[None]] = {}
        self._stream: asyncio.Task[None] | None = None
        self._session = ""
        self.modern = False
        self.version = ""  # the version of the protocol that legacy requests name, once it is known

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def send(self, message: Outgoing) -> None:
        if message.id is None:
            if self.modern:  # the modern era has no messages to the server but requests
                return
            exchange = await self._post(message)
            await _discard(exchange)
            return
        task = self._posts[message.id] = asyncio.ensure_future(self._run(message, message.id))
        task.add_done_callback(lambda _: self._posts.pop(message.id or 0, None))

    def cancel(self, id: int) -> bool:
        task = self._posts.get(id)
        if task is not None:
            task.cancel()
        return self.modern

    def listen(self, tells_changes: bool) -> None:
        """Open the GET stream of a legacy server: for its requests, and for changed lists if it announces them."""
        if self._stream is None and not self.modern:
            self._stream = asyncio.ensure_future(self._read_stream(tells_changes))

    async def close(self, grace_s: float) -> None:
        self._stop()
        if self._session and not self.modern:
            with suppress(McpError, TimeoutError):
                async with asyncio.timeout(DELETE_TIMEOUT_S):
                    await _discard(await self._client.send("DELETE", self._headers()))
        await self._client.close()

    def kill(self) -> None:
        self._stop()

    def _stop(self) -> None:
        self._receiver = None
        for task in (*self._posts.values(), *([self._stream] if self._stream is not None else ())):
            task.cancel()

    def _headers(self) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream"}
        if self._session:
            headers["mcp-session-id"] = self._session
        if self.version:
            headers["mcp-protocol-version"] = self.version
        return headers

    async def _post(self, message: Outgoing) -> HttpExchange:
        headers = self._headers()
        if self.modern:
            headers |= modern_headers(message.method, message.params, message.schema)
        exchange = await self._client.send("POST", headers, message.data, repeat=message.method != "tools/call")
        if exchange.status == 404 and self._session:
            await _discard(exchange)
            raise McpError("Its session has ended.", status=404, sent=False)
        return exchange

    async def _run(self, message: Outgoing, id: int) -> None:
        """Send a request and deliver what comes back."""
        last = _LastEvent()
        try:
            exchange = await self._post(message)
            if message.method == "initialize" and not self.modern:
                self._session = exchange.headers.get("mcp-session-id", "")
            error = await self._deliver_all(exchange, id, last)
            if not self.modern and last.id:
                error = await self._resume(id, last, error)
            self._fail(id, error)
        except McpError as failure:
            self._fail(id, failure)

    async def _resume(self, id: int, last: _LastEvent, error: McpError) -> McpError:
        """Ask for the rest of an answer until it is there: servers of 2025-11-25 may let clients poll for it.

        The request is not repeated. Returns the last error. The timeout of the request limits the whole.
        """
        fruitless = 0
        while self._awaits(id) and fruitless < RESUMES:
            await asyncio.sleep(last.retry_s)
            known = last.id
            try:
                headers = {**self._headers(), "accept": "text/event-stream", "last-event-id": known}
                error = await self._deliver_all(await self._client.send("GET", headers), id, last)
            except McpError as failure:
                # Without `login`: after a login a request is sent again, and the server already has this one.
                error = McpError(str(failure), status=failure.status)
                if 400 <= failure.status < 500:
                    break
            fruitless = fruitless + 1 if last.id == known else 0
        return error

    async def _deliver_all(self, exchange: HttpExchange, id: int, last: _LastEvent) -> McpError:
        """Deliver the messages of a response. Returns the error if the answer is not among them."""
        try:
            if exchange.status // 100 != 2:
                self._deliver(await _error_body(exchange), id)
            else:
                await self._deliver_messages(exchange, id, last)
            if exchange.complete:
                exchange.finish()
        except (OSError, ValueError, ModelError) as error:
            return McpError(f"The connection broke: {error or type(error).__name__}")
        finally:
            exchange.drop()  # no effect if it has ended
        return McpError("It ended its answer before the result.")

    async def _deliver_messages(self, exchange: HttpExchange, id: int, last: _LastEvent) -> None:
        """Not with `_events`: a generator that is left before its end costs as much as the rest of a call."""
        if not _is_stream(exchange):
            if body := await _body(exchange, MAX_MESSAGE_BYTES):
                self._deliver(body, id)
            return
        decoder = SSEDecoder(MAX_MESSAGE_BYTES)
        last.begin()
        while self._awaits(id) and (chunk := await exchange.read()):
            last.feed(chunk)
            for event, data in decoder.feed(chunk):
                if event == "message" and data and self._awaits(id):
                    self._deliver(data.encode(), id)

    def _awaits(self, id: int) -> bool:
        return self._receiver is not None and self._receiver.is_open(id)

    def _deliver(self, data: bytes, id: int) -> None:
        if self._receiver is not None:
            self._receiver.received(_with_id(data, id))

    def _fail(self, id: int, error: McpError) -> None:
        if self._receiver is not None:
            self._receiver.request_failed(id, error)

    async def _read_stream(self, tells_changes: bool) -> None:
        backoff, last = Backoff(self._retry_s), _LastEvent(self._retry_s)
        while True:
            headers = {**self._headers(), "accept": "text/event-stream"}
            if last.id:
                headers["last-event-id"] = last.id
            with suppress(McpError, OSError, ValueError, ModelError):
                exchange = await self._client.send("GET", headers)
                try:
                    if exchange.status == 200 and _is_stream(exchange):
                        if backoff.opened() and tells_changes:
                            self._received(LISTS_CHANGED)
                        await self._receive_stream(exchange, backoff, last)
                    elif exchange.status not in STREAM_RETRIED and not last.id:
                        return  # the server has no such stream
                    elif exchange.status not in STREAM_RETRIED:
                        last = _LastEvent(self._retry_s)  # it may only not know the event any more
                finally:
                    exchange.drop()
            await backoff.wait(last.retry_s)

    async def _receive_stream(self, exchange: HttpExchange, backoff: Backoff, last: _LastEvent) -> None:
        decoder = SSEDecoder(MAX_MESSAGE_BYTES)
        last.begin()
        while chunk := await exchange.read():
            last.feed(chunk)
            for event, data in decoder.feed(chunk):
                if event == "message" and data:
                    backoff.delivered()
                    self._received(data.encode())

    def _received(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver.received(data)


class SseTransport:
    """The transport of 2024-11-05: a GET stream whose first event names the address for POSTs. Implements Transport."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = HttpClient(endpoint)
        self._receiver: Receiver | None = None
        self._address = ""
        self._stream: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[str] | None = None

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._ready = asyncio.get_running_loop().create_future()
        self._stream = asyncio.ensure_future(self._read())
        given = await self._ready
        try:
            address = urljoin(self._client.endpoint.url, given)
            is_own = _origin(address) == _origin(self._client.endpoint.url)
        except ValueError:
            raise McpError(f"It names no address for requests: {safe_text(given, 200)}") from None
        if not is_own:
            raise McpError("It names an address on another host for requests, which is refused.")
        self._address = address

    async def send(self, message: Outgoing) -> None:
        exchange = await self._client.send("POST", {}, message.data, url=self._address, repeat=False)
        try:
            error = await _error_body(exchange) if exchange.status // 100 != 2 else b""
        except McpError:
            exchange.drop()
            raise
        await _discard(exchange)
        if error and message.id is not None and self._receiver is not None:
            self._receiver.received(_with_id(error, message.id))

    def cancel(self, id: int) -> bool:
        return False

    async def close(self, grace_s: float) -> None:
        self.kill()
        await self._client.close()

    def kill(self) -> None:
        self._receiver = None
        if self._stream is not None:
            self._stream.cancel()

    async def _read(self) -> None:
        error = McpError("It closed its stream of events.")
        try:
            exchange = await self._client.send("GET", {"accept": "text/event-stream"})
            try:
                if exchange.status != 200:
                    await _error_body(exchange)
                async for event, data in _events(exchange):
                    self._on_event(event, data)
            finally:
                exchange.drop()
        except McpError as failure:
            error = failure
        except (OSError, ValueError, ModelError) as failure:
            error = McpError(f"The connection broke: {failure or type(failure).__name__}")
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
        elif self._receiver is not None:
            receiver, self._receiver = self._receiver, None
            receiver.closed(error)

    def _on_event(self, event: str, data: str) -> None:
        if event == "endpoint" and self._ready is not None and not self._ready.done():
            self._ready.set_result(data.strip())
        elif event == "message" and self._receiver is not None:
            self._receiver.received(data.encode())


@cache
def _certificates() -> Any:
    return trusted_certificates()


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _target(exchange: HttpExchange, url: str) -> str:
    """Where a response redirects to; empty if it names no address."""
    try:
        target = urljoin(url, exchange.headers.get("location", ""))
        return "" if target == url or not _origin(target)[1] else target
    except ValueError:
        return ""


class _LastEvent:
    """The id of the last complete event of a stream, from which the server can continue it, and when to ask it to."""

    def __init__(self, retry_s: float = RESUME_DELAY_S) -> None:
        self.id = ""
        self.retry_s = retry_s
        self._next_id = ""  # of an event that is not complete
        self._rest = b""

    def begin(self) -> None:
        """Another stream begins: what the one before left incomplete is not part of it."""
        self._next_id = self.id
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        data = self._rest + chunk
        end = len(data) - data.endswith(b"\r")  # an LF may follow, and CRLF is one end of a line
        *lines, rest = data[:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = rest[:MAX_EVENT_ID] + data[end:]
        for line in lines:
            if not line:
                self.id = self._next_id
            elif line.startswith(b"id:"):
                self._next_id = line[3:].strip()[:MAX_EVENT_ID].decode("ascii", "ignore")
            elif line.startswith(b"retry:") and (digits := line[6:].strip()[:12]).isdigit():
                self.retry_s = min(max(int(digits) / 1000, MIN_RESUME_DELAY_S), MAX_RESUME_DELAY_S)


def _is_stream(exchange: HttpExchange) -> bool:
    return "text/event-stream" in exchange.headers.get("content-type", "")


async def _events(exchange: HttpExchange) -> AsyncIterator[tuple[str, str]]:
    decoder = SSEDecoder(MAX_MESSAGE_BYTES)
    while chunk := await exchange.read():
        for event in decoder.feed(chunk):
            yield event


async def _body(exchange: HttpExchange, limit: int) -> bytes:
    body = bytearray()
    while chunk := await exchange.read():
        body += chunk
        if len(body) > limit:
            raise McpError(f"It sent an answer of more than {limit >> 20 or 1} MiB.")
    return bytes(body)


async def _discard(exchange: HttpExchange) -> None:
    try:
        with suppress(McpError, OSError):
            await _body(exchange, MAX_ERROR_BODY)
            exchange.finish()
    finally:
        exchange.drop()  # no effect if it has ended; a body without end must not keep the connection


async def _error_body(exchange: HttpExchange) -> bytes:
    """The JSON-RPC error in a response that is not a success. Raises McpError if there is none."""
    status = exchange.status
    if status == 401:
        raise LoginRequired(exchange.headers.get("www-authenticate", ""))
    if 300 <= status < 400:
        place = safe_text(redact_url(exchange.headers.get("location", "")), MAX_ERROR_TEXT)
        raise McpError(f"It redirects to another address, which tau does not follow: {place}", status=status)
    body, value = b"", None
    with suppress(OSError, McpError):  # McpError: the body is too long, such as the page of a proxy
        body = await _body(exchange, MAX_ERROR_BODY)
    with suppress(BadRecord):
        value = parse(body)
    if isinstance(value, dict) and isinstance(value.get("error"), dict) and value.get("jsonrpc") == "2.0":
        return body
    text = safe_text(_error_text(value, body), MAX_ERROR_TEXT)
    answer = f"It answered with status {status} {safe_text(exchange.reason, 100)}".rstrip()
    raise McpError(f"{answer}: {text}" if text else f"{answer}.", status=status)


def _error_text(value: Any, body: bytes) -> str:
    """What a response says about its failure: a sentence in its JSON, or the whole of it unless it is a page."""
    given = value if isinstance(value, dict) else {}
    error = given.get("error")
    for said in (error.get("message") if isinstance(error, dict) else error, given.get("message"), given.get("detail")):
        if isinstance(said, str) and said:
            return said
    text = body.decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else text


def _with_id(data: bytes, id: int) -> bytes:
    """An error response without an id belongs to the request that it answers."""
    if b'"error"' not in data[:512]:
        return data
    with suppress(BadRecord):
        value = parse(data)
        if isinstance(value, dict) and "error" in value and value.get("id") is None:
            return encode({**value, "id": id})
    return data


def legacy_version_header(version: str) -> str:
    """The first versions had no header for it."""
    return version if version > "2025-03-26" else ""
