"""A client on pipes, or rather in memory, that reaches a session of a host through the bridge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from support.socket_host import SocketHost
from tau.client.opening import Target
from tau.rpc.bridge import Bridge
from tau.runtime.protocol.memory import MemoryTransport
from tau.wire import dialects

Json = dict[str, Any]


class BridgedClient:
    def __init__(self, served: SocketHost, dialect: str = "default", **target: Any) -> None:
        fields = {"session": None, "open": {"memory": True}, **target}
        if fields["session"]:
            fields["open"] = None
        self.transport = MemoryTransport()
        self.bridge = Bridge(
            self.transport, Target(served.address, dialect=dialects.find(dialect), **fields), lambda: None
        )
        self.records: list[Json] = []
        self.lines: list[bytes] = []
        self._rest = b""
        self.running: asyncio.Task[None]

    async def send(self, **fields: Any) -> None:
        await self.transport.client.write(json.dumps(fields).encode() + b"\n")

    async def until(self, wanted: str | Callable[[Json], bool], after: int = 0) -> Json:
        """The first record after those that is wanted."""
        accepts = (lambda record: record["type"] == wanted) if isinstance(wanted, str) else wanted
        at = after
        while True:
            for record in self.records[at:]:
                if accepts(record):
                    return record
            at = len(self.records)
            data = await self.transport.client.read()
            assert data, f"the bridge ended; heard {self.records[-3:]}"
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.lines += lines
            self.records += [json.loads(line) for line in lines]

    def count(self, kind: str) -> int:
        return sum(record["type"] == kind for record in self.records)


@asynccontextmanager
async def bridged(served: SocketHost, dialect: str = "default", **target: Any) -> AsyncIterator[BridgedClient]:
    client = BridgedClient(served, dialect, **target)
    await client.bridge.start()
    client.running = asyncio.ensure_future(client.bridge.run())
    try:
        yield client
    finally:
        client.transport.client.end_input()
        await client.running
