"""Compactions beside other things that happen: a run, an abort, a signal."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.abort_scenes import begin_streaming, seconds_to_abort
from support.rpc_agent import Agent
from support.rpc_process import Json, endless, kinds, of, quick, said, text

LONG = "so many words " * 200
FAILED = "Compaction failed: Summarization failed: 400 no"
SETTINGS: Json = {"compaction": {"keepRecentTokens": 1, "enabled": False}}


@contextmanager
def talking(folder: Path, *answers: Json) -> Iterator[Agent]:
    """An agent that has something to compact, and will answer like this from then on."""
    with Agent(folder, {"text": LONG}, {"text": LONG}, *answers, settings=SETTINGS) as agent:
        agent.prompt(LONG)
        agent.prompt(LONG)
        yield agent


def begin_compacting(agent: Agent) -> str:
    compacting = agent.send("compact")
    while not agent.get("get_state")["isCompacting"]:
        pass
    return compacting


def entries(agent: Agent) -> list[Json]:
    file = Path(agent.get("get_state")["sessionFile"])
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.promise("B02")
def test_a_compaction_during_a_run_ends_it_and_its_half_answer_is_kept(tmp_path: Path) -> None:
    with talking(tmp_path, endless("half ", "an answer"), {"text": "a summary"}, {"text": "on"}) as agent:
        begin_streaming(agent)
        compacted = agent.get("compact")
        agent.settled()
        events = agent.events
        (ended,) = [one for one in said(events, "assistant") if one["stopReason"] == "aborted"]
        assert "half an answer".startswith(text(ended)) and text(ended)
        assert compacted["summary"].startswith("a summary")
        assert kinds(events).count("agent_end") == kinds(events).count("agent_start") == 3
        assert len(of("agent_settled", events)) == 3

        kept = entries(agent)
        messages = [entry["message"] for entry in kept if entry["type"] == "message"]
        assert [message["stopReason"] for message in messages if message["role"] == "assistant"][-1] == "aborted"
        assert [entry["type"] for entry in kept].count("compaction") == 1
        assert [text(one) for one in said(agent.prompt("go on"), "assistant")] == ["on"]


@pytest.mark.parametrize(
    ("answer", "aborts", "end"),
    [
        ({"text": "a summary"}, False, {"aborted": False}),
        ({"error": {"message": "400 no"}}, False, {"aborted": False, "errorMessage": FAILED}),
        (endless("a summary that"), True, {"aborted": True}),
    ],
    ids=["done", "failed", "aborted"],
)
def test_every_compaction_that_a_client_requests_has_a_start_and_an_end(
    tmp_path: Path, answer: Json, aborts: bool, end: Json
) -> None:
    with talking(tmp_path, answer) as agent:
        sent = begin_compacting(agent) if aborts else agent.send("compact")
        if aborts:
            agent.ask("abort")
        response = agent.response(sent)
        told = [event for event in agent.events if "compaction" in event["type"]]
        assert told[0] == {"type": "compaction_start", "reason": "manual"}
        (ended,) = told[1:]
        result = response.get("data")
        assert ended == {"type": "compaction_end", "reason": "manual", "result": result, "willRetry": False, **end}


@pytest.mark.promise("B18")
def test_an_abort_during_a_compaction_is_answered_within_a_second_and_nothing_is_compacted(tmp_path: Path) -> None:
    with talking(tmp_path, endless("a summary that")) as agent:
        before = agent.get("get_messages")

        def measure() -> float:
            compacting = begin_compacting(agent)
            taken = seconds_to_abort(agent)
            assert agent.response(compacting)["error"] == "Compaction cancelled"
            return taken

        quick(measure, 1.0)
        assert agent.get("get_messages") == before
        assert "compaction" not in [entry["type"] for entry in entries(agent)]


@pytest.mark.promise("B18")
def test_a_signal_during_a_compaction_ends_the_program_and_the_session_is_what_it_was(tmp_path: Path) -> None:
    with talking(tmp_path, endless("a summary that")) as agent:
        before = entries(agent)
        file = agent.get("get_state")["sessionFile"]
        begin_compacting(agent)
        agent.signal(signal.SIGTERM)
        assert agent.exit_code(within=10) == 143
    assert [json.loads(line) for line in Path(file).read_text().splitlines()] == before


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("command", ["steer", "follow_up"])
def test_messages_that_wait_while_idle_wait_through_a_compaction_for_the_next_prompt(
    tmp_path: Path, command: str, refused: bool
) -> None:
    summary = {"error": {"message": "400 no"}} if refused else {"text": "a summary"}
    with talking(tmp_path, {**summary, "startDelayMs": 500}, {"text": "next"}) as agent:
        agent.get(command, message="before")
        begun = len(of("agent_start", agent.events))
        compacting = begin_compacting(agent)
        agent.get(command, message="during")
        assert agent.response(compacting)["success"] is not refused
        state = agent.get("get_state")
        assert (state["pendingMessageCount"], state["isStreaming"]) == (2, False)
        agent.get("get_messages")  # whatever was begun by itself would have told of it by now
        assert len(of("agent_start", agent.events)) == begun
        assert [text(one) for one in said(agent.prompt("after"), "user")] == ["after", "before", "during"]
        assert agent.get("get_state")["pendingMessageCount"] == 0


def test_a_compaction_that_is_refused_leaves_the_run_alone(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("half ", "an answer"), settings=SETTINGS) as agent:
        begin_streaming(agent)
        response = agent.ask("compact")
        assert (response["success"], response["error"]) == (False, "Nothing to compact (session too small)")
        assert agent.get("get_state")["isStreaming"] is True
        assert [one for one in said(agent.events, "assistant") if one["stopReason"] == "aborted"] == []
        agent.get("abort")
