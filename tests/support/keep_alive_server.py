"""A model on loopback that keeps its connections open after an answer, as providers do, and counts them."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from support.anthropic_server import ModelServer, events


class KeepAliveServer(ModelServer):
    """`connections` is how many are open."""

    def __init__(self, answer: str = "ok") -> None:
        super().__init__(answer)
        self.connections = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    await self._answer(reader, writer)
        finally:
            self.connections -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        body = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events(self._answers[0], 1))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
