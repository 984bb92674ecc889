"""When is an agent idle? By what it says, whatever its version."""

from __future__ import annotations

import pytest

from tau.client.idle import AskState, IdleDetector, Verdict

QUIET = AskState(0.1)


def after(*told: str, settles: bool = False) -> Verdict:
    """The verdict after a prompt was accepted and these events were heard; "+" is willRetry."""
    idle = IdleDetector(settles)
    idle.on_prompt_accepted(0, slash=False, handled=False)
    for kind in told:
        idle.on_event(kind.removesuffix("+"), kind.endswith("+"))
    return idle.verdict


@pytest.mark.parametrize(
    "told, verdict",
    [
        ((), "busy"),
        (("agent_start",), "busy"),
        (("agent_start", "agent_end"), QUIET),
        (("agent_start", "agent_end+"), "busy"),
        (("agent_start", "agent_end", "agent_settled"), "idle"),
        (("agent_start", "agent_end", "auto_retry_start"), "busy"),
        (("agent_start", "agent_end", "auto_retry_start", "auto_retry_end"), QUIET),
        (("agent_start", "agent_end", "auto_retry_start", "agent_start", "auto_retry_end"), "busy"),
        (("agent_start", "agent_end", "auto_retry_start", "agent_start", "agent_end", "auto_retry_end"), QUIET),
        (("agent_start", "agent_end", "auto_compaction_start"), "busy"),
        (("agent_start", "agent_end", "auto_compaction_start", "auto_compaction_end"), QUIET),
        (("agent_start", "agent_end", "compaction_start", "compaction_end+"), "busy"),
        (("agent_start", "agent_end", "compaction_start", "compaction_end+", "agent_start", "agent_end"), QUIET),
        # A lone end before the run: what was found wrong with the last one.
        (("auto_compaction_end",), "busy"),
        (("agent_start", "agent_end", "agent_settled", "compaction_start"), "busy"),
        (("agent_start", "agent_end", "agent_settled", "compaction_start", "compaction_end"), "idle"),
        (("agent_start", "agent_end", "agent_settled", "queue_update"), "idle"),
    ],
)
def test_what_was_heard_and_what_it_means(told: tuple[str, ...], verdict: Verdict) -> None:
    assert after(*told) == verdict


def test_an_agent_that_settles_is_believed_only_then() -> None:
    assert after("agent_start", "agent_end", settles=True) == "busy"
    assert after("agent_start", "agent_end", "agent_settled", "agent_start", "agent_end") == "busy"


def test_before_any_prompt_it_is_idle() -> None:
    assert IdleDetector().verdict == "idle"


def test_a_prompt_that_was_handled_starts_nothing() -> None:
    idle = IdleDetector()
    idle.on_prompt_accepted(0, slash=True, handled=True)
    assert idle.verdict == "idle"


def test_a_prompt_that_may_have_been_a_command_is_asked_about() -> None:
    idle = IdleDetector()
    idle.on_prompt_accepted(0, slash=True, handled=False)
    assert idle.verdict == AskState(1.0)


def test_a_run_that_came_and_went_before_the_answer_is_not_waited_for() -> None:
    idle = IdleDetector()
    for kind in ("agent_start", "agent_end", "agent_settled"):
        idle.on_event(kind)
    idle.on_prompt_accepted(0, slash=False, handled=False)
    assert idle.verdict == "idle"


def test_a_prompt_between_the_end_and_the_settling_is_waited_for() -> None:
    idle = IdleDetector(settles=True)
    idle.on_event("agent_start")
    idle.on_event("agent_end")
    idle.on_prompt_accepted(1, slash=False, handled=False)
    idle.on_event("agent_settled")
    assert idle.verdict == "busy"
    for kind in ("agent_start", "agent_end", "agent_settled"):
        idle.on_event(kind)
    assert idle.verdict == "idle"


def test_a_refusal_that_comes_late_is_believed() -> None:
    idle = IdleDetector()
    idle.on_prompt_accepted(0, slash=False, handled=False)
    idle.on_prompt_rejected()
    assert idle.verdict == "idle"


def test_what_interrupted_a_run_may_have_ended_it() -> None:
    idle = IdleDetector(settles=True)
    idle.on_event("agent_start")
    idle.on_interrupted()
    assert idle.verdict == QUIET
