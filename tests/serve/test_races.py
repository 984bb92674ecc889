"""Clients of a host that meet the release of a session, the end of the host, or the deadline of a question."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path
from unittest.mock import patch

import pytest

from support.served import Client, make_host
from tau.records.dialogs import Input
from tau.runtime.extensions.dialogs import dialog_id
from tau.serve import event_stream
from tau.serve.greeting import GOING_AWAY


async def test_a_session_that_is_released_at_once_can_be_attached_to(tmp_path: Path) -> None:
    host = make_host(tmp_path, idle_s=0.0)
    first = Client(host)
    await first.hello()
    session = (await first.get("open_session"))["session"]
    await first.get("prompt", message="hi", session=session)
    await first.until("agent_settled")
    await first.get("detach", session=session)
    await first.get("attach", session=session)
    assert [live.id for live in host.sessions] == [session]
    await first.get("prompt", message="again", session=session)
    await first.until("agent_settled")


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_session_that_is_opened_is_not_released_before_its_client_has_it(
    tmp_path: Path, key: str | None
) -> None:
    host = make_host(tmp_path, idle_s=0.0, max_live=1)
    client = Client(host)
    await client.hello()
    session = (await client.get("open_session", memory=True, key=key))["session"]
    assert [live.id for live in host.sessions] == [session]
    await client.get("prompt", message="hi", session=session)
    await client.until("agent_settled")


async def test_sessions_that_wait_for_their_clients_are_released_afterwards(tmp_path: Path) -> None:
    host = make_host(tmp_path, idle_s=0.0)
    client = Client(host)
    await client.hello()
    for _ in range(2):
        await client.get("open_session", key="k", attach=False)
    while host.sessions:
        await asyncio.sleep(0)


async def test_a_client_that_comes_when_the_host_has_closed_is_ended(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    early = Client(host)  # it says no hello
    await asyncio.sleep(0)
    await host.close()
    late = Client(host)
    assert await late.ended() == await early.ended() == GOING_AWAY


async def test_a_bound_channel_cannot_detach(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    free, bound = Client(host), Client(host)
    await free.hello()
    session = (await free.get("open_session"))["session"]
    await bound.hello(session=session)
    assert (await bound.ask("detach", session=session))["error"] == "detach: this channel is bound to a session"
    await free.get("detach", session=session)
    await bound.get("prompt", message="hi")
    await bound.until("agent_settled", 0)


@pytest.mark.parametrize("deadline_first", [True, False])
async def test_an_answer_at_the_deadline_is_either_used_or_not_announced(tmp_path: Path, deadline_first: bool) -> None:
    host = make_host(tmp_path, answer_timeout_s=60.0)
    client = Client(host)
    await client.hello()
    await client.get("open_session")
    (live,) = host.sessions
    question = Input(dialog_id(), "Which?", timeout=60_000)
    asking = asyncio.create_task(live.handle.dialogs.ask(question))
    await client.until("extension_ui_request")
    loop = asyncio.get_running_loop()
    live.handle.dialogs._open[question.id].timeout.reschedule(loop.time() - 1)  # in the next turn of the loop
    if deadline_first:
        loop.call_soon(live.dialogs.answer, {"id": question.id, "value": "this"}, "c1")
    else:
        live.dialogs.answer({"id": question.id, "value": "this"}, "c1")
    answer = await asking
    resolved = await client.until("extension_ui_resolved")
    assert (answer, resolved.get("by")) == ((None, None) if deadline_first else ("this", "c1"))


@pytest.mark.parametrize("bound", [False, True])
async def test_commands_for_a_session_that_was_closed_and_opened_again_go_to_the_new_one(
    tmp_path: Path, bound: bool
) -> None:
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello()
    session = (await client.get("open_session"))["session"]
    await client.get("prompt", message="one", session=session)
    await client.until("agent_settled")
    if bound:
        client.cut()
        client = Client(host)
        await client.hello(session=session)
    await client.get("close_session", session=session)
    if bound:
        assert (await client.ask("prompt", message="two"))["error"] == f"Session {session} was closed."
        return
    assert "is not attached" in (await client.ask("prompt", message="two", session=session))["error"]
    await client.get("attach", session=session)
    await client.get("prompt", message="two", session=session)
    await client.until("agent_settled")
    (live,) = host.sessions
    assert len((await client.get("get_messages", session=session))["messages"]) == 4
    assert live.stream.last > 0


async def test_a_session_is_not_closed_while_another_client_is_about_to_be_attached(tmp_path: Path) -> None:
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello()
    session = (await client.get("open_session"))["session"]
    (live,) = host.sessions
    host._live._hold(live, 1)
    refused = await client.ask("close_session", session=session)
    assert refused["error"] == f"Session {session} has other clients."
    host._live._hold(live, -1)
    await client.get("close_session", session=session)
    assert host.sessions == []


@pytest.mark.parametrize("then", ["attach", "detach"])
async def test_a_command_is_answered_when_its_client_moves_and_its_input_ends(tmp_path: Path, then: str) -> None:
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello()
    session = (await client.get("open_session"))["session"]
    go = tmp_path / "work" / "go"
    id = await client.send("bash", command=f"until test -e {go}; do sleep 0.02; done; echo done", session=session)
    await client.get(then, session=session)
    client.transport.client.end_input()
    for _ in range(10):
        await asyncio.sleep(0)
    go.touch()
    await client.ended()
    assert [one["data"]["output"] for one in client.records if one.get("id") == id] == ["done\n"]


async def test_an_event_that_nothing_waits_for_leaves_no_wait_behind(tmp_path: Path) -> None:
    """The end of a question is announced while a client with `flow: wait` is behind."""
    host = make_host(tmp_path)
    client = Client(host)
    await client.hello(flow="wait")
    await client.get("open_session")
    (live,) = host.sessions
    with patch.object(event_stream, "MAX_LAG_BYTES", 0), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        await live.handle.dialogs.ask(Input(dialog_id(), "Which?", timeout=1))
        live._moved("new")
        gc.collect()
    assert [str(one.message) for one in found if "never awaited" in str(one.message)] == []
    await client.until("session_changed", 0)
