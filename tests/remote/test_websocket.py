"""Clients over WebSocket, with a real `tau serve`."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from support.served_process import HostProcess
from tau import AgentGone, RpcClient, connect, events

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.process


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_client_over_websocket_survives_the_death_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def main(host: HostProcess) -> None:
        async with asyncio.timeout(60), connect(url) as hosted, hosted.open(name="over the web") as agent:
            heard = await agent.prompt_and_wait("hi")
            assert isinstance(heard[-1], events.AgentSettled)
            assert await agent.get_last_assistant_text() == "Hello."
            await asyncio.to_thread(host.kill)
            asked = asyncio.ensure_future(agent.prompt_and_wait("again"))
            await asyncio.to_thread(host.start)
            await asked
            assert (await agent.get_state()).message_count == 4
            with pytest.raises(AgentGone, match=r"refuses the connection \(401\): check the token"):
                await RpcClient.connect(url, token="wrong")

    with HostProcess(tmp_path, {"text": "Hello."}, args=["--listen", url.removeprefix("http://")]) as host:
        monkeypatch.setenv("PI_CODING_AGENT_DIR", host.env["PI_CODING_AGENT_DIR"])
        asyncio.run(main(host))
