"""`abort` is answered within a second, whatever the run is doing, and the run is told to its end."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from support.abort_scenes import (
    SCENES,
    STUBBORN,
    begin_streaming,
    begin_waiting_for_a_retry,
    on_stage,
    output,
    seconds_to_abort,
    seconds_to_abort_in,
)
from support.model_server import NOWHERE
from support.rpc_agent import Agent
from support.rpc_process import (
    WITHIN,
    Json,
    Pipe,
    calls,
    endless,
    is_gone,
    joined_deltas,
    kinds,
    of,
    piece,
    quick,
    said,
    text,
    texts,
)

SECOND = 1.0


def first_number(events: list[Json]) -> int:
    return int(output(events[-1]).split()[0])


def test_idle(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        quick(lambda: seconds_to_abort(agent), SECOND)
        assert agent.events == []


@pytest.mark.promise("B18", "C22", "C24", "C25", "E21")
@pytest.mark.parametrize("scene", SCENES)
def test_answered_within_a_second_when_the_run_has_settled(tmp_path: Path, scene: str) -> None:
    with on_stage(tmp_path, scene) as agent:
        quick(lambda: seconds_to_abort_in(scene, agent), SECOND)
        told = [one["type"] if one["type"] != "response" else one["command"] for one in agent.records]
        assert told.index("agent_end") < told.index("agent_settled") < told.index("abort")
        state = agent.get("get_state")
        assert (state["isStreaming"], state["pendingMessageCount"]) == (False, 0)


def test_the_text_that_had_come_is_kept(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("one ", "two ", "three"), {"text": "fresh"}) as agent:
        agent.ask("prompt", message="go")
        agent.until(lambda event: piece(event) and event["assistantMessageEvent"]["delta"].endswith("three"))
        agent.ask("abort")
        ending = agent.settled()

        assert [event["assistantMessageEvent"]["type"] for event in of("message_update", ending)] == ["text_end"]
        assert kinds(ending) == ["message_update", "message_end", "turn_end", "agent_end", "agent_settled"]
        answer = said(ending, "assistant")[0]
        assert (text(answer), answer["stopReason"]) == ("one two three", "aborted")
        assert answer["errorMessage"]
        assert of("turn_end", ending)[0]["message"] == answer
        assert of("agent_end", ending)[0]["messages"][-1] == answer
        assert of("agent_end", ending)[0]["willRetry"] is False
        assert agent.get("get_messages")["messages"][-1] == answer

        assert texts(agent.prompt("again"), "assistant") == ["fresh"]


def test_deltas_add_up_to_the_text_that_is_kept(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "0123456789", "repeat": 100_000_000}) as agent:
        agent.ask("prompt", message="go")
        agent.until(piece)
        agent.ask("abort")
        agent.settled()
        answer = said(agent.events, "assistant")[0]
        assert len(text(answer)) > 10
        assert joined_deltas(agent.events) == text(answer)


@pytest.mark.promise("B13")
@pytest.mark.parametrize(
    "command", [STUBBORN, f"({STUBBORN}) & wait", f"bash -c {STUBBORN!r} | cat", "echo $$; exec sleep 1000"]
)
def test_no_process_of_the_tool_is_left(tmp_path: Path, command: str) -> None:
    with Agent(tmp_path, calls(command)) as agent:
        agent.ask("prompt", message="go")
        pid = first_number(agent.until(lambda event: "\n" in output(event)))
        agent.ask("abort")
        assert is_gone(pid, within=WITHIN)
        result = said(agent.settled(), "toolResult")[0]
        assert result["isError"] is True
        assert text(result) == f"{pid}\n\n\nCommand aborted"


def test_tools_that_run_side_by_side_all_end(tmp_path: Path) -> None:
    with (
        Pipe(tmp_path / "pids") as pids,
        Agent(
            tmp_path,
            calls(*[f"echo $$ >{pids.path}; exec sleep 1000"] * 3),
            settings={"toolExecution": "parallel"},
        ) as agent,
    ):
        agent.ask("prompt", message="go")
        started = [pids.line() for _ in range(3)]
        quick(lambda: seconds_to_abort(agent), SECOND)
        assert all(is_gone(int(pid), within=WITHIN) for pid in started)
        results = said(agent.settled(), "toolResult")
        assert [(one["toolCallId"], one["isError"]) for one in results] == [
            ("call_0", True),
            ("call_1", True),
            ("call_2", True),
        ]


def test_calls_that_had_not_begun_are_not_begun(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo here; sleep 1000", "touch ran", "touch ran")) as agent:
        agent.ask("prompt", message="go")
        agent.until(lambda event: output(event) == "here\n")
        agent.ask("abort")
        events = agent.settled()
        assert not (agent.cwd / "ran").exists()
        assert [one["isError"] for one in of("tool_execution_end", events)] == [True] * 3
        ids = [one["toolCallId"] for one in of("turn_end", events)[0]["toolResults"]]
        assert ids == ["call_0", "call_1", "call_2"]


def test_two_at_once_are_both_answered(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far")) as agent:
        begin_streaming(agent)
        first, second = agent.send("abort"), agent.send("abort")
        assert agent.response(first)["success"] and agent.response(second)["success"]
        agent.settled()
        agent.ask("abort")
        assert len(of("agent_settled", agent.events)) == len(of("agent_end", agent.events)) == 1


def test_right_behind_the_prompt_in_one_write(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far")) as agent:

        def measure() -> float:
            before = time.monotonic()
            agent.write(b'{"id":"p","type":"prompt","message":"go"}\n{"id":"a","type":"abort"}\n')
            events = agent.settled()
            assert agent.response("a")["success"]
            assert events[-1]["aborted"] is True
            return time.monotonic() - before

        quick(measure, SECOND)


def test_a_retry_that_was_waited_for_is_not_made(tmp_path: Path) -> None:
    with Agent(tmp_path, {"error": {"message": "overloaded"}}, {"text": "never"}) as agent:
        begin_waiting_for_a_retry(agent)
        agent.ask("abort")
        events = agent.settled()
        assert kinds(events) == ["auto_retry_end", "agent_settled"]
        assert (events[0]["success"], events[0]["attempt"]) == (False, 1)
        assert isinstance(events[0]["finalError"], str)
        assert len(of("agent_start", agent.events)) == 1


def test_the_queues_are_left_alone(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("so far"), {"text": "ok"}) as agent:
        begin_streaming(agent)
        agent.ask("steer", message="left")
        agent.ask("follow_up", message="behind")
        agent.ask("abort")
        agent.settled()
        assert agent.get("get_state")["pendingMessageCount"] == 2
        assert len(of("agent_start", agent.events)) == 1

        assert texts(agent.prompt("next"), "user") == ["next", "left", "behind"]
        assert agent.get("get_state")["pendingMessageCount"] == 0


def test_a_shell_command_of_the_client_continues(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, endless("so far")) as agent:
        begin_streaming(agent)
        bash = agent.send("bash", command=f"read line <{gate.path}; echo $line")
        agent.ask("abort")
        gate.say("still here")
        assert agent.response(bash)["data"]["output"] == "still here\n"


@pytest.mark.promise("B18")
def test_a_command_that_has_the_key_and_does_not_tell_it_holds_up_nothing(tmp_path: Path) -> None:
    model = {"id": "m1", "name": "M", "contextWindow": 100_000, "maxTokens": 1000}
    with Pipe(tmp_path / "pid") as pids:
        key = f"!echo $$ >{pids.path}; exec sleep 1000"
        provider = {"baseUrl": NOWHERE, "api": "openai-completions", "apiKey": key, "models": [model]}
        models = {"providers": {"lab": provider}}
        args = ["--provider", "lab", "--model", "m1"]
        with Agent(tmp_path, models=models, args=args, offline=False) as agent:
            started: list[int] = []

            def measure() -> float:
                agent.send("prompt", message="go")
                started.append(int(pids.line()))
                taken = seconds_to_abort(agent)
                assert agent.settled()[-1]["aborted"] is True
                return taken

            quick(measure, SECOND)
            agent.signal(signal.SIGTERM)
            assert agent.exit_code(within=10) == 143
            assert all(is_gone(pid, within=WITHIN) for pid in started)
