"""Output that must not wait: a tool request is written while a large snapshot is held back to be merged."""

from __future__ import annotations

import asyncio

from tau.core.agent.draft import Draft
from tau.records.events import ToolRequest
from tau.records.models import Model
from tau.runtime.protocol.memory import MemoryTransport
from tau.runtime.protocol.outbox import Outbox
from tau.wire.unfinished import PartialJson

MODEL = Model("scripted", "scripted", "scripted", "scripted", "")


def test_a_tool_request_does_not_wait_for_a_snapshot_that_is_held_back() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        transport = MemoryTransport()
        outbox = Outbox(transport, lambda: None)
        outbox._backlog.next_update = loop.time() + 3600  # as after a very large snapshot
        draft = Draft(MODEL, 0, PartialJson)
        draft.begin()
        outbox.send(draft.open("text"))
        reading = asyncio.ensure_future(transport.client.read())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading.done()
        outbox.send_at_once(ToolRequest("r", "c", "t", {}))
        async with asyncio.timeout(30):
            return await reading

    lines = asyncio.run(main()).splitlines()
    assert [line[: line.index(b",")] for line in lines] == [b'{"type":"message_update"', b'{"type":"tool_request"']
