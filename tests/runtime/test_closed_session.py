"""A session that closes or is left acknowledges only what it keeps, and tells the client what it drops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.in_process_session import House, play
from support.rpc_process import Json
from support.schedule_player import no_lender
from tau.errors import CommandError
from tau.records import commands as c
from tau.rpc.commands import HANDLERS
from tau.runtime.extensions.hooks import Destination
from tau.runtime.protocol.requests import Request

SAYS: Json = {"text": "ok"}
HANGS: Json = {"text": "never", "hangAfter": 0}


@pytest.mark.parametrize(
    "command",
    [c.Steer("late"), c.FollowUp("late"), c.SetSessionName("late"), c.SetModel("scripted", "scripted"), c.Bash("true")],
)
def test_a_closed_session_refuses_what_it_could_not_keep(tmp_path: Path, command: c.Command) -> None:
    async def story() -> None:
        house = House(tmp_path, SAYS)
        await house.prompt("hello")
        await house.session.close()
        with pytest.raises(CommandError, match="closed"):
            await HANDLERS.call(house.handle, command, Request(type(command), "", b"", b""), no_lender)

    play(story())


@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("send_message", {"message": {"customType": "x", "content": "late", "display": True}}),
        ("append_entry", {"customType": "x", "data": 1}),
        ("set_session_name", {"name": "late"}),
    ],
)
def test_an_extension_cannot_add_to_a_closed_session(tmp_path: Path, action: str, params: Json) -> None:
    async def story() -> None:
        house = House(tmp_path, SAYS)
        await house.prompt("hello")
        await house.session.close()
        with pytest.raises(CommandError, match="closed"):
            await house.act(action, **params)

    play(story())


def test_a_closed_session_asks_no_model_for_the_summary_of_a_branch(tmp_path: Path) -> None:
    async def story() -> None:
        house = House(tmp_path, SAYS, HANGS)
        await house.prompt("one")
        session = house.session
        first = session.log.tree.fork_points()[0].entry_id
        await session.close()
        async with asyncio.timeout(5):
            with pytest.raises(CommandError, match="closed"):
                await session.navigator.navigate(Destination(first, summarize=True))

    play(story())


def test_the_client_is_told_of_a_message_that_is_queued_while_its_session_is_being_left(tmp_path: Path) -> None:
    async def story() -> list[Json]:
        house = House(tmp_path, HANGS)
        session = house.session

        async def shutdown(event: Json) -> None:
            if event["reason"] == "new":
                session.queue("steer", "late", [])
                await session.emit_queue_update()

        house.on("session_shutdown", shutdown)
        await session.input.submit("hello", [], None)
        await house.until(lambda event: event["type"] == "agent_start")
        await session.navigator.new_session(None)
        await session.close()
        return [event for event in house.heard if event["type"] == "queue_update"]

    updates = play(story())
    assert [event["steering"] for event in updates] == [["late"], []]


def test_a_message_of_an_extension_is_in_the_session_in_which_it_was_announced(tmp_path: Path) -> None:
    async def story() -> tuple[str, str]:
        house = House(tmp_path, SAYS)
        session = house.session
        await house.prompt("hello")
        left = session.log
        house.on("message_start", lambda _: session.navigator.new_session(None))
        await house.act("send_message", message={"customType": "x", "content": "late", "display": True})
        assert session.log is not left and left.path is not None
        await session.close()
        return left.path.read_text(), b"\n".join(session.log.tree.after(None)).decode()

    before, after = play(story())
    assert '"late"' in before
    assert '"late"' not in after


def test_a_switch_whose_caller_is_cancelled_is_still_announced(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], list[Json]]:
        house = House(tmp_path, SAYS)
        session = house.session
        await house.prompt("hello")
        session.queue("steer", "waits", [])
        await session.emit_queue_update()
        notes = house.notes("session_start")
        house.on("session_switch", lambda _: switch.cancel())
        switch = asyncio.ensure_future(session.navigator.new_session(None))
        await asyncio.wait([switch])
        await session.close()
        return [note["reason"] for note in notes], [e for e in house.heard if e["type"] == "queue_update"]

    started, updates = play(story())
    assert started == ["new"]
    assert [event["steering"] for event in updates] == [["waits"], []]
