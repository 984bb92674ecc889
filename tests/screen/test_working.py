"""While it works: the working line, retries, budgets, the queue."""

from __future__ import annotations

import pytest

from tau.records.budgets import Budget
from tau.records.deltas import TextDelta
from tau.records.events import (
    AgentSettled,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolStart,
    TurnEnd,
)
from tau.records.messages import Assistant, Usage, UsageCost
from tau.screen.cells import line_width
from tau.screen.lines import plain_text
from tau.screen.working import FRAMES, Activity, Retry, Working, queue_lines, working_line

ANSWER = Assistant([], "api", "provider", "model", Usage(output=321, cost=UsageCost(total=0.12)), "stop", 0)


def text(state: Activity, now: float, width: int = 100) -> str:
    return plain_text(working_line(state, now, width))


def test_one_token_is_not_tokens() -> None:
    shown = {count: text(Activity(since=0.0, tokens=count), 1.0) for count in (1, 2)}
    assert "1 token" in shown[1] and "1 tokens" not in shown[1] and "2 tokens" in shown[2]


def test_the_working_line_has_spinner_time_tokens_and_how_to_stop() -> None:
    working = Working()
    assert text(working.state, 0) == ""
    working.apply(AgentStart(), 100)
    working.apply(MessageStart(ANSWER), 100)
    working.apply(MessageUpdate(TextDelta(0, "x" * 5000)), 103)
    assert text(working.state, 112) == f"{FRAMES[448 % len(FRAMES)]} Working 12s · Esc stops · 1.2k tokens"
    working.apply(MessageEnd(ANSWER), 113)
    assert text(working.state, 165.5)[2:] == "Working 1m 05s · Esc stops · 321 tokens"
    working.apply(AgentSettled(), 170)
    assert text(working.state, 170) == ""


def test_the_spinner_changes_four_times_a_second_and_once_over_ssh() -> None:
    state = Activity(0.0)
    assert len({text(state, 1 + at / 100) for at in range(100)}) == 4
    assert len({plain_text(working_line(state, 1 + at / 100, 80, changes_per_s=1)) for at in range(100)}) == 1


def test_the_retry_countdown_changes_each_second() -> None:
    working = Working()
    working.apply(AgentStart(), 0)
    working.apply(AutoRetryStart(2, 3, 8000, "overloaded"), 10)
    assert text(working.state, 10)[2:] == "Try 2 of 3 in 8s: overloaded · Esc stops · Enter tries now"
    assert text(working.state, 10.5)[2:].startswith("Try 2 of 3 in 8s")
    assert text(working.state, 17.5)[2:].startswith("Try 2 of 3 in 1s")
    assert text(working.state, 30)[2:].startswith("Try 2 of 3 in 0s")
    working.apply(AutoRetryEnd(True, 2), 18)
    assert text(working.state, 18)[2:].startswith("Working 18s")


def test_compaction_is_named() -> None:
    working = Working()
    working.apply(CompactionStart("manual"), 5)
    assert text(working.state, 8)[2:] == "Summarising… 3s · Esc stops"
    working.apply(CompactionEnd("manual", None, aborted=True, will_retry=False), 9)
    assert "Summarising" not in text(working.state, 9)


def test_a_shell_command_of_the_person_counts_its_time_unless_a_run_does() -> None:
    working = Working()
    working.command_started(5)
    working.command_started(7)
    assert text(working.state, 9)[2:] == "Running 4s · Esc stops" and working.active and not working.agent_active
    working.apply(AgentStart(), 10)
    assert text(working.state, 12)[2:].startswith("Working 2s")
    working.apply(AgentSettled(), 13)
    assert text(working.state, 14)[2:].startswith("Running 9s")
    working.commands_ended()
    assert text(working.state, 15) == "" and not working.active


def test_a_compaction_outside_a_prompt_ends_the_working_line() -> None:
    working = Working()
    working.apply(CompactionStart("manual"), 5)
    working.apply(CompactionEnd("manual", None, aborted=True, will_retry=False), 9)
    assert text(working.state, 9) == ""


def test_a_model_that_is_silent_for_twenty_seconds_is_mentioned() -> None:
    working = Working()
    working.apply(AgentStart(), 0)
    working.apply(MessageStart(ANSWER), 1)
    assert "no word" not in text(working.state, 20.5)
    assert text(working.state, 26)[2:] == "Working 26s · Esc stops · no word for 25s"
    working.apply(MessageUpdate(TextDelta(0, "x")), 27)
    assert "no word" not in text(working.state, 40)
    assert "no word for 20s" in text(working.state, 47)
    working.apply(MessageEnd(ANSWER), 48)
    working.apply(ToolStart("1", "bash", {}), 48)
    assert "no word" not in text(working.state, 500)
    working.apply(TurnEnd(ANSWER, []), 500)
    assert "no word for 21s" in text(working.state, 521)


def test_budgets_are_in_the_working_line() -> None:
    working = Working(max_cost=1.0)
    working.apply(AgentStart(), 0)
    assert "$0.00 of $1.00" in text(working.state, 1)
    working.apply(MessageEnd(ANSWER), 2)
    assert "$0.12 of $1.00" in text(working.state, 3)
    working = Working(budget=Budget(max_turns=9, max_tokens=50_000, time_limit=90))
    working.apply(AgentStart(), 0)
    working.apply(MessageStart(ANSWER), 1)
    working.apply(MessageEnd(ANSWER), 2)
    assert (
        text(working.state, 12)[2:]
        == "Working 12s · Esc stops · turn 1 of 9 · 321 of 50k tokens · 12s of 1m 30s · 321 tokens"
    )
    working.apply(AgentSettled(), 13)
    working.apply(AgentStart(), 20)
    assert "turn 0 of 9" in text(working.state, 21)


def test_an_extension_may_say_what_goes_on() -> None:
    working = Working()
    working.apply(AgentStart(), 0)
    working.set_message("Thinking hard\x1b[2J")
    assert text(working.state, 2)[2:].startswith("Thinking hard\\x1b[2J 2s")


def test_narrow_screens_show_the_keys_of_a_retry_rather_than_its_reason() -> None:
    state = Activity(0.0, retry=Retry(2, 3, 8.0, "overloaded"))
    assert text(state, 0, 33)[2:] == "Try 2 of 3 in 8s · Esc stops"
    assert text(state, 0, 50)[2:] == "Try 2 of 3 in 8s · Esc stops · Enter tries now"


@pytest.mark.parametrize("width", range(1, 70))
def test_narrow_screens_drop_parts_from_the_right(width: int) -> None:
    for retry in (None, Retry(1, 3, 9.0, "日本語" * 20)):
        line = working_line(Activity(0.0, tokens=5000, budget=Budget(max_cost=1.0), retry=retry), 5, width)
        assert line_width(line) <= width


def test_plain_text_has_no_spinner() -> None:
    assert text(Activity(0.0), 5, 0) == "Working 5s · Esc stops"


def test_the_queue_is_listed_with_the_key_that_takes_it_back() -> None:
    lines = [plain_text(line) for line in queue_lines(["one\ntwo"], ["three " * 20], 30)]
    assert lines == ["Steering: one two", "Follow-up: three three three …", "Alt+Up takes them back"]
    assert queue_lines([], [], 30) == []
