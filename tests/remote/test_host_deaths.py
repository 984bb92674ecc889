"""The host is killed while clients use it: what was acknowledged is there, nothing is carried out twice."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.served_process import HostProcess
from tau import RpcClient, events, sync

WORDS = [f"w{number} " for number in range(60)]
SLOW = {"blocks": [{"text": WORDS}], "delayMs": 5}
pytestmark = pytest.mark.process


def prompts(state: Any) -> list[str]:
    """The user messages in a session file."""
    entries = [json.loads(line) for line in Path(state.session_file).read_text().splitlines()]
    messages = [entry["message"] for entry in entries if entry["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


@pytest.mark.promise("N09")
def test_prompts_are_repeated_after_kill_9_and_carried_out_once(tmp_path: Path) -> None:
    async def main(host: HostProcess) -> None:
        async with asyncio.timeout(60), RpcClient.connect(host.url) as agent:
            heard: list[events.RpcEvent] = []
            agent.on_event(heard.append)
            for number in range(2):
                asked = asyncio.ensure_future(agent.prompt_and_wait(f"prompt {number}"))
                async for event in agent.events():
                    if isinstance(event, events.MessageUpdate):
                        break
                await asyncio.to_thread(host.kill)
                late = asyncio.ensure_future(agent.prompt_and_wait(f"late {number}", streaming_behavior="followUp"))
                await asyncio.to_thread(host.start)
                await asyncio.gather(asked, late)
            sent = [text for number in range(2) for text in (f"prompt {number}", f"late {number}")]
            assert prompts(await agent.get_state()) == sent
            snapshots = [event for event in heard if isinstance(event, events.Snapshot) and event.reason == "stream"]
            assert len(snapshots) == 2

    with HostProcess(tmp_path, SLOW) as host:
        asyncio.run(main(host))


def test_an_unmodified_client_hears_one_settled_after_kill_9(tmp_path: Path) -> None:
    """The bridge is a real process on pipes."""
    argv = [sys.executable, "-P", "-m", "tau", "--mode", "rpc", "--connect", "unix:", "--open"]
    with (
        HostProcess(tmp_path, SLOW) as host,
        subprocess.Popen(
            argv, env={**os.environ, **host.env}, cwd=host.cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as bridge,
    ):
        assert bridge.stdin is not None and bridge.stdout is not None
        bridge.stdin.write(b'{"id":"1","type":"prompt","message":"go"}\n')
        bridge.stdin.flush()
        kinds: list[str] = []
        killed = False
        for line in bridge.stdout:
            record = json.loads(line)
            kinds.append(record["type"])
            if record["type"] == "message_update" and not killed:
                killed = True
                host.kill()
                host.start()
            if record["type"] == "agent_settled":
                assert record["aborted"] is True
                bridge.stdin.close()  # detaches
        assert bridge.wait(30) == 0
        assert [kind for kind in kinds if kind in ("agent_start", "agent_end", "agent_settled")] == [
            *("agent_start", "agent_end", "agent_settled")
        ]


def test_the_blocking_clients_do_the_same(tmp_path: Path) -> None:
    with HostProcess(tmp_path, {"text": "Hello."}) as host, sync.connect(host.url) as hosted:
        with hosted.open(name="one") as agent:
            heard = agent.prompt_and_wait("hi")
            assert isinstance(heard[-1], events.AgentSettled)
            id = agent.get_state().session_id
            assert [row.client for row in hosted.who(id)]
        assert [row.name for row in hosted.list()] == ["one"]
        watch = hosted.watch()
        with hosted.attach(id) as again:
            assert again.get_last_assistant_text() == "Hello."
            host.kill()
            host.start()
            again.prompt_and_wait("again")
            assert len(prompts(again.get_state())) == 2
            status = next(event for event in watch if isinstance(event, events.SessionStatus | events.SessionOpened))
            assert status.session == id
        hosted.close(id)
        assert hosted.info.scope == "admin"
