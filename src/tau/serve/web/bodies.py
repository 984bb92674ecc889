"""Request bodies: read within limits of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tau.serve.request_checks import MAX_BODY_BYTES, Refusal

BODY_GRACE_S = 10.0
MIN_BYTES_PER_S = 4096  # after the grace period

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class BadBody(Exception):
    """The body is refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.text)
        self.refusal = refusal


class ClientGone(Exception):
    """The client closed the connection before it was answered."""


def deadline(start: float, received: int) -> float:
    """When the next bytes must have arrived."""
    return start + BODY_GRACE_S + received / MIN_BYTES_PER_S


async def read_body(receive: Receive, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Raises BadBody if it is too large or too slow, ClientGone if it ends early."""
    start = asyncio.get_running_loop().time()
    parts: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout_at(deadline(start, size)):
                message = await receive()
        except TimeoutError:
            raise BadBody(Refusal(408, "body", "The body arrives too slowly.")) from None
        if message["type"] != "http.request":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise BadBody(Refusal(413, "body", f"The body is larger than {limit} bytes."))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
