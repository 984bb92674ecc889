"""Everything a client can ask, asked of tau, and in the same words of real pi where TAU_PEERS names some."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.pi_releases import HOST, NAMES, Peer, Server
from support.rpc_process import Json
from tau import CommandError, RpcClient, events
from tau.events import raw, type_of
from tau.records.base import UNSET

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc00000030101"
        "00c9fe92ef0000000049454e44ae426082"
    )
).decode()

LONG = "$ echo begun; sleep 60"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def peer(name: str, folder: Path, *answers: str, settings: Json | None = None) -> Iterator[Peer]:
    with Server(*answers) as server:
        yield Peer(name, folder, server, settings)


def drive(peer: Peer, story: Callable[[RpcClient], Awaitable[None]], *args: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(100), peer.connected(*args) as client:
            await story(client)

    asyncio.run(main())


def roles(heard: list[events.RpcEvent]) -> list[str]:
    told = [raw(event)["message"] for event in heard if isinstance(event, events.MessageEnd)]
    return [message["role"] for message in told if message["role"] != "system"]


def answers(heard: list[events.RpcEvent]) -> list[str]:
    return [
        message.text
        for event in heard
        if isinstance(event, events.AgentEnd)
        for message in event.messages
        if isinstance(message, events.Assistant)
    ]


async def said(client: RpcClient) -> list[object]:
    """pi 0.86 and newer has its instructions among the messages."""
    return [message for message in await client.get_messages() if not isinstance(message, events.Other)]


async def until(stream: AsyncIterator[events.RpcEvent], kind: type) -> object:
    async for event in stream:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


def test_a_prompt_is_reported_from_its_start_to_the_end_of_all_work(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        heard = await client.prompt_and_wait("hi")
        kinds = [type_of(event) for event in heard]
        assert kinds.index("agent_start") < kinds.index("message_update") < kinds.index("agent_end")
        assert (
            "".join(
                event.assistant_message_event.delta
                for event in heard
                if isinstance(event, events.MessageUpdate)
                and isinstance(event.assistant_message_event, events.TextDelta)
            )
            == "Hello."
        )
        assert answers(heard) == ["Hello."]
        assert roles(heard) == ["user", "assistant"]
        assert not [event for event in heard if isinstance(event, events.UnknownEvent)]
        assert await client.get_last_assistant_text() == "Hello."

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


def test_a_tool_runs_and_its_events_are_typed(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        heard = await client.prompt_and_wait("do it")
        [begun] = [event for event in heard if isinstance(event, events.ToolStart)]
        [ended] = [event for event in heard if isinstance(event, events.ToolEnd)]
        assert (begun.tool_name, begun.args["command"]) == ("bash", "echo from the tool")
        assert (ended.tool_call_id, ended.is_error) == (begun.tool_call_id, False)
        assert ended.result.content == [events.Text("from the tool\n")]
        [named] = [
            event.assistant_message_event
            for event in heard
            if isinstance(event, events.MessageUpdate)
            and isinstance(event.assistant_message_event, events.ToolCallStart)
        ]
        assert named.tool_name in ("bash", "")
        assert roles(heard) == ["user", "assistant", "toolResult", "assistant"]

    with peer(name, tmp_path, "$ echo from the tool", "Done.") as one:
        drive(one, story)


def test_handlers_and_readers_hear_the_same(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        told: list[events.RpcEvent] = []
        awaited: list[events.RpcEvent] = []

        async def handler(event: events.RpcEvent) -> None:
            await asyncio.sleep(0)
            awaited.append(event)

        unsubscribe, end = client.on_event(told.append), client.on_event(handler)
        read = [event async for event in client.prompt_events("hi")]
        assert [event for event in told if type_of(event) != "response"][: len(read)] == read
        assert type_of(read[-1]) in ("agent_end", "agent_settled")
        unsubscribe()
        unsubscribe()
        before = len(told)
        await client.prompt_and_wait("again")
        assert len(told) == before
        async with asyncio.timeout(30):
            while len(awaited) < len(read):  # a coroutine is called for one event after the other
                await asyncio.sleep(0)
        end()
        assert awaited[: len(read)] == read

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


def test_steering_and_follow_ups_are_delivered(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.set_steering_mode("all")
        await client.set_follow_up_mode("all")
        state = await client.get_state()
        assert (state.steering_mode, state.follow_up_mode) == ("all", "all")
        stream = client.events()
        await client.prompt("begin")
        await until(stream, events.ToolStart)
        await client.follow_up("later")
        await client.steer("now")
        await client.prompt("and now", streaming_behavior="steer")
        assert (await client.get_state()).is_streaming
        with pytest.raises(CommandError, match=r"streamingBehavior|already"):
            await client.prompt("refused")
        (one.cwd / "go").touch()
        await stream.aclose()
        await client.wait_for_idle()
        said = [message for message in await client.get_messages() if isinstance(message, events.User)]
        assert [_text(message) for message in said] == ["begin", "now", "and now", "later"]

    with peer(name, tmp_path, "$ until [ -e go ]; do sleep 0.1; done", "Yes.", "Later, too.") as one:
        drive(one, story)


def _text(message: events.User) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block.text for block in message.content if isinstance(block, events.Text))


def test_an_aborted_run_ends_and_the_agent_is_idle(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events()
        await client.prompt("begin")
        await until(stream, events.ToolUpdate)
        with pytest.raises(TimeoutError, match="still working after"):
            await client.wait_for_idle(0.05)
        await client.abort()
        await client.wait_for_idle(20)
        assert not (await client.get_state()).is_streaming
        await until(stream, events.AgentEnd)

    with peer(name, tmp_path, LONG) as one:
        drive(one, story)


def test_idle_is_after_the_retries(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.set_auto_retry(True)
        heard = await client.prompt_and_wait("hi")
        kinds = [type_of(event) for event in heard]
        assert kinds.count("agent_end") == kinds.count("agent_start") == 3
        assert kinds.count("auto_retry_start") == 2
        assert await client.get_last_assistant_text() == "At last."

    retry = {"enabled": True, "maxRetries": 3, "baseDelayMs": 300, "provider": {"maxRetries": 0}}
    with peer(name, tmp_path, "!529", "!529", "At last.", settings={"retry": retry}) as one:
        drive(one, story)


def test_a_retry_can_be_called_off(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events()
        await client.prompt("hi")
        await until(stream, events.AutoRetryStart)
        await client.abort_retry()
        await client.wait_for_idle(30)
        await client.set_auto_retry(False)
        heard = await client.prompt_and_wait("again")
        assert not [event for event in heard if isinstance(event, events.AutoRetryStart)]

    retry = {"enabled": True, "maxRetries": 3, "baseDelayMs": 60_000, "provider": {"maxRetries": 0}}
    with peer(name, tmp_path, "!529", settings={"retry": retry}) as one:
        drive(one, story)


def test_idle_is_after_a_compaction(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.set_auto_compaction(True)
        await client.prompt_and_wait("one " * 200)
        heard = await client.prompt_and_wait("two " * 200)
        ends = (events.AutoCompactionEnd, events.CompactionEnd)
        assert [type(event) for event in heard if isinstance(event, ends)] != []
        assert not (await client.get_state()).is_compacting

    compaction = {"enabled": True, "keepRecentTokens": 1, "reserveTokens": 199_995}
    with peer(name, tmp_path, "Hello.", settings={"compaction": compaction}) as one:
        drive(one, story)


def test_a_compaction_by_hand(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.set_auto_compaction(False)
        assert not (await client.get_state()).auto_compaction_enabled
        await client.prompt_and_wait("one " * 200)
        await client.prompt_and_wait("two " * 200)
        result = await client.compact("be short")
        assert "Hello." in result.summary and result.tokens_before > 0
        assert isinstance((await said(client))[0], events.CompactionSummary)
        await client.wait_for_idle(20)
        with pytest.raises(CommandError):
            await client.compact()
        assert (await client.get_state()).is_compacting is False

    with peer(name, tmp_path, "Hello.", settings={"compaction": {"keepRecentTokens": 1}}) as one:
        drive(one, story)


def test_models_and_thinking(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        models = [model.id for model in await client.get_available_models() if model.provider == "mock"]
        assert models == ["m1", "m2"]
        assert await client.cycle_thinking_level() is None
        assert (await client.set_model("mock", "m2")).name == "Mock 2"
        await client.set_thinking_level("low")
        assert (await client.get_state()).thinking_level == "low"
        assert await client.cycle_thinking_level() == "medium"
        cycled = await client.cycle_model()
        assert cycled is not None and cycled.model.id == "m1" and cycled.is_scoped
        with pytest.raises(CommandError, match="Model not found: mock/none"):
            await client.set_model("mock", "none")

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story, "--models", "mock/m1,mock/m2")


def test_shell_commands(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        done = await client.bash("echo out; echo err >&2; exit 3")
        assert (sorted(done.output.split()), done.exit_code, done.cancelled) == (["err", "out"], 3, False)
        stopped = asyncio.ensure_future(client.bash("echo begun > begun; sleep 60"))
        while not (one.cwd / "begun").exists():
            await client.get_state()
        await client.abort_bash()
        result = await stopped
        assert (result.cancelled, result.exit_code) == (True, UNSET)

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


def test_sessions(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.set_session_name("mine")
        await client.prompt_and_wait("first")
        await client.prompt_and_wait("second")
        first = await client.get_state()
        assert (first.session_name, first.pending_message_count) == ("mine", 0)
        assert len(await said(client)) == 4
        stats = await client.get_session_stats()
        assert (stats.user_messages, stats.assistant_messages, stats.session_id) == (2, 2, first.session_id)
        page = await client.export_html(tmp_path / "work" / "page.html")
        assert Path(page) == tmp_path / "work" / "page.html" and "first" in Path(page).read_text()
        points = await client.get_fork_messages()
        assert [point.text for point in points] == ["first", "second"]
        forked = await client.fork(points[1].entry_id)
        assert (forked.text, forked.cancelled) == ("second", False)
        assert (await client.get_state()).session_id != first.session_id
        assert not (await client.new_session(str(first.session_file))).cancelled
        assert await said(client) == []
        assert await client.get_last_assistant_text() is None
        assert not (await client.switch_session(str(first.session_file))).cancelled
        assert (await client.get_state()).session_id == first.session_id
        with pytest.raises(CommandError):
            await client.fork("no such entry")
        assert (await client.get_state()).session_id == first.session_id
        with pytest.raises(CommandError):
            await client.set_session_name("")
        assert isinstance(await client.get_commands(), list)

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


def test_images_reach_the_model(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.prompt_and_wait("look", [events.Image(PIXEL, "image/png")])
        message = next(message for message in await client.get_messages() if isinstance(message, events.User))
        assert [type(block) for block in message.content] == [events.Text, events.Image]

    with peer(name, tmp_path, "A dot.") as one:
        drive(one, story)


def test_a_cancelled_caller_leaves_the_client_usable(name: str, tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        for _ in range(5):
            caller = asyncio.ensure_future(client.get_messages())
            await asyncio.sleep(0)
            caller.cancel()
        waiting = asyncio.ensure_future(client.bash("sleep 60"))
        await client.get_state()
        waiting.cancel()
        await client.abort_bash()
        assert (await client.bash("echo still here")).output == "still here\n"

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


def test_what_a_peer_does_not_know_is_refused_and_nothing_else_fails(name: str, tmp_path: Path) -> None:
    """pi 0.55.4 and 0.73.1 refuse without an id."""

    async def story(client: RpcClient) -> None:
        for _ in range(3):
            slow = asyncio.ensure_future(client.bash("sleep 0.2; echo done"))
            refused = asyncio.ensure_future(client.fork("no such entry")) if one.name > "0.6" else None
            unknown = asyncio.ensure_future(client.get_tree())
            [kept] = await asyncio.gather(slow, return_exceptions=True)
            [tree] = await asyncio.gather(unknown, return_exceptions=True)
            assert kept.output == "done\n"  # type: ignore[union-attr]
            assert isinstance(tree, CommandError) or tree.leaf_id is not None  # type: ignore[union-attr]
            if refused is not None:
                with pytest.raises(CommandError):
                    await refused

    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story)


ASKING = """
export default function (pi) {
  pi.registerCommand("ask", {
    description: "asks",
    handler: async (args, ctx) => {
      const which = await ctx.ui.select("Which?", ["a", "b"]);
      const sure = await ctx.ui.confirm("Sure?", "Really?");
      const name = await ctx.ui.input("Name?", "nobody");
      ctx.ui.notify(JSON.stringify([which, sure, name ?? null]));
    },
  });
}
"""


def test_dialogs_without_an_answer_are_cancelled(name: str, tmp_path: Path) -> None:
    if name in ("tau", HOST):
        pytest.skip("extensions of tau are not written in TypeScript")

    async def story(client: RpcClient) -> None:
        asked: list[object] = []

        async def choose(dialog: object) -> str:
            asked.append(dialog)
            return "b"

        client.on_dialog(choose, "select")
        client.on_dialog(lambda dialog: True, "confirm")
        stream = client.events()
        await client.prompt("/ask")
        while not isinstance(told := await anext(stream), events.Notify):
            pass
        assert told.message == '["b",true,null]'
        assert [type(dialog) for dialog in asked] == [events.Select]
        await client.wait_for_idle(30)

    extension = tmp_path / "ask.ts"
    extension.write_text(ASKING)
    with peer(name, tmp_path, "Hello.") as one:
        drive(one, story, "-e", str(extension))
