"""RpcClient on a session of a host: the same calls and events as with a process, over connections that may be lost."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.socket_host import SocketHost, socket_host
from tau import AgentGone, CommandError, HostClient, RpcClient, UsageError, connect, events
from tau.events import type_of

Story = Callable[[SocketHost], Awaitable[None]]


def run(folder: Path, story: Story, *answers: Any, **changes: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), socket_host(folder, *answers, **changes) as served:
            await story(served)

    asyncio.run(main())


def texts(heard: list[events.RpcEvent]) -> str:
    return "".join(
        event.assistant_message_event.delta
        for event in heard
        if isinstance(event, events.MessageUpdate) and isinstance(event.assistant_message_event, events.TextDelta)
    )


def test_a_prompt_runs_in_a_new_session(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url) as agent:
            heard = await agent.prompt_and_wait("hi")
            kinds = [type_of(event) for event in heard]
            assert kinds[0] == "agent_start" and kinds[-1] == "agent_settled"
            assert texts(heard) == "Hello there."
            assert await agent.get_last_assistant_text() == "Hello there."
            assert (agent.pid, agent.exit_code, agent.stderr) == (None, None, "")

    run(tmp_path, story, {"text": "Hello there."})


def test_a_session_outlives_its_client_and_is_found_by_its_id(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with connect(served.url) as host:
            async with host.open(name="the one", memory=True) as agent:
                await agent.prompt_and_wait("hi")
                id = (await agent.get_state()).session_id
            [row] = await host.list(live=True)
            assert (row.id, row.name, row.live) == (id, "the one", True)
            async with host.attach(id) as again:
                assert await again.get_last_assistant_text() == "Hello there."
                assert [client.scope for client in await host.who(id)] == ["admin"]
            await host.close(id)
            assert await host.list(live=True) == []

    run(tmp_path, story, {"text": "Hello there."})


def test_a_client_gets_a_snapshot_of_the_session_when_it_starts(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}) as first:
            await first.prompt_and_wait("hi")
            id = (await first.get_state()).session_id
            second = RpcClient.connect(served.url, session=id)
            heard: list[events.RpcEvent] = []
            second.on_event(heard.append)
            async with second:
                [snapshot] = [event for event in heard if isinstance(event, events.Snapshot)]
                roles = [entry["message"]["role"] for entry in snapshot.entries if entry["type"] == "message"]
                assert roles[-2:] == ["user", "assistant"]
                assert snapshot.reason == "new"

    run(tmp_path, story, {"text": "Hello there."})


def test_two_clients_hear_the_same(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}) as first:
            id = (await first.get_state()).session_id
            async with RpcClient.connect(served.url, session=id) as second:
                heard: list[events.RpcEvent] = []
                second.on_event(heard.append)
                told = await first.prompt_and_wait("hi")
                await second.get_state()
                assert [type_of(event) for event in heard] == [type_of(event) for event in told]

    run(tmp_path, story, {"text": "Hello there."})


def test_without_reconnect_a_lost_connection_ends_the_client(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}, reconnect=False) as agent:
            stream = agent.events()
            served.cut_all()
            with pytest.raises(AgentGone, match=r"The connection to unix:.* was lost"):
                async for _ in stream:
                    pass
            with pytest.raises(AgentGone):
                await agent.get_state()

    run(tmp_path, story)


def test_commands_that_were_not_answered_are_repeated(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}) as agent:
            for _ in range(5):
                asked = [asyncio.ensure_future(agent.get_state()) for _ in range(3)]
                named = asyncio.ensure_future(agent.set_session_name("renamed"))
                await asyncio.sleep(0)  # they are written
                served.cut_all()
                await asyncio.gather(named, *asked)
            assert (await agent.get_state()).session_name == "renamed"

    run(tmp_path, story)


def test_a_host_that_is_gone_and_comes_back_is_found_again(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}) as agent:
            await served.close()
            asking = asyncio.ensure_future(agent.get_state())
            await asyncio.sleep(0.3)  # long enough for attempts that fail; nothing depends on it
            assert not asking.done()
            await served.listen()
            assert (await asking).message_count == 0

    run(tmp_path, story)


def test_a_session_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        with pytest.raises(AgentGone, match="there is no session nosuchsession"):
            await RpcClient.connect(served.url, session="nosuchsession").start()
        with pytest.raises(CommandError, match="is not below a folder"):
            await RpcClient.connect(served.url, open={"cwd": "/"}).start()

    run(tmp_path, story)


def test_a_host_that_does_not_run_is_explained(tmp_path: Path) -> None:
    with pytest.raises(AgentGone, match=r"No host listens at .* Start one with `tau serve`"):
        asyncio.run(RpcClient.connect(f"unix:{tmp_path}/none", session="12345678").start())
    with pytest.raises(AgentGone, match="Start one with `tau serve`"):
        asyncio.run(HostClient(f"unix:{tmp_path}/none").start())


def test_fields_of_a_session_are_checked_before_anything_is_sent() -> None:
    with pytest.raises(UsageError, match="A session is not opened with 'colour'"):
        RpcClient.connect("unix:", open={"colour": "red"})
    with pytest.raises(UsageError, match="but not both"):
        RpcClient.connect("unix:", open={}, session="12345678")


def test_a_dialog_without_a_handler_is_left_to_other_clients(tmp_path: Path) -> None:
    """With `--permissions ask`, every call of bash is a question."""

    async def story(served: SocketHost) -> None:
        async with RpcClient.connect(served.url, open={"memory": True}) as watcher:
            id = (await watcher.get_state()).session_id
            async with RpcClient.connect(served.url, session=id) as person:
                asked: list[str] = []

                def allow(dialog: Any) -> str:
                    asked.append(dialog.title)
                    return str(dialog.options[0])

                person.on_dialog(allow)
                heard = await watcher.prompt_and_wait("do it")
                assert asked
                [ended] = [event for event in heard if isinstance(event, events.ToolEnd)]
                assert not ended.is_error
                assert [event.outcome for event in heard if isinstance(event, events.DialogResolved)] == ["answered"]

    answers = {"blocks": [{"tool": "bash", "arguments": {"command": "echo done"}}]}, {"text": "ok"}
    run(tmp_path, story, *answers, permissions="ask", answer_timeout_s=30.0)


def test_a_session_that_is_closed_is_not_kept_by_the_key_that_opened_it(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with connect(served.url) as host:
            async with host.open(memory=True) as agent:
                id = (await agent.get_state()).session_id
                [live] = [weakref.ref(live) for live in served.host.sessions]
            await host.close(id)
            gc.collect()
            assert live() is None

    run(tmp_path, story)


def test_a_client_that_has_left_in_the_middle_of_a_run_is_gone_for_the_host(tmp_path: Path) -> None:
    async def story(served: SocketHost) -> None:
        async with connect(served.url) as host:
            async with host.open(memory=True) as agent:
                await agent.prompt("go")
                id = (await agent.get_state()).session_id
            assert await host.who(id) == []
            with pytest.raises(CommandError, match="is running"):
                await host.close(id)
            await host.close(id, abort=True)

    run(tmp_path, story, {"blocks": [{"text": ["word "] * 500}], "delayMs": 5})
