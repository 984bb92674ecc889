"""`pi --mode rpc --connect`: an unmodified client of pi on a session of a host."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from support.bridged import BridgedClient, bridged
from support.rpc_memory import Agent
from support.socket_host import UNCUT, SocketHost, socket_host
from tau.wire import dialects

TURN = {"blocks": [{"text": ["one ", "two"]}, {"tool": "bash", "arguments": {"command": "echo hi"}}]}
DONE = {"blocks": [{"thinking": ["let ", "me"]}, {"text": ["it ", "is ", "done"]}]}
WORDS = [f" w{number}" for number in range(200)]
Story = Callable[[SocketHost], Awaitable[None]]


def run(folder: Path, story: Story, *answers: Any, **changes: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(folder, *answers, **changes) as served:
            await story(served)

    asyncio.run(main())


def same(records: list[Any], folder: Path) -> list[str]:
    """Lines without what differs between two runs: times, random ids, folders, and how pieces were merged."""
    whole = [record for record in records if not is_piece(record)]
    text = "\n".join(json.dumps(record, separators=(",", ":")) for record in whole).replace(str(folder), "")
    text = re.sub(r'"(timestamp|durationMs)":\d+', r'"\1":0', text)
    text = re.sub(r'"(sessionId|sessionFile|entryId|leafId)":"[^"]*"', r'"\1":""', text)
    return text.splitlines()


def is_piece(record: Any) -> bool:
    if record["type"] == "message_update":
        return str(record["assistantMessageEvent"]["type"]).endswith("_delta")
    return bool(record["type"] in ("tool_execution_update", "bash_execution_update"))


COMMANDS: list[Any] = [
    {"id": "1", "type": "prompt", "message": "do it"},
    {"id": "2", "type": "get_last_assistant_text"},
    {"type": "set_session_name", "name": "named"},
    {"id": 3, "type": "nonsense"},
    {"id": {"any": ["value"]}, "type": "steer", "message": 5},
    {"id": "4", "type": "bash", "command": "echo out"},
    {"id": "5", "type": "get_messages"},
]


@pytest.mark.parametrize("dialect", [name for name in dialects.NAMES if dialects.find(name).responses])
def test_a_client_hears_byte_for_byte_what_it_hears_on_a_pipe(dialect: str, tmp_path: Path) -> None:
    settled = "agent_settled" if dialect in ("default", "1.5") else "agent_end"
    alone = Agent(tmp_path / "pipe", TURN, DONE, args=["--dialect", dialect, "--no-session"])
    with alone:
        for number, command in enumerate(COMMANDS):
            alone.write(json.dumps(command).encode() + b"\n")
            alone.next_response(after=number)
            if command["type"] == "prompt":
                alone.until(settled)
        expected = same(alone.records, tmp_path / "pipe")

    async def story(served: SocketHost) -> None:
        async with bridged(served, dialect) as client:
            for command in COMMANDS:
                at = len(client.records)
                await client.send(**command)
                await client.until(settled if command["type"] == "prompt" else "response", at)
            assert same(client.records, tmp_path / "bridge") == expected

    run(tmp_path / "bridge", story, TURN, DONE, dialect=dialect)


def test_nothing_is_said_before_the_first_command(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with bridged(served) as client:
            await client.send(id="first", type="get_state")
            assert (await client.until(lambda record: True))["id"] == "first"

    run(tmp_path, story)


def roles(client: BridgedClient, kind: str) -> list[str]:
    found = [record["message"]["role"] for record in client.records if record["type"] == kind]
    return [role for role in found if role != "system"]


def check_story(client: BridgedClient) -> None:
    """What a client has to hear of one prompt, however often the connection was lost."""
    for kind in ("agent_start", "agent_end", "agent_settled"):
        assert client.count(kind) == 1, kind
    assert client.count("turn_start") == client.count("turn_end") == 2
    assert roles(client, "message_end") == ["user", "assistant", "toolResult", "assistant"]
    assert roles(client, "message_start") == roles(client, "message_end")
    text = ""
    for record in client.records:
        if record["type"] == "message_start":
            text = ""
        elif record["type"] == "message_update" and record["assistantMessageEvent"]["type"] == "text_delta":
            text += record["assistantMessageEvent"]["delta"]
        elif record["type"] == "message_end" and record["message"]["role"] == "assistant":
            said = [block["text"] for block in record["message"]["content"] if block["type"] == "text"]
            assert text in ("", "".join(said))  # none, if the whole message was missed


@pytest.mark.parametrize("dialect", ["default", "1.5"])
def test_what_was_missed_is_told_as_events(dialect: str, tmp_path: Path) -> None:
    """The host cannot resume, wherever the connection is cut."""
    turn = {"blocks": [{"text": ["one ", "two "] * 5}, {"tool": "bash", "arguments": {"command": "echo hi"}}]}

    async def story(served: SocketHost) -> None:
        for cut in range(4500, 16000, 450):
            served.cuts_out, served.forget = chain([UNCUT, cut], repeat(UNCUT)), True
            async with bridged(served, dialect) as client:
                await client.send(id="p", type="prompt", message="do it")
                await client.until("agent_settled")
                await client.send(id="s", type="get_state")
                await client.until(lambda record: record.get("id") == "s")
                check_story(client)

    run(tmp_path, story, turn, DONE)


@pytest.mark.promise("N17")
def test_the_end_of_the_input_detaches_and_the_run_goes_on(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with bridged(served) as client:
            await client.send(id="p", type="prompt", message="do it")
            await client.until("agent_start")
        [live] = served.host.sessions
        assert client.count("agent_settled") == 0
        await live.handle.settled()
        assert live.handle.last_assistant_text() == "".join(WORDS).strip()

    run(tmp_path, story, {"blocks": [{"text": WORDS}], "delayMs": 1})


def test_the_run_is_aborted_at_the_end_if_that_is_asked_for(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with bridged(served, abort_at_end=True) as client:
            await client.send(id="p", type="prompt", message="do it")
            await client.until("agent_start")
        [live] = served.host.sessions
        await live.handle.settled()
        assert live.handle.last_assistant_text() != "".join(WORDS).strip()
        assert all(record.get("id") != "tau-bridge" for record in client.records)

    run(tmp_path, story, {"blocks": [{"text": WORDS}], "delayMs": 20})
