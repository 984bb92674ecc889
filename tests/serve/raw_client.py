"""Clients for the tests of HTTP: plain sockets, and a listener with any application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from tau.serve.web.listener import Listener, bind

App = Callable[[Any, Any, Any], Awaitable[None]]


@asynccontextmanager
async def listening(app: App, **options: Any) -> AsyncIterator[tuple[int, Listener]]:
    """A listener on a free port."""
    socket = bind("127.0.0.1", 0)
    port: int = socket.getsockname()[1]
    listener = Listener(app, **options)
    await listener.start(socket)
    try:
        yield port, listener
    finally:
        await listener.close()
        await close_clients()


async def send(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection and write to it. It is closed at the end of `listening`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _open.append(writer)
    writer.write(data)
    return reader, writer


_open: list[asyncio.StreamWriter] = []


async def close_clients() -> None:
    """Close the connections that tests have opened."""
    while _open:
        writer = _open.pop()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def ask(port: int, data: bytes) -> bytes:
    """Send bytes and return everything that comes back until the server closes the connection."""
    reader, writer = await send(port, data)
    try:
        return await read_to_end(reader)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def request(method: str, target: str, port: int, *headers: str, body: bytes = b"", token: str = "") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
