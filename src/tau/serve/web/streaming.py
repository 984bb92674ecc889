"""CallStream: a response that is read from a channel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tau.serve.web.calls import Call


class CallStream(StreamingResponse):
    """Closes its channel in any case: a client may leave before the first byte, and then `content` is never read."""

    def __init__(
        self, call: Call, content: AsyncIterator[bytes], media_type: str, ended: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(content, media_type=media_type)
        self._call = call
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()
            await self._call.close()
