"""Whatever happens to the agent, whoever waits for it is told, soon and in words, and nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.pi_releases import NAMES, Peer, Server
from support.rpc_process import is_gone
from tau import AgentGone, CommandError, RpcClient, events

FAKE = [sys.executable, str(Path(__file__).parent / "fake.py")]
WITHIN = 30


def acts(*acts: list[Any]) -> str:
    return json.dumps(acts)


def with_fake(story: Callable[[RpcClient], Awaitable[None]], **options: Any) -> RpcClient:
    async def main() -> RpcClient:
        async with asyncio.timeout(60), RpcClient(executable=FAKE, **options) as client:
            await story(client)
        return client

    return asyncio.run(main())


def reaped(client: RpcClient) -> bool:
    return client.pid is not None and not Path(f"/proc/{client.pid}").exists()


CALLS: dict[str, Callable[[RpcClient], Awaitable[Any]]] = {
    "prompt": lambda client: client.prompt("hi"),
    "prompt_and_wait": lambda client: client.prompt_and_wait("hi"),
    "prompt_events": lambda client: anext(client.prompt_events("hi")),
    "steer": lambda client: client.steer("hi"),
    "follow_up": lambda client: client.follow_up("hi"),
    "abort": lambda client: client.abort(),
    "new_session": lambda client: client.new_session(),
    "get_state": lambda client: client.get_state(),
    "get_messages": lambda client: client.get_messages(),
    "set_model": lambda client: client.set_model("tau", "demo"),
    "cycle_model": lambda client: client.cycle_model(),
    "get_available_models": lambda client: client.get_available_models(),
    "set_thinking_level": lambda client: client.set_thinking_level("high"),
    "set_steering_mode": lambda client: client.set_steering_mode("all"),
    "compact": lambda client: client.compact(),
    "bash": lambda client: client.bash("sleep 60"),
    "get_session_stats": lambda client: client.get_session_stats(),
    "export_html": lambda client: client.export_html(),
    "fork": lambda client: client.fork("x"),
    "get_commands": lambda client: client.get_commands(),
}


@pytest.mark.parametrize("peer", NAMES)
@pytest.mark.parametrize("name", CALLS)
def test_a_call_fails_when_the_agent_is_killed_during_it(name: str, peer: str, tmp_path: Path) -> None:
    async def main(client: RpcClient) -> None:
        async with asyncio.timeout(WITHIN), client:
            assert client.pid is not None
            os.kill(client.pid, signal.SIGSTOP)  # so that no answer can come before
            call = asyncio.ensure_future(CALLS[name](client))
            await asyncio.sleep(0)
            os.kill(client.pid, signal.SIGKILL)
            with pytest.raises(AgentGone, match="The agent was killed by SIGKILL") as told:
                await call
            assert told.value.exit_code == client.exit_code == -signal.SIGKILL
            assert reaped(client)
            with pytest.raises(AgentGone, match="SIGKILL"):
                await CALLS[name](client)

    with Server("Hello.") as server:
        asyncio.run(main(Peer(peer, tmp_path, server).client()))


def test_the_error_says_how_it_ended_and_what_it_complained_about() -> None:
    async def story(client: RpcClient) -> None:
        with pytest.raises(AgentGone) as told:
            await client.prompt(acts(["silent"], ["complain", "no more\nof this"], ["exit", 7]))
        assert str(told.value) == ("The agent ended with exit code 7.\nIts last lines on stderr:\n  no more\n  of this")
        assert (told.value.exit_code, told.value.stderr) == (7, "no more\nof this\n")

    with_fake(story)


def test_everybody_who_waits_is_told_of_the_death() -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events()
        waiting = [
            asyncio.ensure_future(work)
            for work in (client.bash("never answered"), client.bash("nor this"), _read(stream))
        ]
        await client.prompt(acts(["say", {"type": "agent_start"}], ["say", {"type": "last words"}], ["die"]))
        with pytest.raises(AgentGone):
            await client.wait_for_idle()
        assert [type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)] == [AgentGone] * 3

    with_fake(story)


async def _read(stream: events.RpcEvent | Any) -> None:
    kinds = []
    try:
        async for event in stream:
            kinds.append(events.type_of(event))
    finally:
        assert kinds == ["agent_start", "last words"]


def test_an_agent_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        client = RpcClient(executable=[sys.executable, "-c", "raise SystemExit('no models here')"])
        with pytest.raises(AgentGone, match=r"exit code 1(.|\n)*no models here"):
            await client.start()
        assert reaped(client)
        with pytest.raises(FileNotFoundError):
            await RpcClient(executable=tmp_path / "nothing").start()
        with pytest.raises(AgentGone, match="not started"):
            await RpcClient().get_state()

    asyncio.run(main())


def test_stop_takes_seconds_even_if_the_agent_does_not_want_to() -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events()
        await client.prompt(acts(["deaf"], ["say", {"type": "agent_start"}], ["sleep", 60]))
        assert await anext(stream) == events.AgentStart()
        before = time.monotonic()
        waiting = asyncio.ensure_future(client.wait_for_idle())
        await client.stop()
        assert time.monotonic() - before < 20
        with pytest.raises(AgentGone):
            await waiting

    client = with_fake(story)
    assert client.exit_code == -signal.SIGKILL and reaped(client)


def test_a_pipe_held_by_another_process_does_not_hide_the_exit() -> None:
    async def story(client: RpcClient) -> None:
        with pytest.raises(AgentGone, match="exit code 3"):
            await client.prompt(acts(["silent"], ["leave", 20], ["exit", 3]))

    with_fake(story)


def test_what_an_agent_left_in_its_group_is_ended_with_it(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        await client.prompt("[]")

    script = tmp_path / "wrapper"
    script.write_text(f"#!/bin/sh\nsleep 300 & echo $! > {tmp_path}/left\nexec {' '.join(FAKE)}\n")
    script.chmod(0o755)

    async def main() -> None:
        async with RpcClient(executable=script) as client:
            await story(client)

    asyncio.run(main())
    assert is_gone(int((tmp_path / "left").read_text()), within=WITHIN)


def test_a_failure_without_id_is_for_the_oldest_call() -> None:
    async def story(client: RpcClient) -> None:
        oldest = asyncio.ensure_future(client.bash("never answered"))
        await asyncio.sleep(0)
        failure = {"type": "response", "command": "parse", "success": False, "error": "Failed to parse command: no"}
        await client.prompt(acts(["say", failure]))
        with pytest.raises(CommandError, match="Failed to parse command: no"):
            await oldest
        await client.get_state()

    with_fake(story)


def test_nothing_is_lost_of_what_is_not_known() -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events()
        odd = {"type": "agent_end", "messages": [{"role": "system", "content": "x"}], "willRetry": False, "new": 1}
        await client.prompt(
            acts(["print", "not a record"], ["say", {"type": "new_thing", "a": [1]}], ["say", odd], ["exit", 0])
        )
        new, end = await anext(stream), await anext(stream)
        assert new == events.UnknownEvent("new_thing", {"type": "new_thing", "a": [1]})
        assert isinstance(end, events.AgentEnd) and isinstance(end.messages[0], events.Other)
        assert events.raw(end) == odd
        assert "not a record" in client.stderr

    with_fake(story)


def test_fields_that_are_not_known_are_in_the_raw_reply() -> None:
    async def story(client: RpcClient) -> None:
        state = await client.get_state()
        assert (state.model, state.session_file) == (None, events.UNSET)
        assert events.raw(state)["fromTheFuture"] == {"kept": True}

    with_fake(story)


def test_stderr_is_kept_but_not_without_end() -> None:
    async def story(client: RpcClient) -> None:
        with pytest.raises(AgentGone):
            await client.prompt(acts(["silent"], ["complain", "x" * 300_000], ["complain", "the end"], ["exit", 1]))
        assert len(client.stderr) == 64 * 1024 and client.stderr.endswith("the end\n")

    with_fake(story)


def test_a_command_that_is_not_answered_fails_in_time() -> None:
    async def story(client: RpcClient) -> None:
        await client.prompt(acts(["sleep", 5]))
        with pytest.raises(TimeoutError, match="did not answer get_state within 3 s"):
            await client.get_state()
        await client.abort()  # the late answer does no harm
        await client.get_state()

    with_fake(story, timeout=3)  # in which it has to start, too


def test_the_agent_waits_for_a_slow_reader(tmp_path: Path) -> None:
    count, size, limit = 1000, 20_000, 10
    progress = tmp_path / "progress"

    async def story(client: RpcClient) -> None:
        stream = client.events(limit)
        await client.prompt(acts(["repeat", count, size, str(progress)]))
        most = taken = 0
        async for event in stream:
            assert events.raw(event)["number"] == taken
            taken += 1
            most = max(most, int(progress.read_text() or 0) - taken if progress.exists() else 0)
            if taken == count:
                break
            await asyncio.sleep(0.001)
        # What a reader may be behind, what was read in one go, and what is in the pipe.
        assert most < limit + (512 * 1024) // size + 10

    with_fake(story)


def test_a_reader_that_asks_something_is_answered_however_far_it_is_behind(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        stream = client.events(limit=5)
        await client.prompt(acts(["repeat", 300, 20_000, str(tmp_path / "progress")]))
        await anext(stream)
        assert (await client.get_state()).session_id == "s"
        assert [events.raw(await anext(stream))["number"] for _ in range(299)] == list(range(1, 300))

    with_fake(story)


def test_a_discarded_event_stream_does_not_block_others(tmp_path: Path) -> None:
    async def story(client: RpcClient) -> None:
        done = asyncio.Event()
        client.on_event(lambda event: done.set() if events.raw(event).get("number") == 299 else None)
        stream = client.events(limit=5)
        await client.prompt(acts(["repeat", 300, 20_000, str(tmp_path / "progress")]))
        async for _ in stream:
            break
        del stream, _
        await done.wait()

    with_fake(story)


def test_a_handler_that_fails_is_reported_and_the_others_go_on() -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
        async with RpcClient(executable=FAKE) as client:
            client.on_event(lambda event: 1 / 0)  # type: ignore[arg-type, return-value]
            client.on_event(heard.append)
            await client.prompt(acts(["say", {"type": "agent_start"}]))
            await client.get_state()

    told: list[str] = []
    heard: list[events.RpcEvent] = []
    asyncio.run(main())
    assert (told, heard) == (["division by zero"], [events.AgentStart()])


DIALOG = {"type": "extension_ui_request", "id": "d", "method": "confirm", "title": "Sure?", "message": ""}


def test_a_dialog_before_anything_else_is_answered() -> None:
    async def main() -> list[Any]:
        client = RpcClient(executable=FAKE, env={"FAKE_FIRST": json.dumps(DIALOG)})
        heard: list[events.RpcEvent] = []
        client.on_event(heard.append)
        client.on_dialog(lambda dialog: True)
        async with client:
            while not isinstance(heard[-1], events.UnknownEvent):
                await client.get_state()
        return [events.raw(event) for event in heard]

    answer = {"type": "extension_ui_response", "id": "d", "confirmed": True}
    assert asyncio.run(main()) == [DIALOG, {"type": "answered", "by": answer}]


def test_a_dialog_whose_handler_fails_is_cancelled() -> None:
    async def main() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(str(context["exception"])))
        async with RpcClient(executable=FAKE) as client:
            client.on_dialog(lambda dialog: 1 / 0)  # type: ignore[arg-type, return-value]
            stream = client.events()
            await client.prompt(acts(["say", DIALOG]))
            await anext(stream)
            return events.raw(await anext(stream))["by"]

    told: list[str] = []
    assert asyncio.run(main()) == {"type": "extension_ui_response", "id": "d", "cancelled": True}
    assert told == ["division by zero"]


def test_a_client_can_be_started_again() -> None:
    async def main() -> None:
        client = RpcClient(executable=FAKE)
        for _ in range(2):
            async with client:
                assert (await client.get_state()).session_id == "s"
        assert client.exit_code == 0

    asyncio.run(main())
