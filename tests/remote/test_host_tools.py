"""Tools of a client of a host, over connections that are lost: each call runs once, and its result arrives."""

from __future__ import annotations

import asyncio
import random
from itertools import chain, repeat
from pathlib import Path

from support.bridged import bridged
from support.host_process import HostProcess
from support.socket_host import UNCUT, SocketHost, socket_host
from tau import RpcClient, Text, events

CALL = {"blocks": [{"tool": "lookup", "arguments": {"id": "A"}, "id": "call_1"}]}
OK = {"text": "ok"}


def results(heard: list[events.RpcEvent]) -> list[str]:
    ends = [event for event in heard if isinstance(event, events.ToolEnd)]
    return [block.text for end in ends for block in end.result.content if isinstance(block, Text)]


def test_a_function_of_a_client_is_called_by_the_session_of_a_host(tmp_path: Path) -> None:
    async def lookup(id: str) -> str:
        """Look it up."""
        return f"{id} found"

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            socket_host(tmp_path, CALL, OK) as served,
            RpcClient.connect(served.url, tools=[lookup]) as agent,
        ):
            assert results(await agent.prompt_and_wait("go")) == ["A found"]
            await agent.set_tools([])
            assert [tool for tool in await agent.get_tools() if tool.source == "host"] == []

    asyncio.run(main())


def test_a_connection_lost_during_a_call_is_made_again_and_the_result_arrives(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(tmp_path, CALL, CALL, OK, answer_timeout_s=60) as served:
            calls = 0

            async def lookup(id: str) -> str:
                """Look it up."""
                nonlocal calls
                calls += 1
                before = served.connections
                served.cut_all()
                while served.connections == before:
                    await asyncio.sleep(0.001)
                return f"found {calls}"

            async with RpcClient.connect(served.url, tools=[lookup]) as agent:
                assert results(await agent.prompt_and_wait("go")) == ["found 1", "found 2"]

    asyncio.run(main())


async def called_once(served: SocketHost) -> int:
    """Run one call. Returns how often the function ran."""
    calls = 0

    async def lookup(id: str) -> str:
        """Look it up."""
        nonlocal calls
        calls += 1
        return "found"

    async with RpcClient.connect(served.url, open={"memory": True}, tools=[lookup]) as agent:
        assert results(await agent.prompt_and_wait("go", timeout=30)) == ["found"]
    return calls


def test_a_connection_that_is_cut_after_any_byte_runs_the_function_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(tmp_path, CALL, OK, answer_timeout_s=60) as served:
            assert await called_once(served) == 1
            whole = {"out": served.bytes_out, "in": served.bytes_in}
            for direction, size in whole.items():
                for cut in random.Random(3).sample(range(1, size), 10):
                    setattr(served, f"cuts_{direction}", chain([UNCUT, cut], repeat(UNCUT)))  # the first one opens it
                    assert await called_once(served) == 1, f"cut after {cut} bytes {direction}"
                setattr(served, f"cuts_{direction}", repeat(UNCUT))

    asyncio.run(main())


def test_the_tools_are_offered_to_a_host_that_was_killed_and_started_again(tmp_path: Path) -> None:
    calls: list[str] = []

    async def lookup(id: str) -> str:
        """Look it up."""
        calls.append(id)
        return "found"

    async def main() -> None:
        host = HostProcess(tmp_path, CALL, OK)
        async with asyncio.timeout(60), RpcClient.connect(f"unix:{host.socket_path}", tools=[lookup]) as agent:
            assert results(await agent.prompt_and_wait("go")) == ["found"]
            host.kill()
            with HostProcess(tmp_path, CALL, OK):
                assert results(await agent.prompt_and_wait("go")) == ["found"]
        assert calls == ["A", "A"]

    asyncio.run(main())


def test_a_client_of_the_bridge_answers_a_request_after_the_connection_was_lost(tmp_path: Path) -> None:
    """The client knows nothing of connections: the bridge offers its tools again."""
    tool = {"name": "lookup", "description": "Look it up.", "parameters": {"type": "object"}}

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            socket_host(tmp_path, CALL, OK, answer_timeout_s=60) as served,
            bridged(served) as client,
        ):
            await client.send(id="1", type="set_tools", tools=[tool])
            assert (await client.until("response"))["data"] == {"tools": ["lookup"]}
            await client.send(id="2", type="prompt", message="go")
            request = await client.until("tool_request")
            served.cut_all()
            await client.send(id="3", type="tool_result", requestId=request["id"], content="found")
            answered = await client.until(lambda record: record.get("id") == "3")
            assert answered["success"], answered
            await client.until("agent_settled")
            (ended,) = [record for record in client.records if record["type"] == "tool_execution_end"]
            assert ended["result"]["content"] == [{"type": "text", "text": "found"}]
            assert client.count("tool_request") == 1
            assert [record.get("id") for record in client.records if record["type"] == "response"] == ["1", "2", "3"]

    asyncio.run(main())
