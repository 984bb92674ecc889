"""The library in a program whose event loop is not asyncio's own, such as uvloop (support/foreign_loop.py).

The last tests need uvloop itself; support/uvloop_plugin.py runs all others on it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import tau
from support.foreign_loop import run_foreign
from support.library_agent import calls, children_left, opened, says
from support.mcp_server import server_entry
from support.model_server import serving
from support.socket_host import socket_host
from tau.llm.http_connection import HttpConnection
from tau.llm.http_pool import ConnectionPool
from tau.records.messages import Text, ToolResult

FAKE = [sys.executable, str(Path(__file__).parents[1] / "rpc_client" / "fake.py")]
MODEL = {"id": "m1", "contextWindow": 200_000, "maxTokens": 8_000}
GREETING = """
def setup(pi):
    pi.register_command("greet", lambda args, ctx: ctx.ui.notify("hi"))

    @pi.on("input")
    def shout(event, ctx):
        return {"action": "transform", "text": event["text"].upper()}
"""


def run_on_uvloop(main: Coroutine[Any, Any, Any]) -> Any:
    try:
        import uvloop  # type: ignore[import-not-found]
    except ImportError:
        main.close()
        pytest.skip("needs uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


each_loop = pytest.mark.parametrize("run", [run_foreign, run_on_uvloop], ids=["foreign", "uvloop"])
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def configured(folder: Path, address: str) -> None:
    (folder / "agent").mkdir(parents=True)
    provider = {"baseUrl": address, "api": "openai-completions", "apiKey": "k", "models": [MODEL]}
    (folder / "agent" / "models.json").write_text(json.dumps({"providers": {"lab": provider}}))


@each_loop
def test_a_model_is_called_over_http(tmp_path: Path, run: Run) -> None:
    async def story() -> list[str]:
        async with opened(tmp_path, model="lab/m1", script=None) as agent:
            return [(await agent.prompt("hi")).text for _ in range(2)]

    with serving({}) as (address, asked):
        configured(tmp_path, address)
        assert run(story()) == ["Hello", "Hello"]
    assert len(asked) == 2


@each_loop
def test_a_server_that_does_not_listen_is_reported(tmp_path: Path, run: Run) -> None:
    async def story() -> str | None:
        settings = {"retry": {"enabled": False}}
        async with opened(tmp_path, model="lab/m1", script=None, settings=settings) as agent:
            return (await agent.prompt("hi")).error

    configured(tmp_path, "http://127.0.0.1:9/v1")
    error = run(story())
    assert error is not None and "cannot connect to 127.0.0.1:9" in error


@each_loop
def test_tools_commands_and_servers_run(tmp_path: Path, run: Run) -> None:
    async def double(number: int) -> int:
        return number * 2

    async def story() -> tuple[str, list[Any], str]:
        script = [
            calls("double", number=4),
            calls("bash", command="echo out"),
            calls("mcp__lab__echo", text="é"),
            says("ok"),
        ]
        async with opened(
            tmp_path,
            *script,
            tools=["bash", double],
            mcp_servers={"lab": {**server_entry(tools=["echo"]), "alwaysLoad": True}},
        ) as agent:
            result = await agent.prompt("go")
            results = [message.content[0] for message in result.messages if isinstance(message, ToolResult)]
            return result.text, results, (await agent.bash("seq 3")).output

    text, results, output = run(story())
    assert (text, results, output) == ("ok", [Text("8"), Text("out\n"), Text("é")], "1\n2\n3\n")
    assert children_left() == []


@each_loop
def test_an_extension_runs_in_its_process(tmp_path: Path, run: Run) -> None:
    extension = tmp_path / "greeting.py"
    extension.write_text(GREETING)

    async def story() -> Any:
        async with opened(tmp_path, extensions=[extension]) as agent:
            return (await agent.prompt("hello")).messages[0].content

    assert "HELLO" in str(run(story()))


@each_loop
def test_a_run_is_cancelled_and_the_agent_goes_on(tmp_path: Path, run: Run) -> None:
    async def story() -> str:
        script = [calls("bash", command="sleep 60"), says("after")]
        async with opened(tmp_path, *script) as agent:
            running = asyncio.ensure_future(_result(agent.prompt("go")))
            async for event in agent.events():
                if tau.events.type_of(event) == "tool_execution_start":
                    break
            running.cancel()
            await asyncio.wait([running])
            return (await agent.prompt("again")).text

    async def _result(run: Any) -> Any:
        return await run

    assert run(story()) == "after"
    assert children_left() == []


@each_loop
def test_an_agent_is_driven_in_its_process(run: Run) -> None:
    async def story() -> tuple[str, list[str]]:
        async with tau.RpcClient(executable=FAKE) as client:
            heard = await client.prompt_and_wait(
                '[["say", {"type": "agent_start"}], ["say", {"type": "agent_end", "messages": []}]]'
            )
            return (await client.get_state()).session_id, [tau.events.type_of(event) for event in heard]

    assert run(story()) == ("s", ["agent_start", "agent_end"])


@each_loop
def test_an_agent_that_dies_is_reported(run: Run) -> None:
    async def story() -> int | None:
        async with tau.RpcClient(executable=FAKE) as client:
            with pytest.raises(tau.AgentGone):
                await client.prompt('[["silent"], ["die"]]')
            return client.exit_code

    assert run(story()) == -signal.SIGKILL


@each_loop
def test_a_session_of_a_host_is_used(tmp_path: Path, run: Run) -> None:
    async def story() -> str:
        async with (
            socket_host(tmp_path, {"text": "from the host"}) as served,
            tau.RpcClient.connect(served.url) as client,
        ):
            await client.prompt_and_wait("hi")
            return await client.get_last_assistant_text() or ""

    assert run(story()) == "from the host"


def test_a_timer_that_is_due_can_be_waited_for_again() -> None:
    """uvloop returns a handle without `when` for such a timer."""

    async def story() -> None:
        connection = HttpConnection(set())
        connection.wait(connection.deadline_after(0.0))
        with pytest.raises(TimeoutError):
            await connection.wait(connection.deadline_after(0.0))

    run_foreign(story())


def test_addresses_are_tried_in_parallel_where_the_loop_can(tmp_path: Path) -> None:
    tried: list[Any] = []

    class Loop(asyncio.SelectorEventLoop):
        async def create_connection(self, *args: Any, **options: Any) -> Any:
            tried.append(options.get("happy_eyeballs_delay"))
            raise ConnectionRefusedError(111, "refused")

    async def story() -> None:
        with pytest.raises(ConnectionError):
            await ConnectionPool(lambda: pytest.fail("no TLS")).post("http://127.0.0.1:9/", {}, [])

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(story())
    assert tried == [0.25]
