"""The run of one prompt: its retries, budgets, compactions and structured output, and how it ends if it breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from support.loop_kit import assistant, breaks, call, ok, speaks, user
from support.staged_session import SETTINGS, StagedSession
from support.virtual_clock import leapt
from tau.core.agent.draft import Draft
from tau.core.agent.structured_output import TOOL_NAME, parse_output_schema
from tau.errors import ModelError
from tau.records.base import UNSET, replace
from tau.records.budgets import Budget
from tau.records.events import AgentEnd, AutoRetryEnd, AutoRetryStart, BudgetExceeded, Outcome, StructuredOutput
from tau.records.messages import Assistant, Usage
from tau.records.settings import CompactionSettings
from tau.runtime.runs.prompt_run import PromptRun

OVERLOADED = ModelError("529 overloaded", transient=True)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LS = call("ls", path=".")


async def lists(arguments: dict[str, Any], progress: Callable[[Outcome], None]) -> Outcome:
    return ok("a b")


def finished(session: StagedSession, run: PromptRun) -> float:
    """Run it on the virtual clock; returns the seconds that it took."""

    async def main() -> float:
        await run.run()
        return asyncio.get_running_loop().time()

    return leapt(main())


def run_of(session: StagedSession, **given: Any) -> PromptRun:
    run = session.prompt_run(user("go"), **given)
    finished(session, run)
    return run


def test_a_run_leaves_its_messages_in_the_outcome_and_in_the_log() -> None:
    session = StagedSession(speaks(LS), speaks("done"), tools={"ls": lists})
    run = run_of(session)
    assert [type(message).__name__ for message in run.outcome.messages] == [
        "User",
        "Assistant",
        "ToolResult",
        "Assistant",
    ]
    assert run.outcome.answer == assistant("done")
    assert list(session.log.messages) == run.outcome.messages
    assert (run.streaming, run.working) == (False, False)


# Retries.


def test_a_retry_waits_and_replaces_the_failed_answer() -> None:
    session = StagedSession(breaks(OVERLOADED, "half"), breaks(OVERLOADED), speaks("done"))
    run = session.prompt_run(user("go"))
    assert finished(session, run) == pytest.approx(1 + 2)
    assert [event.will_retry for event in session.all(AgentEnd)] == [True, True, False]
    assert [event.delay_ms for event in session.all(AutoRetryStart)] == [1000, 2000]
    assert session.all(AutoRetryEnd) == [AutoRetryEnd(True, 2)]
    assert session.texts == ["go", "done"]
    assert run.outcome.messages == [user("go"), assistant("done")]


@pytest.mark.parametrize("abort", [False, True], ids=["cancelled", "aborted"])
def test_a_retry_that_does_not_happen_keeps_the_failed_answer_in_the_outcome(abort: bool) -> None:
    session = StagedSession(breaks(OVERLOADED, "half"), speaks("never"))

    async def main() -> PromptRun:
        run = session.prompt_run(user("go"))
        task = asyncio.create_task(run.run())
        await session.seen("auto_retry_start")
        await asyncio.sleep(0)
        assert run.retries.waiting and not run.streaming and run.working
        if abort:
            run.signal.abort()
        else:
            run.retries.cancel()
        await task
        return run

    run = leapt(main())
    assert session.all(AutoRetryEnd) == [AutoRetryEnd(False, 1, "Retry cancelled")]
    assert run.outcome.messages == [user("go"), assistant("half", why="529 overloaded")]
    assert run.outcome.aborted is abort


def test_retries_that_all_fail_are_reported_once() -> None:
    session = StagedSession(*[breaks(OVERLOADED)] * 4)
    run_of(session)
    assert [event.success for event in session.all(AutoRetryEnd)] == [False]
    assert session.names[-2:] == ["agent_end", "auto_retry_end"]


# Budgets and structured output.


def test_an_exceeded_budget_is_reported_before_agent_end() -> None:
    session = StagedSession(speaks(LS), speaks("never"), tools={"ls": lists}, budget=Budget(max_turns=1))
    run = run_of(session)
    assert session.names[-2:] == ["budget_exceeded", "agent_end"]
    assert run.outcome.exceeded == BudgetExceeded("turns", 1, 1)
    assert run.outcome.aborted is False


def test_messages_stay_queued_if_the_budget_allows_no_turn() -> None:
    session = StagedSession(speaks("one"), speaks("never"), budget=Budget(max_turns=1))
    session.parts.queues.add("follow_up", user("more"))
    run_of(session)
    assert session.parts.queues.texts("follow_up") == ["more"]


def test_a_time_limit_aborts_the_run() -> None:
    async def silent(draft: Draft) -> AsyncIterator[Sequence[Any]]:
        yield [draft.begin()]
        await asyncio.Event().wait()

    session = StagedSession(silent, budget=Budget(time_limit=60))
    run = session.prompt_run(user("go"))
    assert finished(session, run) == pytest.approx(60)
    assert run.outcome.exceeded is not None and run.outcome.exceeded.limit == "time"
    assert run.outcome.aborted is False  # the user did not abort it


def test_the_result_tool_exists_only_during_the_run_that_asks_for_it() -> None:
    session = StagedSession(speaks(call(TOOL_NAME, n=5)), speaks("done"), speaks(call(TOOL_NAME, n=6)), speaks("x"))
    run = run_of(session, schema=parse_output_schema(SCHEMA))
    assert run.outcome.output == {"n": 5}
    assert session.all(StructuredOutput) == [StructuredOutput({"n": 5})]
    without = run_of(session)
    assert without.outcome.output is UNSET
    assert session.stage.extra_tools_of_runs == [[TOOL_NAME], []]


def test_a_model_that_gives_no_result_is_reminded_until_its_attempts_are_used_up() -> None:
    session = StagedSession(*[speaks("no")] * 3)
    run = run_of(session, schema=parse_output_schema(SCHEMA))
    assert run.outcome.output_error == "The model handed in no result that fits the schema (3 attempts)."
    assert session.names[-2:] == ["agent_end", "structured_output"]


def test_the_failure_of_the_model_is_the_reason_for_a_missing_result() -> None:
    session = StagedSession(breaks(ModelError("401 no key", transient=False)))
    assert run_of(session, schema=parse_output_schema(SCHEMA)).outcome.output_error == "401 no key"


# Messages that arrive late, and compactions.


def test_a_message_that_is_queued_after_the_last_look_at_the_queues_is_answered() -> None:
    session = StagedSession(speaks("one"), speaks("two"))

    def queue_late(event: Any) -> None:
        if isinstance(event, AgentEnd) and len(session.all(AgentEnd)) == 1:
            session.parts.queues.add("steer", user("late"))

    session.listeners.append(queue_late)
    run_of(session)
    assert session.texts == ["go", "one", "late", "two"]


def test_a_prompt_that_did_not_fit_is_repeated_after_a_compaction() -> None:
    settings = replace(SETTINGS, compaction=CompactionSettings(keep_recent_tokens=1))
    session = StagedSession(
        speaks("one"),
        breaks(ModelError("400 prompt is too long", transient=False)),
        speaks("two"),
        settings=settings,
        summaries=["summary"],
    )
    run_of(session)
    run = run_of(session)
    assert [name for name in session.names[2:] if name != "queue_update"] == [
        *("agent_start", "agent_end", "compaction_start", "entry_appended", "compaction_end"),
        *("agent_start", "agent_end"),
    ]
    assert run.outcome.answer == assistant("two")


# Failures inside tau.


@pytest.mark.parametrize("selected", [True, False], ids=["model", "no_model"])
def test_a_run_that_breaks_internally_ends_with_agent_end(selected: bool) -> None:
    async def break_off() -> None:
        if not selected:
            session.models.current = None
        raise RuntimeError("a bug")

    session = StagedSession(before_run=break_off)
    run = run_of(session)
    (end,) = session.all(AgentEnd)
    assert [message.error_message for message in end.messages] == ["Internal error: a bug"]
    assert (end.messages[0].model, end.messages[0].usage) == ("m-1" if selected else "unknown", Usage())
    assert run.outcome.messages == end.messages
    assert (run.streaming, run.working) == (False, False)


def test_a_model_that_disappears_before_the_call_ends_the_run() -> None:
    async def remove_model() -> None:
        session.models.current = None

    session = StagedSession(speaks("never"), before_run=remove_model)
    run = run_of(session)
    assert isinstance(run.outcome.answer, Assistant)
    assert run.outcome.answer.error_message == "Internal error: No model selected."
    assert session.names == ["agent_start", "agent_end"]
