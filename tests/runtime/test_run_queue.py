"""The queue of prompts: order, abort, and the counters that the library waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.in_process_session import House, play
from support.loop_kit import breaks, speaks, user
from support.rpc_process import Json, kinds
from support.staged_session import StagedSession
from support.virtual_clock import leapt
from tau.core.agent.draft import Draft
from tau.errors import CommandError, ModelError
from tau.records.base import replace
from tau.records.events import AgentEnd, AgentSettled
from tau.records.settings import CompatSettings

OVERLOADED = ModelError("529 overloaded", transient=True)


def aborted(session: StagedSession) -> list[bool]:
    """For each prompt that settled, whether it was aborted."""
    return [event.aborted for event in session.all(AgentSettled)]


def test_prompts_run_in_order_and_each_is_settled_once() -> None:
    session = StagedSession(speaks("one"), speaks("two"))

    async def main() -> None:
        session.start(user("first"))
        session.start(user("second"))
        assert (session.runs.accepted, session.runs.settled) == (2, 0)
        await session.runs.idle()

    leapt(main())
    assert session.names == ["agent_start", "agent_end", "agent_settled"] * 2
    assert (session.runs.accepted, session.runs.settled, session.starts) == (2, 2, 2)
    assert not session.runs.busy and session.runs.signal is None


def test_the_outcome_is_there_when_agent_settled_is_sent() -> None:
    session = StagedSession(speaks("one"))
    outcomes: list[Any] = []
    session.listeners.append(
        lambda event: outcomes.append(session.runs.outcome) if isinstance(event, AgentSettled) else None
    )

    async def main() -> None:
        session.start(user("first"))
        await session.runs.idle()

    leapt(main())
    assert [outcome.answer.text for outcome in outcomes] == ["one"]


def test_an_abort_stops_the_current_prompt_and_not_the_next() -> None:
    asked = asyncio.Event()

    async def silent(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]
        asked.set()
        await asyncio.Event().wait()

    session = StagedSession(silent, speaks("two"))

    async def main() -> None:
        session.start(user("first"))
        await asked.wait()
        session.start(user("second"))
        await session.runs.abort()
        assert aborted(session) == [True]
        await session.runs.idle()

    leapt(main())
    assert aborted(session) == [True, False]


def test_a_prompt_can_be_aborted_before_it_starts() -> None:
    session = StagedSession(speaks("never"))

    async def main() -> None:
        session.start(user("first"))
        await session.runs.abort()

    leapt(main())
    assert aborted(session) == [True]
    assert session.stage.told.asked == []


@pytest.mark.parametrize("until", ["end", "settled"])
def test_streaming_lasts_until_agent_end_or_until_the_prompt_is_settled(until: Any) -> None:
    session = StagedSession(breaks(OVERLOADED), speaks("done"))
    session.settings = replace(session.settings, compat=CompatSettings(streaming_until=until))

    async def main() -> tuple[bool, int]:
        assert not session.runs.streaming
        session.start(user("first"))
        assert session.runs.streaming
        await session.seen("auto_retry_start")
        await asyncio.sleep(0)
        while_waiting = session.runs.streaming, session.runs.retry_attempt
        await session.runs.idle()
        return while_waiting

    assert leapt(main()) == (until == "settled", 1)
    assert not session.runs.streaming and session.runs.retry_attempt == 0


def test_cancelling_a_retry_settles_the_prompt_without_an_abort() -> None:
    session = StagedSession(breaks(OVERLOADED), speaks("never"))

    async def main() -> None:
        session.start(user("first"))
        await session.seen("auto_retry_start")
        await asyncio.sleep(0)
        await session.runs.abort_retry()

    leapt(main())
    assert aborted(session) == [False]


def test_an_abort_after_agent_end_marks_the_prompt_as_aborted_until_it_is_settled() -> None:
    session = StagedSession(breaks(OVERLOADED), speaks("next"))

    async def main() -> None:
        session.start(user("first"))
        await session.seen("auto_retry_start")
        session.start(user("second"))  # accepted, because nothing streams during the wait
        await session.runs.abort()
        await session.runs.idle()

    leapt(main())
    assert aborted(session) == [True, False]
    assert session.texts[-1] == "next"


def test_an_abort_after_the_complete_answer_marks_the_prompt_as_aborted_and_leaves_the_queues_alone() -> None:
    session = StagedSession(speaks("complete"), speaks("never"))

    def abort(event: Any) -> None:
        if isinstance(event, AgentEnd):
            session.parts.queues.add("steer", user("late"))
            session.runs.stop()

    session.listeners.append(abort)

    async def main() -> None:
        session.start(user("first"))
        await session.runs.idle()

    leapt(main())
    assert aborted(session) == [True]
    assert session.texts == ["first", "complete"]
    assert session.parts.queues.texts("steer") == ["late"]


def test_a_run_that_breaks_internally_without_a_model_is_settled_and_the_next_prompt_runs() -> None:
    async def remove_model() -> None:
        session.models.current = None
        raise RuntimeError("a bug")

    session = StagedSession(before_run=remove_model)

    async def main() -> None:
        session.start(user("first"))
        session.start(user("second"))
        await session.runs.idle()

    leapt(main())
    assert session.names == ["agent_end", "agent_settled"] * 2


def test_a_run_that_cannot_even_start_is_settled() -> None:
    session = StagedSession(speaks("never"))
    session.start_error = RuntimeError("a bug")

    async def main() -> None:
        session.start(user("first"))
        await session.runs.idle()

    leapt(main())
    assert session.names == ["agent_end", "agent_settled"]
    assert not session.runs.streaming and session.runs.settled == 1


def test_a_session_that_loses_its_model_ends_the_run_with_agent_end_and_agent_settled(tmp_path: Path) -> None:
    async def story() -> list[Json]:
        house = House(tmp_path)
        house.on("before_agent_start", lambda event: setattr(house.session.models, "current", None))
        return await house.prompt("go")

    events = play(story())
    assert kinds(events)[-2:] == ["agent_end", "agent_settled"]
    assert events[-2]["messages"][0]["errorMessage"] == "Internal error: No model selected."


def test_a_manual_compaction_runs_between_two_prompts() -> None:
    session = StagedSession(speaks("one"), speaks("two"))

    async def main() -> None:
        async with session.compactor.turn:
            session.start(user("first"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert session.names == [] and session.runs.busy
        await session.runs.idle()

    leapt(main())
    assert session.names == ["agent_start", "agent_end", "agent_settled"]


def test_no_prompt_is_accepted_while_the_queue_is_blocked() -> None:
    session = StagedSession(speaks("one"))

    async def main() -> None:
        with session.runs.blocked(), pytest.raises(CommandError, match="being left"):
            session.runs.start([user("first")])
        assert session.runs.open
        session.runs.close()
        with pytest.raises(CommandError, match="being left"):
            session.runs.start([user("first")])

    leapt(main())
    assert session.runs.accepted == 0
