"""Commands in any order, while anything is going on: what was accepted happens, exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.rpc_agent import Agent
from support.rpc_process import WITHIN, Json, Pipe, calls, endless, is_gone, kinds, of, piece, said, text, texts

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BUSY = "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message."
TRANSIENT = {"error": {"message": "529 overloaded"}}


def streaming(agent: Agent) -> None:
    """Have it say something and not come to an end."""
    agent.ask("prompt", message="go")
    agent.until(piece)


def lines(*commands: Json) -> bytes:
    return b"".join(json.dumps(command).encode() + b"\n" for command in commands)


# When idle.


IDLE = (
    *("abort", "abort_bash", "abort_retry", "clear_queue", "clone", "compact", "cycle_model", "cycle_thinking_level"),
    *("export_html", "get_available_models", "get_available_thinking_levels", "get_commands", "get_entries"),
    *("get_fork_messages", "get_last_assistant_text", "get_messages", "get_session_stats", "get_state", "get_tree"),
    "new_session",
)


@pytest.mark.promise("B01")
def test_every_command_is_answered_once_when_idle(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        for command in (*IDLE, *reversed(IDLE)):
            assert agent.ask(command)["command"] == command
        agent.close()
        assert agent.exit_code() == 0
        assert len(agent.responses) == 2 * len(IDLE)


@pytest.mark.promise("B16")
@pytest.mark.parametrize("command", ["steer", "follow_up"])
def test_what_is_queued_when_idle_is_delivered_with_the_next_prompt(tmp_path: Path, command: str) -> None:
    with Agent(tmp_path) as agent:
        agent.get(command, message="later")
        assert agent.until("queue_update")[-1] == {
            "type": "queue_update",
            "steering": ["later"] if command == "steer" else [],
            "followUp": ["later"] if command == "follow_up" else [],
        }
        assert agent.get("get_state")["pendingMessageCount"] == 1
        assert kinds(agent.events) == ["queue_update"]

        events = agent.prompt("now")
        assert texts(events, "user") == ["now", "later"]
        assert of("queue_update", events) == [{"type": "queue_update", "steering": [], "followUp": []}]
        assert agent.get("get_state")["pendingMessageCount"] == 0


# Prompts.


def test_a_run_is_reported_in_the_documented_order(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo hi"), {"text": "done"}) as agent:
        message = ["message_start", "message_end"]
        answer = ["message_start", "message_update", "message_end"]
        tool = ["tool_execution_start", "tool_execution_update", "tool_execution_end"]
        assert kinds(agent.prompt("go")) == [
            *("agent_start", "turn_start", *message, *answer, *tool, *message, "turn_end"),
            *("turn_start", *answer, "turn_end", "agent_end", "agent_settled"),
        ]


@pytest.mark.promise("B06")
@pytest.mark.parametrize("behavior", [None, "bogus", 5, "Steer", "follow_up"])
def test_a_prompt_while_streaming_must_say_how_to_queue_it(tmp_path: Path, behavior: Any) -> None:
    with Agent(tmp_path, endless("so far")) as agent:
        streaming(agent)
        response = agent.ask("prompt", message="and", streamingBehavior=behavior)
        assert response["success"] is False
        assert response["error"] == BUSY if behavior is None else "streamingBehavior" in response["error"]
        assert agent.get("get_state")["pendingMessageCount"] == 0


@pytest.mark.parametrize("behavior", ["steer", "followUp"])
def test_a_prompt_while_streaming_is_queued_as_it_says(tmp_path: Path, behavior: str) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "ok"}) as agent:
        agent.ask("prompt", message="go")
        agent.until("tool_execution_start")
        agent.get("prompt", message="and", streamingBehavior=behavior)
        assert agent.get("get_state")["pendingMessageCount"] == 1
        gate.say()
        events = agent.settled()
        heard = [m["role"] for m in of("agent_end", events)[0]["messages"]]
        after = ["user", "assistant"] if behavior == "steer" else ["assistant", "user", "assistant"]
        assert heard == ["user", "assistant", "toolResult", *after]
        assert texts(events, "user")[-1] == "and"


@pytest.mark.promise("B07")
@pytest.mark.parametrize("count", [2, 10])
def test_prompts_in_one_write_are_never_both_accepted_and_one_lost(tmp_path: Path, count: int) -> None:
    with Agent(tmp_path) as agent:
        ids = [f"number {at}" for at in range(count)]
        agent.write(lines(*({"id": id, "type": "prompt", "message": id} for id in ids)))
        responses = [agent.response(id) for id in ids]
        taken = [one["id"] for one in responses if one["success"]]
        assert taken and all(one["error"] == BUSY for one in responses if not one["success"])
        for _ in taken:
            agent.settled()
        agent.close()
        assert agent.exit_code() == 0
        assert texts(agent.events, "user") == taken
        assert len(of("agent_settled", agent.events)) == len(taken)


def test_a_prompt_and_what_is_queued_behind_it_in_one_write_all_arrive(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        agent.write(
            lines(
                {"id": "1", "type": "prompt", "message": "one"},
                {"id": "2", "type": "prompt", "message": "two", "streamingBehavior": "followUp"},
                {"id": "3", "type": "follow_up", "message": "three"},
                {"id": "4", "type": "prompt", "message": "four", "streamingBehavior": "steer"},
            )
        )
        assert all(agent.response(id)["success"] for id in "1234")
        agent.settled()
        agent.close()
        assert agent.exit_code() == 0
        assert sorted(texts(agent.events, "user")) == ["four", "one", "three", "two"]


def test_each_accepted_prompt_settles_exactly_once(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        for number in range(20):
            events = agent.prompt(f"number {number}")
            assert texts(events, "user") == [f"number {number}"]
            assert (len(of("agent_start", events)), len(of("agent_end", events))) == (1, 1)
        agent.close()
        assert agent.exit_code() == 0
        assert len(of("agent_settled", agent.events)) == 20


def test_a_prompt_between_agent_end_and_agent_settled_runs_next(tmp_path: Path) -> None:
    with Agent(tmp_path, TRANSIENT, settings={"retry": {"baseDelayMs": 600_000}}) as agent:
        agent.ask("prompt", message="first")
        agent.until("auto_retry_start")
        assert agent.get("get_state")["isStreaming"] is False
        agent.get("prompt", message="second")
        agent.get("abort_retry")
        assert kinds(agent.settled()) == ["auto_retry_end", "agent_settled"]
        agent.until("auto_retry_start")
        assert texts(agent.events, "user") == ["first", "second"]


def test_a_prompt_during_the_wait_for_a_retry_comes_after_the_retry(tmp_path: Path) -> None:
    answers = TRANSIENT, {"text": "to the first"}, {"text": "to the second"}
    with Agent(tmp_path, *answers, settings={"retry": {"baseDelayMs": 3000}}) as agent:
        agent.ask("prompt", message="first")
        agent.until("auto_retry_start")
        agent.get("prompt", message="second")
        retried, second = agent.settled(), agent.settled()
        assert texts(retried, "assistant") == ["to the first"]
        assert (texts(second, "user"), texts(second, "assistant")) == (["second"], ["to the second"])


@pytest.mark.parametrize("moment", ["message_end", "turn_end", "agent_end", "agent_settled"])
@pytest.mark.parametrize("command", ["follow_up", "steer"])
def test_what_is_queued_in_the_moment_a_run_ends_is_not_stranded(tmp_path: Path, command: str, moment: str) -> None:
    """Whoever is told yes before agent_settled, is delivered before it; whoever is told yes after it, waits."""
    with Agent(tmp_path) as agent:
        for round in range(15):
            agent.ask("prompt", message="go")
            agent.until(lambda event: event["type"] == moment and event.get("message", {}).get("role") != "user")
            id = agent.send(command, message=f"round {round}")
            assert agent.response(id)["success"]
            state = agent.get("get_state")
            if moment != "agent_settled":
                agent.settled()
            told = agent.records
            answered = next(at for at, one in enumerate(told) if one.get("id") == id)
            settled = max(at for at, one in enumerate(told) if one["type"] == "agent_settled")
            arrived = f"round {round}" in texts(told[:settled], "user")
            if answered < settled:
                assert arrived, agent.transcript()
            else:
                assert arrived or state["pendingMessageCount"] == 1
                agent.get("clear_queue")


# Another session in the middle of a run.


@pytest.mark.promise("B03")
def test_a_new_session_ends_the_run_and_keeps_its_partial_answer(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("partial")) as agent:
        streaming(agent)
        before = agent.get("get_state")["sessionId"]
        assert agent.get("new_session") == {"cancelled": False}
        ending = agent.settled()
        check_aborted(ending)
        state = agent.get("get_state")
        assert state["sessionId"] != before
        assert (state["isStreaming"], state["messageCount"]) == (False, 0)


@pytest.mark.promise("B04")
def test_a_fork_ends_the_run_and_keeps_its_partial_answer(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "first"}, endless("partial")) as agent:
        agent.prompt("one")
        streaming(agent)
        points = agent.get("get_fork_messages")["messages"]
        assert [point["text"] for point in points] == ["one", "go"]
        assert agent.get("fork", entryId=points[1]["entryId"]) == {"text": "go", "cancelled": False}
        check_aborted(agent.settled())
        assert [text(message) for message in agent.get("get_messages")["messages"]] == ["one", "first"]


def test_a_clone_ends_the_run_and_has_its_partial_answer(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("partial")) as agent:
        streaming(agent)
        agent.get("clone")
        check_aborted(agent.settled())
        messages = agent.get("get_messages")["messages"]
        assert [text(message) for message in messages] == ["go", "partial"]


def check_aborted(ending: list[Json]) -> None:
    assert kinds(ending) == ["message_update", "message_end", "turn_end", "agent_end", "agent_settled"]
    answer = said(ending, "assistant")[0]
    assert (text(answer), answer["stopReason"]) == ("partial", "aborted")


def test_a_fork_from_nowhere_is_refused_and_the_run_continues(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("partial")) as agent:
        streaming(agent)
        assert agent.ask("fork", entryId="00000000")["success"] is False
        assert agent.get("get_state")["isStreaming"] is True


def test_a_prompt_behind_a_new_session_is_meant_for_the_new_one(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("trap '' TERM; echo; sleep 1000"), {"text": "ok"}) as agent:
        agent.ask("prompt", message="old")
        agent.until("tool_execution_update")
        agent.write(lines({"id": "n", "type": "new_session"}, {"id": "p", "type": "prompt", "message": "new"}))
        assert agent.response("n")["success"] and agent.response("p")["success"]
        agent.settled()
        agent.settled()
        assert [text(message) for message in agent.get("get_messages")["messages"]] == ["new", "ok"]


# Shell commands of the client.


@pytest.mark.promise("B08")
def test_one_abort_bash_stops_every_command(tmp_path: Path) -> None:
    with Pipe(tmp_path / "pids") as pids, Agent(tmp_path) as agent:
        ids = [agent.send("bash", command=f"echo out; echo $$ >{pids.path}; exec sleep 1000") for _ in range(2)]
        started = [int(pids.line()) for _ in ids]
        agent.get("abort_bash")
        for id in ids:
            data = agent.response(id)["data"]
            assert (data["cancelled"], data["output"]) == (True, "out\n")
            assert "exitCode" not in data
        assert all(is_gone(pid, within=WITHIN) for pid in started)


def test_a_slow_command_does_not_hold_up_others(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path) as agent:
        slow = agent.send("bash", command=f"read line <{gate.path}; echo $line")
        assert agent.get("bash", command="echo quick")["output"] == "quick\n"
        assert texts(agent.prompt("go"), "assistant") == ["ok"]
        gate.say("slow")
        assert agent.response(slow)["data"]["output"] == "slow\n"


def test_bash_while_streaming_is_answered_at_once_and_joins_the_conversation_later(tmp_path: Path) -> None:
    with Agent(tmp_path, endless("busy"), {"text": "ok"}) as agent:
        streaming(agent)
        assert agent.get("bash", command="echo out; echo err >&2; exit 3") == {
            "output": "out\nerr\n",
            "exitCode": 3,
            "cancelled": False,
            "truncated": False,
            "stdout": "out\n",
            "stderr": "err\n",
            "signal": None,
        }
        assert agent.get("get_state")["isStreaming"] is True
        agent.ask("abort")
        agent.settled()
        agent.prompt("next")
        messages = agent.get("get_messages")["messages"]
        assert [one["role"] for one in messages] == ["user", "assistant", "bashExecution", "user", "assistant"]
        assert (messages[2]["command"], messages[2]["exitCode"]) == ("echo out; echo err >&2; exit 3", 3)


def test_too_many_commands_at_once_are_refused_in_words(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        ids = [agent.send("bash", command="exec sleep 1000") for _ in range(80)]
        assert "ry again" in agent.response(ids[-1])["error"]
        agent.get("abort_bash")
        answers = [agent.response(id) for id in ids]
        assert sum(one["success"] for one in answers) == 64
        assert all(one["data"]["cancelled"] for one in answers if one["success"])


# Steering and tools.


def test_steering_is_delivered_after_the_running_tool_and_skips_the_rest(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate:
        first = calls(f"read line <{gate.path}; echo $line", "touch second", "touch third")
        with Agent(tmp_path, first, {"text": "ok"}) as agent:
            agent.ask("prompt", message="go")
            agent.until("tool_execution_start")
            agent.get("steer", message="wait")
            gate.say("finished")
            events = agent.settled()

            skipped = "Skipped due to queued user message."
            assert texts(events, "toolResult") == ["finished\n", skipped, skipped]
            assert [one["isError"] for one in said(events, "toolResult")] == [False, True, True]
            ends = of("tool_execution_end", events)
            assert [(one["toolCallId"], one["isError"]) for one in ends] == [
                ("call_0", False),
                ("call_1", True),
                ("call_2", True),
            ]
            assert not list(agent.cwd.iterdir())
            assert kinds(events)[-11:] == [
                *("turn_end", "turn_start", "queue_update", "message_start", "message_end"),
                *("message_start", "message_update", "message_end", "turn_end", "agent_end", "agent_settled"),
            ]
            assert texts(events, "user") == ["wait"]


def test_tools_run_one_after_another_unless_settings_say_otherwise(tmp_path: Path) -> None:
    with Agent(tmp_path, calls("echo 1", "echo 2"), {"text": "ok"}) as agent:
        events = agent.prompt("go")
        starts_and_ends = [one for one in events if one["type"] in ("tool_execution_start", "tool_execution_end")]
        assert [one["toolCallId"] for one in starts_and_ends] == ["call_0", "call_0", "call_1", "call_1"]


def test_tools_run_side_by_side_when_settings_say_so(tmp_path: Path) -> None:
    with Pipe(tmp_path / "gate") as gate:
        batch = calls(f"read line <{gate.path}; echo $line", "echo fast", "no-such-command-here")
        with Agent(tmp_path, batch, {"text": "ok"}, settings={"toolExecution": "parallel"}) as agent:
            agent.ask("prompt", message="go")
            begun = agent.until("tool_execution_end") + agent.until("tool_execution_end")
            agent.get("steer", message="and")
            gate.say("slow")
            events = begun + agent.settled()

        assert [one["toolCallId"] for one in of("tool_execution_start", events)] == ["call_0", "call_1", "call_2"]
        ends = [one["toolCallId"] for one in of("tool_execution_end", events)]
        assert (sorted(ends[:2]), ends[2]) == (["call_1", "call_2"], "call_0")
        results = said(events, "toolResult")
        assert [one["toolCallId"] for one in results] == ["call_0", "call_1", "call_2"]
        assert [one["isError"] for one in results] == [False, False, True]
        roles = [one["role"] for one in of("agent_end", events)[0]["messages"]]
        assert roles == ["user", "assistant", "toolResult", "toolResult", "toolResult", "user", "assistant"]
        last_end = max(at for at, one in enumerate(events) if one["type"] == "tool_execution_end")
        assert all(one.get("message", {}).get("role") != "toolResult" for one in events[:last_end])


@pytest.mark.parametrize("mode, rounds", [("one-at-a-time", [["a"], ["b"]]), ("all", [["a", "b"]])])
@pytest.mark.parametrize("command, setting", [("steer", "set_steering_mode"), ("follow_up", "set_follow_up_mode")])
def test_a_queue_is_delivered_in_its_mode(
    tmp_path: Path, command: str, setting: str, mode: str, rounds: list[list[str]]
) -> None:
    with Pipe(tmp_path / "gate") as gate, Agent(tmp_path, calls(f"read x <{gate.path}"), {"text": "ok"}) as agent:
        agent.get(setting, mode=mode)
        agent.ask("prompt", message="go")
        agent.until("tool_execution_start")
        agent.get(command, message="a")
        agent.get(command, message="b")
        gate.say()
        delivered: list[list[str]] = []
        for event in agent.settled():
            if event["type"] == "turn_start":
                delivered.append([])
            elif event["type"] == "message_end" and event["message"]["role"] == "user":
                delivered[-1].append(text(event["message"]))
        assert [turn for turn in delivered if turn] == rounds


@pytest.mark.promise("E19", "E20")
@pytest.mark.parametrize(
    "answer",
    [
        {"blocks": [{"tool": "bash", "arguments": '{"command": "touch ran'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": '{"command": "touch ran"'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": '{"command": "touch ran"}}'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": '{"command": "touch ran", "timeout": NaN}'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": '{"command": "touch ran", "timeout": 1e999}'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": '["touch ran"]'}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": "null"}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": {"cmd": "touch ran"}}], "stop": "toolUse"},
        {"blocks": [{"tool": "bash", "arguments": {"command": ["touch ran"]}}], "stop": "toolUse"},
        {"blocks": [{"tool": "sh", "arguments": {"command": "touch ran"}}], "stop": "toolUse"},
        {"blocks": [{"tool": "", "arguments": {"command": "touch ran"}}], "stop": "toolUse"},
        calls("touch ran", stop="length"),
    ],
    ids=lambda answer: str(answer["blocks"][0]["arguments"])[:50] + answer.get("stop", ""),
)
def test_a_call_that_is_cut_or_wrong_is_answered_and_not_run(tmp_path: Path, answer: Json) -> None:
    with Agent(tmp_path, answer, {"text": "ok"}) as agent:
        results = said(agent.prompt("go"), "toolResult")
        assert [result["isError"] for result in results] == [True]
        assert not (agent.cwd / "ran").exists()


@pytest.mark.promise("E04")
@pytest.mark.parametrize("ending", [{"hangAfter": 2}, {"error": {"message": "400 bad request", "after": 2}}])
def test_a_call_of_an_answer_that_was_cut_off_is_not_run(tmp_path: Path, ending: Json) -> None:
    blocks = [{"tool": "bash", "arguments": {"command": "touch ran"}}, {"text": ["now", "then", "never"]}]
    with Agent(tmp_path, {"blocks": blocks, **ending}) as agent:
        agent.ask("prompt", message="go")
        agent.until(piece)
        agent.ask("abort")
        events = agent.settled()
        assert of("tool_execution_start", events) == []
        assert of("turn_end", events)[0]["toolResults"] == []
        assert not (agent.cwd / "ran").exists()


# Retry.


def test_a_transient_error_is_tried_again_until_it_works(tmp_path: Path) -> None:
    answers = TRANSIENT, {"blocks": [{"text": ["half", "way"]}], "error": {"message": "socket hang up", "after": 1}}
    with Agent(tmp_path, *answers, {"text": "ok"}, settings={"retry": {"baseDelayMs": 10}}) as agent:
        events = agent.prompt("go")
        assert of("auto_retry_start", events) == [
            {
                "type": "auto_retry_start",
                "attempt": at,
                "maxAttempts": 3,
                "delayMs": 10 * 2 ** (at - 1),
                "errorMessage": message,
            }
            for at, message in ((1, "529 overloaded"), (2, "socket hang up"))
        ]
        assert of("auto_retry_end", events) == [{"type": "auto_retry_end", "success": True, "attempt": 2}]
        assert [one["willRetry"] for one in of("agent_end", events)] == [True, True, False]
        assert len(of("agent_settled", events)) == 1
        assert [text(message) for message in agent.get("get_messages")["messages"]] == ["go", "ok"]


@pytest.mark.promise("E12")
def test_retries_come_to_an_end(tmp_path: Path) -> None:
    with Agent(tmp_path, TRANSIENT, settings={"retry": {"baseDelayMs": 1, "maxRetries": 2}}) as agent:
        events = agent.prompt("go")
        assert [one["willRetry"] for one in of("agent_end", events)] == [True, True, False]
        assert of("auto_retry_end", events) == [
            {"type": "auto_retry_end", "success": False, "attempt": 2, "finalError": "529 overloaded"}
        ]
        assert kinds(events)[-1] == "agent_settled"
        assert len(of("agent_settled", events)) == 1


@pytest.mark.promise("E13")
@pytest.mark.parametrize("message", ["401 invalid key", "400 bad request", "prompt is too long", "429 quota exceeded"])
def test_permanent_errors_are_not_retried(tmp_path: Path, message: str) -> None:
    with Agent(tmp_path, {"error": {"message": message}}) as agent:
        events = agent.prompt("go")
        assert of("auto_retry_start", events) == []
        answer = said(events, "assistant")[0]
        assert (answer["stopReason"], answer["errorMessage"]) == ("error", message)
        assert of("message_update", events) == []


def test_retrying_can_be_switched_off(tmp_path: Path) -> None:
    with Agent(tmp_path, TRANSIENT) as agent:
        agent.get("set_auto_retry", enabled=False)
        assert agent.settings == {"retry": {"enabled": False}}
        events = agent.prompt("go")
        assert of("auto_retry_start", events) == []
        assert of("agent_end", events)[0]["willRetry"] is False


@pytest.mark.promise("B18")
def test_abort_retry_ends_the_wait(tmp_path: Path) -> None:
    with Agent(tmp_path, TRANSIENT, {"text": "ok"}, settings={"retry": {"baseDelayMs": 600_000}}) as agent:
        agent.ask("prompt", message="go")
        agent.until("auto_retry_start")
        agent.get("abort_retry")
        events = agent.settled()
        assert kinds(events) == ["auto_retry_end", "agent_settled"]
        assert (events[0]["success"], events[0]["attempt"]) == (False, 1)
        assert texts(agent.prompt("again"), "assistant") == ["ok"]


# Images.

NEW_FORM = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
OLD_FORM = {"type": "image", "source": {"type": "base64", "data": PIXEL, "mediaType": "image/png"}}


@pytest.mark.parametrize("image", [NEW_FORM, OLD_FORM], ids=["data and mimeType", "source"])
@pytest.mark.parametrize("command", ["prompt", "steer", "follow_up"])
def test_images_in_both_forms_reach_the_conversation(tmp_path: Path, command: str, image: Json) -> None:
    with Agent(tmp_path) as agent:
        agent.get(command, message="look", images=[image, NEW_FORM])
        if command != "prompt":
            agent.ask("prompt", message="go")
        message = said(agent.settled(), "user")[-1]
        assert message["content"] == [{"type": "text", "text": "look"}, NEW_FORM, NEW_FORM]


@pytest.mark.parametrize("mime", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_four_kinds_of_image_are_taken(tmp_path: Path, mime: str) -> None:
    with Agent(tmp_path) as agent:
        assert agent.ask("prompt", message="look", images=[{**NEW_FORM, "mimeType": mime}])["success"]


def new(**fields: Any) -> Json:
    return {**NEW_FORM, **fields}


def old(**fields: Any) -> Json:
    return {"type": "image", "source": {**OLD_FORM["source"], **fields}}


@pytest.mark.parametrize(
    "image, words",
    [
        (new(data="not base64!"), "images[0].data"),
        (new(data=PIXEL[:-1]), "images[0].data"),
        (new(data=f"data:image/png;base64,{PIXEL}"), "images[0].data"),
        (new(data=""), "images[0].data"),
        (new(data="aGk=\n"), "images[0].data"),
        (new(data="\u00e9\u00e9\u00e9\u00e9"), "images[0].data"),
        (new(data="aGk\ud800"), "images[0].data"),
        (new(mimeType="image/bmp"), "image/bmp"),
        (new(mimeType="IMAGE/PNG"), "IMAGE/PNG"),
        (new(mimeType="text/html"), "text/html"),
        (new(mimeType=""), "images[0]"),
        (old(data="not base64!"), "images[0].source.data"),
        (old(mediaType="image/svg+xml"), "image/svg+xml"),
        ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}, "base64"),
        ({"type": "image"}, "images[0]"),
    ],
)
def test_a_wrong_image_is_refused_in_words_and_nothing_is_queued(tmp_path: Path, image: Json, words: str) -> None:
    with Agent(tmp_path) as agent:
        for command in ("prompt", "steer", "follow_up"):
            response = agent.ask(command, message="look", images=[image])
            assert response["success"] is False
            assert words in response["error"]
        state = agent.get("get_state")
        assert (state["messageCount"], state["pendingMessageCount"], agent.events) == (0, 0, [])


# Without a model.


def test_without_any_model_it_starts_and_says_what_is_missing(tmp_path: Path) -> None:
    with Agent(tmp_path, offline=False) as agent:
        assert agent.get("get_state")["model"] is None
        assert agent.get("get_available_models") == {"models": []}
        response = agent.ask("prompt", message="hello")
        assert response["success"] is False
        assert "ANTHROPIC_API_KEY" in response["error"]
        assert agent.events == []
