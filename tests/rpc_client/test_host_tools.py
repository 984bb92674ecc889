"""Functions of the client's program as tools: offered with `tools=` or `set_tools`, run and answered by the client."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tau
import tau.sync
from support.rpc_process import Json, scripted, surroundings
from tau import CallContext, CommandError, Outcome, RpcClient, Text, Tool, ToolContext, ToolError, UsageError, events
from tau.records.base import UNSET

FAKE = [sys.executable, str(Path(__file__).parent / "fake.py")]
OK: Json = {"text": "ok"}


def call(name: str, **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments, "id": "call_1"}]}


def options(folder: Path, *answers: Json) -> dict[str, Any]:
    env = surroundings(folder)
    return {"cwd": folder / "work", "env": env, "args": scripted(folder, *answers)[-4:]}


def results(heard: Sequence[events.RpcEvent]) -> list[tuple[str, bool, Any]]:
    """Text, whether it is an error, and details of each tool call."""
    return [
        (
            "".join(block.text for block in event.result.content if isinstance(block, Text)),
            event.is_error,
            event.result.details,
        )
        for event in heard
        if isinstance(event, events.ToolEnd)
    ]


def drive(
    folder: Path, answers: Sequence[Json], story: Callable[[RpcClient], Awaitable[None]], tools: Sequence[Any] = ()
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), RpcClient(**options(folder, *answers), tools=tools) as client:
            await story(client)

    asyncio.run(main())


def lookup(id: str, context: CallContext) -> str:
    """Look a ticket up.

    Args:
        id: its number
    """
    context.progress("Asking.")
    return f"{id} is open, says {threading.current_thread().name}"


async def raising() -> str:
    """Fail."""
    raise ValueError("no such thing")


def refusing() -> str:
    """Fail with a reason for the model."""
    raise ToolError("Not today.")


async def reply(arguments: dict[str, Any], context: ToolContext) -> Outcome:
    return Outcome([Text("replied")], {"given": arguments})


PLAIN = Tool("reply", "Reply.", "Replies", {"type": "object", "properties": {"a": {"type": "integer"}}}, reply)


def test_functions_and_tools_run_in_the_client_and_their_results_reach_the_model(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        listed = {tool.name: tool.source for tool in await client.get_tools()}
        assert {name: source for name, source in listed.items() if source == "host"} == dict.fromkeys(
            ("lookup", "reply", "raising", "refusing"), "host"
        )
        client_loop: list[Json] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: client_loop.append(context))
        heard = await client.prompt_and_wait("go")
        assert results(heard) == [
            ("A-1 is open, says tau lookup", False, UNSET),
            ("replied", False, {"given": {"a": 1}}),
            ("ValueError: no such thing", True, {}),
            ("Not today.", True, {}),
        ]
        updates = [event for event in heard if isinstance(event, events.ToolUpdate)]
        assert [update.partial_result.content for update in updates] == [[Text("Asking.")]]
        assert [context["message"] for context in client_loop] == ["The tool raising failed"]

    answers = [call("lookup", id="A-1"), call("reply", a="1"), call("raising"), call("refusing"), OK]
    drive(tmp_path, answers, story, [lookup, PLAIN, raising, refusing])


async def stuck() -> str:
    """Await something that is cancelled."""
    other = asyncio.get_running_loop().create_future()
    other.cancel()
    return str(await other)


async def stuck_tool(arguments: dict[str, Any], context: ToolContext) -> Outcome:
    return Outcome([Text(await stuck())])


@pytest.mark.parametrize("offered", [stuck, Tool("stuck", "Stuck.", "", {"type": "object"}, stuck_tool)])
def test_a_tool_that_ends_cancelled_by_itself_is_answered(tmp_path: Path, offered: Any) -> None:
    async def story(client: RpcClient) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        heard = await client.prompt_and_wait("go")
        assert results(heard) == [("RuntimeError: Something that it awaited was cancelled.", True, {})]

    drive(tmp_path, [call("stuck"), OK], story, [offered])


def test_set_tools_replaces_the_tools_also_from_within_a_call(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        async def second() -> str:
            """The second."""
            return "second"

        async def first() -> str:
            """The first."""
            await client.set_tools([second])
            return "first"

        await client.set_tools([first])
        heard = await client.prompt_and_wait("go")
        assert [text for text, _, _ in results(heard)] == ["first", "second", "Tool first not found"]
        with pytest.raises(CommandError, match=r"tools\[0\]\.name: bash is a built-in tool"):
            await client.set_tools([tau.tool(name="bash")(second)])
        assert [tool.name for tool in await client.get_tools() if tool.source == "host"] == ["second"]

    drive(tmp_path, [call("first"), call("second"), call("first"), OK], story)


def test_a_function_that_cannot_be_a_tool_is_refused_at_once(tmp_path: Path) -> None:
    def wrong(x) -> str:  # type: ignore[no-untyped-def]
        return str(x)

    with pytest.raises(UsageError, match="wrong cannot be a tool: parameter x has no annotation"):
        RpcClient(tools=[wrong])
    with pytest.raises(UsageError, match="expected functions"):
        RpcClient(tools=[1])  # type: ignore[list-item]


def test_an_abort_cancels_the_function(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def wait() -> str:
            """Wait."""
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            return "late"

        await client.set_tools([wait])
        await client.prompt("go")
        await begun.wait()
        await client.abort()
        await ended.wait()
        await client.wait_for_idle()

    drive(tmp_path, [call("wait"), OK], story)


def test_an_agent_that_is_started_again_gets_the_tools_again(tmp_path: Path) -> None:
    async def main() -> None:
        client = RpcClient(**options(tmp_path, call("lookup", id="1"), OK), tools=[lookup])
        for _ in range(2):
            async with asyncio.timeout(60), client:
                assert len(results(await client.prompt_and_wait("go"))) == 1

    asyncio.run(main())


def test_a_pi_refuses_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), RpcClient(**options(tmp_path), dialect="2026-01") as client:
            with pytest.raises(CommandError, match="Unknown command: set_tools"):
                await client.set_tools([lookup])

    asyncio.run(main())


def test_the_synchronous_client_runs_them_in_threads(tmp_path: Path) -> None:
    threads: list[str] = []

    def state() -> str:
        """Ask the client itself."""
        threads.append(threading.current_thread().name)
        return json.dumps(client.get_state().is_streaming)

    with tau.sync.RpcClient(**options(tmp_path, call("state"), OK), tools=[state]) as client:
        heard = client.prompt_and_wait("go")
        assert [text for text, _, _ in results(heard)] == ["true"]
        assert threads == ["tau state"]
        client.set_tools([])
        assert [tool.name for tool in client.get_tools() if tool.source == "host"] == []
