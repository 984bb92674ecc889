"""The network side of model calls: POST, stream the bytes, turn a bad status into a sentence.

The only file that knows the HTTP library, and the only one in llm/ that waits.
The library is imported when the first model is called (`warm` does it ahead of
time), since it costs more to load than all the rest of tau.
"""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from tau.errors import ModelError, shortened
from tau.llm.calls import Request
from tau.records.base import BadRecord, encode, parse

if TYPE_CHECKING:
    import httpx2

ERROR_LIMIT = 4096
RESPONSE_LIMIT = 64 * 1024 * 1024
HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # A compressed body could unpack to anything; events are small.
    "accept-encoding": "identity",
    "user-agent": "tau",
}


class Http:
    """One connection pool. `idle` and `connect` are seconds without a byte, and until connected."""

    def __init__(self, idle: float = 120, connect: float = 30) -> None:
        self._idle = idle
        self._connect = connect
        self._client: httpx2.AsyncClient | None = None

    def warm(self) -> None:
        """Load the library; safe to call from any thread."""
        import httpx2

        httpx2.create_ssl_context()

    async def post(self, request: Request) -> AsyncGenerator[bytes, None]:
        import httpx2

        if self._client is None:
            timeout = httpx2.Timeout(self._idle, connect=self._connect)
            self._client = httpx2.AsyncClient(timeout=timeout, follow_redirects=False)
        content = encode(request.body)
        try:
            async with self._client.stream(
                "POST", request.url, content=content, headers={**HEADERS, **request.headers}
            ) as response:
                if response.status_code != 200:
                    raise await _refused(response, request)
                _check_type(response)
                size = 0
                async for portion in response.aiter_raw():
                    size += len(portion)
                    if size > RESPONSE_LIMIT:
                        raise ModelError(f"The answer is larger than {RESPONSE_LIMIT >> 20} MiB.", transient=False)
                    yield portion
        except httpx2.ConnectTimeout:
            raise ModelError(f"Connection timed out after {self._connect:g} s: {request.url}", transient=True) from None
        except httpx2.TimeoutException:
            raise ModelError(
                f"The model server sent nothing for {self._idle:g} s (timed out).", transient=True
            ) from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise ModelError(f"Bad model server address {request.url!r}: {error}", transient=False) from None
        except httpx2.TransportError as error:
            what = str(error) or type(error).__name__
            raise ModelError(f"Connection error: {what}", transient=True) from None

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            async with asyncio.timeout(1):
                await client.aclose()


def _check_type(response: Any) -> None:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "text/plain", "application/xhtml+xml"):
        raise ModelError(f"The model server answered with {kind} instead of an event stream.", transient=False)


async def _refused(response: Any, request: Request) -> ModelError:
    body = b""
    async for portion in response.aiter_raw():
        body += portion
        if len(body) > 4 * ERROR_LIMIT:
            break
    text = f"{response.status_code} {_told(body)}"
    return ModelError(
        shortened(masked(text, request.headers), ERROR_LIMIT),
        status=response.status_code,
        retry_after_ms=retry_after_ms(response.headers),
    )


def _told(body: bytes) -> str:
    try:
        return encode(parse(body)).decode()
    except BadRecord:
        return body.decode("utf-8", "replace").strip() or "status code (no body)"


def masked(text: str, headers: dict[str, str]) -> str:
    """Without our own credentials, which some servers repeat in their errors."""
    for name, value in headers.items():
        if name.lower() in ("x-api-key", "authorization", "api-key", "x-goog-api-key"):
            secret = value.removeprefix("Bearer ")
            if len(secret) >= 8:
                text = text.replace(secret, "***")
    return text


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
    return (email.utils.parsedate_to_datetime(text).timestamp() - time.time()) * 1000
