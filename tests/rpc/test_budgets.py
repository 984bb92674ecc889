"""Budgets: the work on a prompt ends at a limit, says which, and leaves what it has."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import Json, calls, endless, kinds, of, said, scripted, surroundings, texts

UNPRICED = {
    "providers": {
        "acme": {
            "baseUrl": "https://acme.example/v1",
            "api": "openai-completions",
            "apiKey": "no-secret",
            "models": [{"id": "m1"}],
        }
    }
}


def exceeded(events: list[Json]) -> Json:
    (event,) = of("budget_exceeded", events)
    return event


@pytest.mark.promise("E24")
def test_a_prompt_has_no_more_turns_than_it_may(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo one"), calls("echo two"), args=["--max-turns", "2"]) as agent:
        events = agent.prompt("go")
        assert [event["type"] for event in events][-4:] == ["turn_end", "budget_exceeded", "agent_end", "agent_settled"]
        assert exceeded(events) == {"type": "budget_exceeded", "limit": "turns", "used": 2, "allowed": 2}
        assert texts(events, "toolResult") == ["one\n", "two\n"]
        assert events[-1]["aborted"] is False


def test_every_prompt_has_the_whole_budget(tmp_path: Path) -> None:
    with Agent(
        tmp_path, calls("true"), {"text": "done"}, calls("true"), {"text": "again"}, args=["--max-turns=2"]
    ) as agent:
        for answer in ("done", "again"):
            events = agent.prompt("go")
            assert of("budget_exceeded", events) == []
            assert texts(events, "assistant")[-1] == answer


def test_tokens_are_counted_over_all_turns(tmp_path: Path) -> None:
    turn = calls("true", usage={"input": 70, "output": 30})
    with Agent(tmp_path, turn, args=["--max-tokens", "280"]) as agent:
        events = agent.prompt("go")
        assert exceeded(events)["used"] == 300
        assert len(said(events, "assistant")) == 3


def test_an_answer_that_goes_beyond_the_tokens_is_cut_and_kept(tmp_path: Path) -> None:
    with Agent(tmp_path, endless(*["four" * 10] * 50), args=["--max-tokens", "100"]) as agent:
        events = agent.prompt("go")
        (answer,) = said(events, "assistant")
        assert (exceeded(events)["limit"], answer["stopReason"]) == ("tokens", "aborted")
        assert answer["errorMessage"] == "Stopped: the limit of 100 tokens was reached."
        assert texts(events, "assistant")[0].startswith("fourfour")
        assert events[-1]["aborted"] is False


@pytest.mark.parametrize("answer", [endless("Once upon"), calls("echo begun; sleep 600")])
def test_time_ends_an_answer_or_a_tool(tmp_path: Path, answer: Json) -> None:
    with Agent(tmp_path, answer, args=["--time-limit", "1.5"]) as agent:
        events = agent.prompt("go")
        assert (exceeded(events)["limit"], exceeded(events)["allowed"]) == ("time", 1.5)
        assert kinds(events)[-3:] == ["budget_exceeded", "agent_end", "agent_settled"]
        assert agent.get("get_state")["isStreaming"] is False


def test_time_ends_the_wait_for_another_try(tmp_path: Path) -> None:
    failing = {"text": "", "error": {"message": "529 overloaded"}}
    settings = {"retry": {"baseDelayMs": 600_000}}
    with Agent(tmp_path, failing, settings=settings, args=["--time-limit", "3"]) as agent:
        events = agent.prompt("go")
        assert kinds(events)[-3:] == ["auto_retry_end", "budget_exceeded", "agent_settled"]


def test_an_abort_is_still_an_abort(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("a"), args=["--time-limit", "600"]) as agent:
        agent.ask("prompt", message="go")
        agent.until("message_update")
        agent.ask("abort")
        events = agent.settled()
        assert (of("budget_exceeded", events), events[-1]["aborted"]) == ([], True)


def test_what_waits_in_a_queue_goes_on_waiting(tmp_path: Path) -> None:
    slow = {"blocks": [{"text": ["a", "b"]}], "delayMs": 300}
    with Agent(tmp_path, slow, {"text": "more"}, args=["--max-turns", "1"]) as agent:
        # In one write, so that the second is heard while the first is worked on.
        agent.write(b'{"type":"prompt","message":"go"}\n{"type":"follow_up","message":"and then"}\n')
        events = agent.settled()
        assert exceeded(events)["limit"] == "turns"
        assert agent.get("get_state")["pendingMessageCount"] == 1


def test_a_budget_is_set_over_rpc_also_for_the_run_under_way(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("a")) as agent:
        agent.ask("prompt", message="go")
        agent.until("message_update")
        assert agent.get("set_budget", timeLimit=0.2) == {
            "maxTurns": None,
            "maxTokens": None,
            "maxCost": None,
            "timeLimit": 0.2,
            "allowUnknownCost": False,
        }
        assert exceeded(agent.settled())["limit"] == "time"
        assert agent.get("set_budget")["timeLimit"] is None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"maxTurns": 0}, "maxTurns: must be more than 0"),
        ({"maxCost": -1}, "maxCost: must be more than 0"),
        ({"maxTurns": 1.5}, "maxTurns: expected int"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(tmp_path: Path, fields: Json, error: str) -> None:
    with Agent(tmp_path) as agent:
        response = agent.ask("set_budget", **fields)
        assert (response["success"], response["error"].partition(" | ")[0]) == (False, error)


def test_a_limit_on_the_cost_of_a_model_without_price_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    with Agent(tmp_path, models=UNPRICED, offline=False, args=["--model", "acme/m1"]) as agent:
        refused = agent.ask("set_budget", maxCost=1)
        assert refused["error"].startswith("The price of acme/m1 is unknown")
        assert agent.get("set_budget", maxCost=1, allowUnknownCost=True)["maxCost"] == 1


def test_a_model_without_price_is_not_asked_when_it_comes_later(tmp_path: Path) -> None:
    with Agent(tmp_path, models=UNPRICED, args=["--max-cost", "1"]) as agent:
        agent.get("set_model", provider="acme", modelId="m1")
        response = agent.ask("prompt", message="go")
        assert response["error"].startswith("The price of acme/m1 is unknown")
        assert agent.events == []


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--max-turns", "0"], "--max-turns needs a number above 0, not '0'"),
        (["--max-turns", "two"], "--max-turns needs a number, not 'two'"),
        (["--max-tokens", "1.5"], "--max-tokens needs a whole number, not '1.5'"),
    ],
)
def test_a_flag_that_makes_no_sense_is_reported_at_once(tmp_path: Path, args: list[str], error: str) -> None:
    ended = subprocess.run(
        [*scripted(tmp_path), *args], input=b"", capture_output=True, env=surroundings(tmp_path), timeout=30
    )
    assert (ended.returncode, ended.stderr.decode()) == (2, f"Error: {error}\n")


# A model that repeats a failure.

UNKNOWN: Json = {"blocks": [{"tool": "no_such_tool", "arguments": {}, "id": "a"}]}
MALFORMED: Json = {"blocks": [{"tool": "read", "arguments": {"file": "a"}, "id": "a"}]}
FAILING: Json = {"blocks": [{"tool": "read", "arguments": {"path": "nowhere"}, "id": "a"}]}
STUCK = "Stopped: the tool calls of {} answers in a row all failed in the same way."


@pytest.mark.parametrize("answer", [UNKNOWN, MALFORMED, FAILING])
def test_eight_answers_that_fail_alike_end_the_run(tmp_path: Path, answer: Json) -> None:
    with Agent(tmp_path, answer) as agent:
        events = agent.prompt("go")
        assert exceeded(events) == {"type": "budget_exceeded", "limit": "stuck", "used": 8, "allowed": 8}
        assert kinds(events)[-4:] == ["turn_end", "budget_exceeded", "agent_end", "agent_settled"]
        *called, last = said(events, "assistant")
        assert len(called) == 8
        assert (last["stopReason"], last["errorMessage"]) == ("aborted", STUCK.format(8))
        assert events[-1]["aborted"] is False


def blocks(*calls: tuple[str, Any]) -> Json:
    return {"blocks": [{"tool": name, "arguments": given, "id": f"c{at}"} for at, (name, given) in enumerate(calls)]}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([blocks(("read", {"file": "x" * 60_000 + str(at)})) for at in range(8)], id="long, never equal"),
        pytest.param([blocks(("read", f'{{"path": "a{at}')) for at in range(8)], id="no JSON"),
        pytest.param([blocks(("no_tool", {}), ("read", {"path": "nowhere"}))], id="several calls"),
    ],
)
def test_they_may_have_several_calls_and_other_arguments_that_do_not_fit(tmp_path: Path, answers: list[Json]) -> None:
    with Agent(tmp_path, *answers) as agent:
        assert exceeded(agent.prompt("go"))["used"] == 8


def test_a_call_that_succeeds_starts_the_count_anew(tmp_path: Path) -> None:
    fine = calls("true")
    with Agent(tmp_path, *[FAILING] * 7, fine, *[FAILING] * 7, {"text": "done"}) as agent:
        events = agent.prompt("go")
        assert (of("budget_exceeded", events), texts(events, "assistant")[-1]) == ([], "done")


def test_the_number_of_such_answers_is_a_setting_and_counts_for_each_prompt(tmp_path: Path) -> None:
    answers = [UNKNOWN, UNKNOWN, {"text": "one"}, UNKNOWN, UNKNOWN, {"text": "two"}, UNKNOWN]
    with Agent(tmp_path, *answers, settings={"stuckAfter": 3}) as agent:
        for answer in ("one", "two"):
            assert texts(agent.prompt("go"), "assistant")[-1] == answer
        events = agent.prompt("go")
        assert exceeded(events)["used"] == 3
        assert said(events, "assistant")[-1]["errorMessage"] == STUCK.format(3)


def test_zero_turns_it_off(tmp_path: Path) -> None:
    with Agent(tmp_path, *[UNKNOWN] * 20, {"text": "done"}, settings={"stuckAfter": 0}) as agent:
        events = agent.prompt("go")
        assert (of("budget_exceeded", events), texts(events, "assistant")[-1]) == ([], "done")


def test_a_message_of_the_client_starts_the_count_anew(tmp_path: Path) -> None:
    with Agent(tmp_path, *[UNKNOWN] * 3, {"text": "done"}, settings={"stuckAfter": 3}) as agent:
        agent.ask("steer", message="try something else")
        agent.ask("steer", message="and this")
        events = agent.prompt("go")
        assert (of("budget_exceeded", events), texts(events, "assistant")[-1]) == ([], "done")
        assert texts(events, "user") == ["go", "try something else", "and this"]
