"""The interface of rpc_served, with a real WebSocket between the client and the host (TAU_TEST_SERVED=websocket)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support import rpc_served
from tau.serve.access import Access
from tau.serve.host import Host
from tau.serve.request_checks import allowed_names
from tau.serve.web.app import create_app
from tau.serve.web.listener import Listener, bind
from tau.serve.web.site import Site

TOKEN = "of-the-test"
# Tests of tests/rpc that do not hold for a WebSocket, besides those that do not hold for a host.
DIFFERENT = {
    **rpc_served.DIFFERENT,
    "test_a_command_that_is_piped_in_is_carried_out_before_the_end": "a WebSocket cannot end only its input",
}


class Agent(rpc_served.Agent):
    """One host with one session, behind a listener on a free port."""

    async def _serve(self, host: Host, live: Any) -> None:
        socket = bind("127.0.0.1", 0)
        port = socket.getsockname()[1]
        site = Site(host, allowed_names([f"http://127.0.0.1:{port}"]), authenticate, None)
        listener = Listener(create_app(site))
        await listener.start(socket)
        output = Output()
        self._transport.connect(output)
        try:
            async with connect(
                f"ws://127.0.0.1:{port}/v1/ws",
                subprotocols=["tau.v1"],  # type: ignore[list-item]
                additional_headers={"Authorization": f"Bearer {TOKEN}"},
                proxy=None,
                max_size=None,
            ) as client:
                reading = asyncio.create_task(self._pass_output(client, output))
                with suppress(ConnectionClosed):
                    await self._pass_input(client, live)
                    await _quiet(live)
                await client.close()
                await reading
        finally:
            await site.close()
            await listener.close()
            socket.close()

    async def _pass_input(self, client: ClientConnection, live: Any) -> None:
        transport = rpc_served.EndAfterRuns(self._transport, live)
        while (line := await transport.receive()) is not None:
            if isinstance(line, bytes):
                await client.send(line, text=True)

    async def _pass_output(self, client: ClientConnection, output: Output) -> None:
        with suppress(ConnectionClosed):
            async for message in client:
                assert isinstance(message, str)
                output.batches.append(message.encode() + b"\n")
                self._transport.write()
                while output.batches:
                    await output.taken.wait()
                    output.taken.clear()


async def _quiet(live: Any) -> None:
    """Wait until the host has sent what is left."""
    for attachment in [*live.attachments]:
        await attachment._outgoing.drain()
    await asyncio.sleep(0.05)


class Output:
    """What came from the WebSocket, for the in-memory transport of the test's client."""

    def __init__(self) -> None:
        self.batches: deque[bytes] = deque()
        self.taken = asyncio.Event()

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))

    def take(self) -> bytes:
        self.taken.set()
        return self.batches.popleft() if self.batches else b""

    def connection_lost(self) -> None:
        self.batches.clear()
        self.taken.set()


def authenticate(token: str) -> Access | None:
    return Access("test", "admin") if token == TOKEN else None
