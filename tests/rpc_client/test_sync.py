"""The client that waits: the same surface, in any thread, with or without somebody else's event loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

import tau
from support.pi_releases import NAMES, Peer, Server
from tau import AgentGone, CommandError, events
from tau.sync import RpcClient

FAKE = [sys.executable, str(Path(__file__).parent / "fake.py")]


def public(kind: type) -> dict[str, list[str]]:
    """Names, and what the methods take."""
    return {
        name: [str(parameter).split(":")[0] for parameter in inspect.signature(member).parameters.values()]
        if callable(member)
        else []
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }


def test_both_clients_have_the_same_surface() -> None:
    assert public(RpcClient) == public(tau.RpcClient)
    assert inspect.signature(RpcClient).parameters == inspect.signature(tau.RpcClient).parameters


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation(name: str, tmp_path: Path) -> None:
    with Server("Hello.", "$ echo tool", "Done.") as server:
        peer = Peer(name, tmp_path, server)
        with tau.sync.RpcClient(**peer.options()) as client:
            told: list[events.RpcEvent] = []
            unsubscribe = client.on_event(told.append)
            heard = client.prompt_and_wait("hi")
            assert told[: len(heard)] == heard
            assert client.get_last_assistant_text() == "Hello."
            unsubscribe()
            read = list(client.prompt_events("on"))
            assert [event.tool_name for event in read if isinstance(event, events.ToolStart)] == ["bash"]
            client.prompt("and on")
            client.wait_for_idle()
            assert client.get_last_assistant_text() == "Done."
            with pytest.raises(CommandError):
                client.set_model("no", "such")
        assert client.exit_code is not None
        with pytest.raises(AgentGone):
            client.get_state()


def test_it_works_inside_a_running_loop() -> None:
    async def cell() -> str:
        with RpcClient(executable=FAKE) as client:
            return client.get_state().session_id

    assert asyncio.run(cell()) == "s"


def test_threads_may_share_it() -> None:
    with RpcClient(executable=FAKE) as client:
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(client.get_state().session_id)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["s"] * 8


def test_a_handler_may_call_the_client() -> None:
    with RpcClient(executable=FAKE) as client:
        found: list[str] = []
        client.on_event(lambda event: found.append(client.get_state().session_id))
        client.prompt('[["say", {"type": "agent_start"}], ["say", {"type": "agent_end", "messages": []}]]')
        client.wait_for_idle()
        assert found == ["s", "s"]


def test_events_come_one_by_one_and_end_with_the_client() -> None:
    with RpcClient(executable=FAKE) as client:
        stream = client.events()
        client.prompt('[["say", {"type": "one"}], ["say", {"type": "two"}]]')
        assert [events.type_of(next(stream)), events.type_of(next(stream))] == ["one", "two"]
        client.stop()
        with pytest.raises((StopIteration, AgentGone)):
            next(stream)


def test_ctrl_c_ends_the_waiting_and_not_the_client() -> None:
    with RpcClient(executable=FAKE) as client:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            client.bash("never answered")
        assert client.get_state().session_id == "s"


def test_a_dialog_may_take_its_time_and_call_the_client() -> None:
    with RpcClient(executable=FAKE) as client:
        asked: list[str] = []
        answered = threading.Event()

        def answer(dialog: object) -> str:
            asked.append(client.get_state().session_id)
            answered.set()
            return "yes"

        client.on_dialog(answer)
        request = '{"type": "extension_ui_request", "id": "d", "method": "input", "title": "?"}'
        client.prompt(f'[["say", {request}]]')
        assert answered.wait(30) and asked == ["s"]


def test_a_dialog_whose_handler_wants_to_exit_is_cancelled() -> None:
    def leave(dialog: object) -> str:
        raise SystemExit(3)

    answers: list[object] = []
    answered = threading.Event()

    def look(event: object) -> None:
        if isinstance(event, events.UnknownEvent):
            answers.append(event.raw["by"])
            answered.set()

    with RpcClient(executable=FAKE) as client:
        client.on_event(look)
        client.on_dialog(leave)
        request = '{"type": "extension_ui_request", "id": "d", "method": "input", "title": "?"}'
        client.prompt(f'[["say", {request}]]')
        assert answered.wait(30)
    assert answers == [{"type": "extension_ui_response", "id": "d", "cancelled": True}]


def test_death_is_reported() -> None:
    with RpcClient(executable=FAKE) as client:
        with pytest.raises(AgentGone, match="exit code 5"):
            client.prompt('[["silent"], ["exit", 5]]')
        with pytest.raises(AgentGone, match="exit code 5"):
            client.wait_for_idle()
            client.get_state()
