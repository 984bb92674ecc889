"""`GET /v1/ws`: a channel on a WebSocket."""

from __future__ import annotations

import asyncio

from starlette.websockets import WebSocket, WebSocketDisconnect

from tau.serve.access import Access
from tau.serve.greeting import Ending
from tau.serve.request_checks import SUBPROTOCOL
from tau.serve.request_gate import ANYONE
from tau.serve.web.connections import EXTENSION
from tau.serve.web.gate import ACCESS, TOO_MANY_CONNECTIONS, abort, address_of, prove
from tau.serve.web.site import Site
from tau.serve.web.transports import WebSocketTransport

NO_BINARY = Ending(1003, "Binary messages are not supported.")
TOO_MANY = Ending(1013, TOO_MANY_CONNECTIONS.text)
GONE = Ending(1006, "")
MAX_REASON_BYTES = 120
CLOSE_TIMEOUT_S = 2.0
CLOSED = (OSError, RuntimeError, WebSocketDisconnect)  # by the client, meanwhile; which one depends on the server


class WebSocketChannel:
    """One connection."""

    def __init__(self, site: Site, socket: WebSocket) -> None:
        self._site = site
        self._socket = socket
        self._forced: Ending | None = None  # how the connection ends, if the channel does not decide
        connection = socket.scope.get("extensions", {}).get(EXTENSION)
        self._transport = WebSocketTransport(socket.send, connection)

    async def run(self) -> None:
        access: Access = self._socket.scope[ACCESS]
        try:
            await self._socket.accept(SUBPROTOCOL)
        except CLOSED:
            return
        reading = asyncio.create_task(self._read())
        try:
            ending = await self._site.host.serve(
                self._transport,
                None if access is ANYONE else access,
                "websocket",
                self._authenticate if access is ANYONE else None,
            )
        finally:
            reading.cancel()
            await self._transport.close()
        await self._close(self._forced or ending)

    def _authenticate(self, token: str) -> Access | None:
        """Check the token of a hello."""
        scope = self._socket.scope
        access = self._site.gate.authenticate(token, address_of(scope), asyncio.get_running_loop().time())
        if access is not None and not prove(scope, access):
            self._forced = TOO_MANY
            return None
        return access

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] != "websocket.receive":
                self._forced = GONE
                break
            text = message.get("text")
            if text is None:
                self._forced = NO_BINARY
                break
            await self._transport.feed(text)
        self._transport.lose()

    async def _close(self, ending: Ending) -> None:
        if ending is GONE:
            return
        reason = ending.reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._socket.close(ending.code, reason)
        except TimeoutError:  # the client does not read
            abort(self._socket.scope)
        except CLOSED:
            return
