"""What a connection needs of its transport, and what a transport reports to its connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tau.mcp.messages import McpError
from tau.records.base import Value

MAX_MESSAGE_BYTES = 32 * 1024 * 1024


class Outgoing(Value):
    """A message to send. `id` is that of a request, None for anything else.

    `method` and `params` are those of a request or notification; `schema` is that of the tool which is called.
    """

    data: bytes
    id: int | None = None
    method: str = ""
    params: Mapping[str, Any] = {}
    schema: Mapping[str, Any] | None = None


class Receiver(Protocol):
    def received(self, data: bytes) -> None:
        """One message of the server, as JSON."""

    def closed(self, error: McpError) -> None:
        """The connection has ended, and not because tau closed it."""

    def request_failed(self, id: int, error: McpError) -> None:
        """One request has failed; the connection may still work."""

    def is_open(self, id: int) -> bool:
        """True while the answer to a request is awaited."""


class Transport(Protocol):
    async def start(self, receiver: Receiver) -> None:
        """Raises McpError if it cannot be started."""

    async def send(self, message: Outgoing) -> None:
        """Send a message. Returns for a request when it is on its way, for others when they have been delivered."""

    def cancel(self, id: int) -> bool:
        """Stop waiting for the answer to a request. True if the server notices; else it must be notified."""

    async def close(self, grace_s: float) -> None:
        """End the connection in an orderly way; whatever has not ended after the time is killed."""

    def kill(self) -> None:
        """End everything at once. Does not wait."""
