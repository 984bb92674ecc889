"""Messages of a client that are as long as the host takes, and longer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from serve.web_server import Server, serving
from tau import CommandError, RpcClient
from tau.client.remote import RemoteLine
from tau.client.unanswered import Unanswered
from tau.records.base import parse
from tau.wire.lines import MAX_LINE_BYTES

WITHIN = 60.0  # seconds; only a failure takes them all


async def test_a_message_that_the_host_does_not_take_fails_and_the_connection_stays(tmp_path: Path) -> None:
    async with asyncio.timeout(WITHIN), serving(tmp_path) as server, connected(server) as agent:
        changes: list[bool] = []
        line = line_of(agent)
        line.on_change = changes.append
        with pytest.raises(CommandError, match=f"the line is longer than {MAX_LINE_BYTES} bytes"):
            await agent.prompt("x" * (MAX_LINE_BYTES + 2_000_000))
        assert (await agent.get_state()).message_count == 0
        assert (changes, line.unanswered) == ([], 0)


async def test_messages_that_are_too_long_together_are_repeated_one_by_one(tmp_path: Path) -> None:
    async with asyncio.timeout(WITHIN), serving(tmp_path) as server, connected(server) as agent:
        names = [asyncio.ensure_future(agent.set_session_name(letter * 18_000_000)) for letter in "ab"]
        await asyncio.sleep(0)  # they are written
        for connection in [*server.listener.connections._proved]:
            connection.abort()
        await asyncio.gather(*names)


def test_what_is_longer_than_a_new_host_takes_is_answered_and_not_repeated() -> None:
    unanswered = Unanswered("k")
    fits = unanswered.add(b'{"id":1,"type":"get_state"}')
    unanswered.add(b'{"id":2,"type":"get_state","more":1}')
    unanswered.add(b'{"type":"extension_ui_response","id":"d","value":1}')
    refused = unanswered.refuse_longer(len(fits) - 1)
    assert [parse(line) for line in refused] == [failure("parse"), failure("get_state", id=2)]
    assert b"".join(unanswered.to_repeat()) == fits


def failure(command: str, **id: Any) -> dict[str, Any]:
    error = "Failed to parse command: the line is longer than 27 bytes"
    return {**id, "type": "response", "command": command, "success": False, "error": error}


def connected(server: Server) -> RpcClient:
    return RpcClient.connect(f"http://127.0.0.1:{server.port}", token=server.token, open={"memory": True})


def line_of(agent: RpcClient) -> RemoteLine:
    line = agent._require_connection().line
    assert isinstance(line, RemoteLine)
    return line
