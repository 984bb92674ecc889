"""What waits is delivered one by one, and commands wait for every session switch that was sent before them."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.rpc_process import Json, calls, kinds, texts
from support.virtual_clock import Clock, played
from tau.core.agent.retry import Retry
from tau.records.budgets import Budget
from tau.runtime.abort import AbortSignal
from tau.runtime.runs.retry_state import RetryState

FULL = {"input": 190_000, "output": 5}


def test_messages_that_were_queued_after_a_run_are_answered_one_by_one(tmp_path: Path) -> None:
    async def story() -> list[Json]:
        answers: list[Json] = [{"text": "one", "usage": FULL}, {"text": "summary"}, {"text": "two"}, {"text": "three"}]
        house = House(tmp_path, *answers, settings={"compaction": {"keepRecentTokens": 1}})

        def queue(event: Json) -> None:
            house.session.queue("steer", "left", [])
            house.session.queue("steer", "right", [])

        house.on("session_before_compact", queue)
        return await house.prompt("go")

    heard = play(story())
    ends = [event["message"] for event in heard if event["type"] == "message_end"]
    said = ["".join(block["text"] for block in message["content"]) for message in ends]
    assert said == ["go", "one", "left", "two", "right", "three"]


def test_the_end_of_a_retry_is_reported_once_if_a_compaction_asks_again(tmp_path: Path) -> None:
    async def story() -> list[Json]:
        answers: list[Json] = [
            {"text": "one"},
            {"error": {"message": "529 overloaded"}},
            {"error": {"message": "400 prompt is too long"}},
            {"text": "summary"},
            {"text": "two"},
        ]
        house = House(tmp_path, *answers, settings={"compaction": {"keepRecentTokens": 1}, "retry": {"baseDelayMs": 1}})
        await house.prompt("first")
        return await house.prompt("second")

    heard = play(story())
    assert [event["success"] for event in heard if event["type"] == "auto_retry_end"] == [False]
    assert "compaction_end" in kinds(heard) and texts(heard, "assistant")[-1] == "two"


def test_the_success_of_a_retry_is_reported_at_the_end_of_a_run_that_a_budget_ends(tmp_path: Path) -> None:
    async def story() -> list[Json]:
        answers: list[Json] = [{"error": {"message": "529 overloaded"}}, calls("echo a"), {"text": "never"}]
        house = House(tmp_path, *answers, settings={"retrySuccess": "run", "retry": {"baseDelayMs": 1}})
        house.session.budget.set(Budget(max_turns=1))
        return await house.prompt("go")

    heard = play(story())
    assert kinds(heard)[-4:] == ["budget_exceeded", "agent_end", "auto_retry_end", "agent_settled"]
    assert heard[-2]["success"] is True


def test_a_command_waits_for_a_session_switch_that_has_not_begun_yet(tmp_path: Path) -> None:
    async def story() -> Any:
        house = House(tmp_path)
        await house.prompt("hi")  # to leave a session with a file takes a moment
        moves = house.session.navigator

        async def between_two_switches() -> bool:
            """The first switch is over, and the second has not taken the lock yet."""
            await moves.new_session(None)
            await moves.wait_until_done()
            return second.done()

        first = asyncio.create_task(between_two_switches())
        second = asyncio.create_task(moves.new_session(None))
        return await first

    assert play(story()) is True


def test_a_retry_that_is_cancelled_in_the_moment_in_which_its_wait_ends_is_not_made() -> None:
    async def main(clock: Clock) -> bool:
        retries = RetryState()
        retries.due = Retry(1, 1000, "529 overloaded")
        waiting = asyncio.create_task(retries.wait(1, AbortSignal()))
        await asyncio.sleep(0)
        clock.let_pass(2)  # as if the event loop had stood still
        await asyncio.sleep(0)
        retries.cancel()
        return await waiting

    assert played(main) is False


def test_an_abort_at_the_moment_when_a_wait_ends_is_reported() -> None:
    async def main(clock: Clock) -> bool:
        switch = AbortSignal()
        waiting = asyncio.create_task(switch.wait(1))
        await asyncio.sleep(0)
        clock.let_pass(2)
        await asyncio.sleep(0)
        switch.abort()
        return await waiting

    assert played(main) is True


def test_a_prompt_whose_run_cannot_be_prepared_is_refused_and_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def story() -> None:
        house = House(tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(house.session.runs, "_make_parts", fails)
            with pytest.raises(OSError, match="Too many open files"):
                await house.prompt("go")
        assert [*house.session.log.messages] == [] and not house.session.runs.busy
        assert texts(await house.prompt("go"), "user") == ["go"]
        assert house.session.log.message_count == 2

    play(story())
