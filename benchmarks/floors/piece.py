"""The least that Python does for a piece that comes alone: a callback of asyncio, httptools, msgspec, one write.

    python benchmarks/floors/piece.py http://127.0.0.1:PORT/v1/messages

A line on stdin is a prompt: the request is sent, and every delta of the answer is written as an update in the form of
dialect 1.5. There is no session, no other event, no check of anything, and a slow reader blocks it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import httptools
import msgspec

READ_BYTES = 64 * 1024
ZERO = b'{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0}}'
UPDATE = b'{"type":"message_update","usage":%b,"assistantMessageEvent":%b}\n'


class TextDelta(msgspec.Struct, tag_field="type", tag="text_delta", rename="camel"):
    content_index: int
    delta: str


class Connection(asyncio.BufferedProtocol):
    def __init__(self, host: str, path: str) -> None:
        self._request = (
            f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._rest = b""
        self._decode, self._encode = msgspec.json.decode, msgspec.json.Encoder().encode
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def ask(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(self._request.encode())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._parser.feed_data(self._buffer[:nbytes])

    def on_body(self, body: bytes) -> None:
        *events, self._rest = (self._rest + body).split(b"\n\n")
        for event in events:
            value = self._decode(event.partition(b"data: ")[2])
            if value["type"] == "content_block_delta":
                delta = TextDelta(value["index"], value["delta"]["text"])
                os.write(1, UPDATE % (ZERO, self._encode(delta)))

    def on_message_complete(self) -> None:
        os.write(1, b'{"type":"agent_end"}\n')


async def main(url: str) -> None:
    address = urlsplit(url)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    _, connection = await loop.create_connection(
        lambda: Connection(address.netloc, address.path or "/"), address.hostname, address.port
    )

    def read() -> None:
        data = os.read(0, READ_BYTES)
        if not data:
            ended.set()
        elif b'"prompt"' in data:
            connection.ask()

    loop.add_reader(0, read)
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
