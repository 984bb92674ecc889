"""The interface of rpc_served over HTTP: every line is a POST, and events come from a stream of their own.

Responses and events have no order between them, because they come over two connections.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from support import rpc_served
from support.rpc_websocket import TOKEN, Output, authenticate
from tau.serve.host import Host
from tau.serve.request_checks import allowed_names
from tau.serve.web.app import create_app
from tau.serve.web.listener import Listener, bind
from tau.serve.web.site import Site
from tau.wire.lines import LineDecoder


class Agent(rpc_served.Agent):
    """One host with one session, behind a listener on a free port."""

    async def _serve(self, host: Host, live: Any) -> None:
        socket = bind("127.0.0.1", 0)
        self._port = socket.getsockname()[1]
        site = Site(host, allowed_names([f"http://127.0.0.1:{self._port}"]), authenticate, None)
        listener = Listener(create_app(site))
        await listener.start(socket)
        self._output = Output()
        self._transport.connect(self._output)
        dialect = f"?dialect={self._factory_dialect()}"
        events = f"/v1/sessions/{live.id}/events{dialect}&numbers=false"
        started = asyncio.Event()
        streaming = asyncio.create_task(self._request("GET", events, b"", started))
        try:
            await started.wait()
            await self._pass_input(live, dialect)
            for attachment in [*live.attachments]:
                await attachment._outgoing.drain()
            await asyncio.sleep(0.05)
        finally:
            streaming.cancel()
            await asyncio.wait({streaming})
            await site.close()
            await listener.close()
            socket.close()

    def _factory_dialect(self) -> str:
        return self._args[self._args.index("--dialect") + 1] if "--dialect" in self._args else "default"

    async def _pass_input(self, live: Any, dialect: str) -> None:
        transport = rpc_served.EndAfterRuns(self._transport, live)
        hello = await transport.receive()
        assert json.loads(hello)["type"] == "hello"
        await self._send(b'{"type":"response","command":"hello","success":true}\n')
        while (line := await transport.receive()) is not None:
            await self._request("POST", f"/v1/sessions/{live.id}/commands{dialect}", line + b"\n")

    async def _request(self, method: str, target: str, body: bytes, started: asyncio.Event | None = None) -> None:
        """Pass on the lines of the response."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += "Accept: application/x-ndjson\r\nConnection: close\r\n"
        if body:
            head += f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n"
        try:
            writer.write(head.encode() + b"\r\n" + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 OK" in answer, answer
            if started is not None:
                started.set()
            decoder = LineDecoder(2**62)
            while size := int(await reader.readline(), 16):
                lines = decoder.feed(await reader.readexactly(size))
                await self._send(b"".join(line + b"\n" for line in lines if isinstance(line, bytes)))
                await reader.readline()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _send(self, data: bytes) -> None:
        if data:
            self._output.batches.append(data)
            self._transport.write()
