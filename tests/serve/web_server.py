"""A host behind HTTP on a free port, and clients with real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from serve.raw_client import ask, close_clients, request, send
from support.served import WITHIN, Json, make_host
from tau.serve.credentials import Credentials
from tau.serve.host import Host
from tau.serve.request_checks import allowed_names
from tau.serve.web.app import create_app
from tau.serve.web.listener import Listener, bind
from tau.serve.web.page import Page
from tau.serve.web.site import Site


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


class Answer:
    """An HTTP response that was read to its end."""

    def __init__(self, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1]) if head else 0
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        self.body = _dechunked(body) if self.headers.get("transfer-encoding") == "chunked" else body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.body.split(b"\n") if line]


def _dechunked(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size or b"0", 16)
        if not length:
            break
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)


class Server:
    """A running server. `token` is the main token."""

    def __init__(self, host: Host, site: Site, listener: Listener, port: int, token: str) -> None:
        self.host, self.site, self.listener, self.port, self.token = host, site, listener, port, token

    @property
    def credentials(self) -> Credentials:
        assert self.site.credentials is not None
        return self.site.credentials

    async def ask(
        self, method: str, target: str, body: Any = None, *headers: str, token: str | None = None, kind: str = ""
    ) -> Answer:
        data = b""
        given = list(headers)
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            given.append(f"Content-Type: {kind or 'application/json'}")
        async with asyncio.timeout(WITHIN):
            return Answer(
                await ask(
                    self.port,
                    request(method, target, self.port, *given, body=data, token=self.token if token is None else token),
                )
            )

    async def stream(self, target: str, *headers: str) -> asyncio.StreamReader:
        """Begin to read a response that does not end."""
        reader, _ = await send(self.port, request("GET", target, self.port, *headers, token=self.token))
        return reader

    async def open(self, **fields: Any) -> str:
        answer = await self.ask("POST", "/v1/sessions", fields)
        assert answer.status == 201, answer.body
        session: str = answer.json["session"]
        return session

    def socket(self, *, token: str | None = None, origin: str | None = None) -> connect:
        given = self.token if token is None else token
        return connect(
            f"ws://127.0.0.1:{self.port}/v1/ws",
            subprotocols=["tau.v1"],  # type: ignore[list-item]
            additional_headers={"Authorization": f"Bearer {given}"} if given else {},
            origin=origin,  # type: ignore[arg-type]
            proxy=None,
            max_size=None,
        )


@asynccontextmanager
async def serving(folder: Path, *answers: Json, page: Path | None = None, **changes: Any) -> AsyncIterator[Server]:
    host = make_host(folder, *answers, **changes)
    credentials = Credentials(host.config.agent_dir / "serve", Clock())
    credentials.prepare()
    socket = bind("127.0.0.1", 0)
    port: int = socket.getsockname()[1]
    site = Site(host, allowed_names([f"http://127.0.0.1:{port}", f"http://localhost:{port}"]), None, credentials)
    listener = Listener(create_app(site, None if page is None else Page(page)))
    site.connections = listener.connections
    await listener.start(socket)
    try:
        yield Server(host, site, listener, port, credentials.main_token())
    finally:
        await host.close()
        await listener.close()
        await site.close()
        await close_clients()


class Socket:
    """Records of a WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.records: list[Json] = []
        self.lines: list[str] = []
        self.messages = 0

    async def send(self, *records: Json) -> None:
        await self.connection.send("\n".join(json.dumps(record) for record in records))

    async def read(self) -> None:
        async with asyncio.timeout(WITHIN):
            message = await self.connection.recv()
        assert isinstance(message, str)
        self.messages += 1
        self.lines += message.split("\n")
        self.records += [json.loads(line) for line in message.split("\n")]

    async def until(self, type: str, start: int = 0, **fields: Any) -> Json:
        at = start
        while True:
            for record in self.records[at:]:
                if record["type"] == type and all(record.get(name) == value for name, value in fields.items()):
                    return record
            at = len(self.records)
            await self.read()

    async def ask(self, type: str, **fields: Any) -> Json:
        id = f"s{len(self.records)}"
        await self.send({"id": id, "type": type, **fields})
        return await self.until("response", id=id)
