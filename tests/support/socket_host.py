"""A host in this process that listens on a Unix socket, with connections that can be cut after any number of bytes."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import Any

from support.served import host_config
from tau.client.addresses import Address
from tau.runtime.protocol.memory import MemoryTransport
from tau.serve.access import LOCAL_USER, Access
from tau.serve.host import Host

UNCUT = 1 << 60


class SocketHost:
    """`cuts_out` and `cuts_in` say for each connection after how many bytes of its output or input it is cut."""

    def __init__(self, host: Host, path: str, access: Access = LOCAL_USER) -> None:
        self.host, self.path, self.access = host, path, access
        self.address = Address(path=path)
        self.url = f"unix:{path}"
        self.cuts_out: Iterator[int] = repeat(UNCUT)
        self.cuts_in: Iterator[int] = repeat(UNCUT)
        self.connections = 0
        self.forget = False  # the records of a session that were not sent when its connection is cut
        self.bytes_out = self.bytes_in = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    def cut_all(self) -> None:
        """Cut all connections now."""
        for writer in [*self._writers]:
            writer.transport.abort()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut_all()
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        transport = MemoryTransport()
        serving = asyncio.ensure_future(self.host.serve(transport, self.access, "lines"))
        serving.add_done_callback(lambda done: transport.client.end_output())
        incoming = asyncio.ensure_future(self._pass_in(transport, reader, writer, next(self.cuts_in)))
        try:
            await self._pass_out(transport, writer, next(self.cuts_out))
        except ConnectionError:
            pass
        finally:
            incoming.cancel()
            transport.client.disconnect()
            self._writers.discard(writer)
            writer.transport.abort()
            await serving

    async def _pass_in(
        self, transport: MemoryTransport, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                self.bytes_in += len(data)
                await transport.client.write(data[:left])
                left -= len(data)
                if left <= 0:
                    writer.transport.abort()
                    break
        transport.client.end_input()

    async def _pass_out(self, transport: MemoryTransport, writer: asyncio.StreamWriter, left: int) -> None:
        while data := await transport.client.read():
            self.bytes_out += len(data)
            writer.write(data[:left])
            await writer.drain()
            left -= len(data)
            if left <= 0:
                if self.forget:
                    for live in self.host.sessions:
                        live.stream.ring.trim(0)
                break
        if left > 0:
            writer.close()
            await writer.wait_closed()


@asynccontextmanager
async def listening(host: Host) -> AsyncIterator[SocketHost]:
    """A host on a socket whose path is short enough. It is closed at the end."""
    with tempfile.TemporaryDirectory(prefix="tau-host-") as short:
        served = SocketHost(host, os.path.join(short, "s"))
        await served.listen()
        try:
            yield served
        finally:
            await served.close()
            await host.close()


@asynccontextmanager
async def socket_host(folder: Path, *answers: Any, **changes: Any) -> AsyncIterator[SocketHost]:
    """A host with a scripted model."""
    async with listening(Host(host_config(folder, *answers, **changes))) as served:
        yield served
