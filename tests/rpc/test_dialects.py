"""The program in each dialect, and its lines against the schema of that dialect."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from docgen.__main__ import FOLDER

from support.rpc_agent import Agent
from support.rpc_process import Json, Pipe, calls, endless
from tau.wire.dialects import NAMES

DELTAS_ONLY = ("1.5", "0.84")
WITH_RESPONSES = [name for name in NAMES if name != "2025-12"]
LS = {"blocks": [{"text": "I look."}, {"tool": "bash", "arguments": {"command": "echo hi"}, "id": "call_1"}]}
BAD = {"blocks": [{"tool": "read", "arguments": {"path": "nowhere"}, "id": "call_2"}]}
PNG = "iVBORw0KGgo="


@functools.cache
def lines_of(name: str, which: str) -> Callable[[Any], Any]:
    """A check of one line against the schema of a dialect; raises for a line that is none."""
    schema = json.loads((FOLDER / "schema" / f"{name}.json").read_text(encoding="utf-8"))
    check: Callable[[Any], Any] = fastjsonschema.compile({"$ref": f"#/$defs/{which}", "$defs": schema["$defs"]})
    return check


def speaking(folder: Path, name: str, *answers: Json, settings: Json | None = None) -> Agent:
    return Agent(folder, *answers, settings=settings, args=["--dialect", name])


def run(agent: Agent, message: str, **fields: Any) -> list[Json]:
    """A prompt, and its events until agent_end, which every dialect has."""
    agent.send("prompt", message=message, **fields)
    return agent.until("agent_end")


def types(records: list[Json]) -> list[str]:
    return [record["type"] for record in records]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_what_the_schema_says(tmp_path: Path, name: str) -> None:
    settings = {"retry": {"baseDelayMs": 1}}
    failing = {"error": {"message": "529 overloaded"}}
    with speaking(tmp_path, name, LS, BAD, {"text": "done"}, failing, {"text": "ok"}, settings=settings) as agent:
        run(agent, "go")
        run(agent, "again", attachments=[document(extractedText="hello")])
        if name in WITH_RESPONSES:
            for kind in ("get_state", "get_messages", "get_available_models", "get_session_stats", "cycle_model"):
                agent.ask(kind)
            agent.ask("bash", command="echo out; echo err >&2")
            agent.ask("set_thinking_level", level="high")
            agent.ask("compact")
            agent.ask("nonsense")
            agent.ask("get_protocol")
        else:
            agent.send("nonsense")
            agent.until("error")
        records = list(agent.records)
    check = lines_of(name, "AgentLine")
    wrong = [(record, error) for record in records if (error := _objection(check, record))]
    assert wrong == []


def _objection(check: Callable[[Any], Any], record: Json) -> str:
    try:
        check(record)
    except fastjsonschema.JsonSchemaException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "line",
    [{"type": "agent_end"}, {"type": "response", "command": "get_state", "success": True}, {"type": "zork"}, [], 5],
    ids=json.dumps,
)
def test_a_schema_refuses_what_is_none_of_its_lines(name: str, line: Any) -> None:
    with pytest.raises(fastjsonschema.JsonSchemaException):
        lines_of(name, "AgentLine")(line)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_client_may_say_is_in_the_schema_too(name: str) -> None:
    check = lines_of(name, "ClientLine")
    check({"type": "prompt", "message": "x", "id": 5})
    for wrong in ({"type": "prompt"}, {"type": "prompt", "message": 5}, {"type": "zork"}):
        with pytest.raises(fastjsonschema.JsonSchemaException):
            check(wrong)


@pytest.mark.parametrize("name", WITH_RESPONSES)
def test_a_dialect_can_be_asked_for(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name) as agent:
        told = agent.get("get_protocol")
    assert (told["dialect"], told["dialects"]) == (name, list(NAMES))
    assert told["capabilities"]["snapshots"] is (name not in DELTAS_ONLY)


def test_the_first_dialect_answers_that_with_an_event(tmp_path: Path) -> None:
    with speaking(tmp_path, "2025-12") as agent:
        agent.send("get_protocol")
        told = agent.until("protocol")[-1]["data"]
    assert (told["dialect"], told["capabilities"]["commands"]) == (
        "2025-12",
        ["prompt", "abort", "compact", "get_protocol"],
    )


def test_settings_choose_a_dialect_and_the_flag_another(tmp_path: Path) -> None:
    with Agent(tmp_path / "a", settings={"dialect": "1.5"}) as agent:
        assert agent.get("get_protocol")["dialect"] == "1.5"
    with Agent(tmp_path / "b", settings={"dialect": "1.5"}, args=["--dialect", "0.55.4"]) as agent:
        assert agent.get("get_protocol")["dialect"] == "2026-03"


def test_what_the_user_has_set_counts_more_than_the_dialect(tmp_path: Path) -> None:
    with speaking(tmp_path, "2026-01", settings={"defaultThinkingLevel": "high"}) as agent:
        assert run(agent, "x")
        assert agent.ask("set_session_name", name="x")["error"] == "Unknown command: set_session_name"


# Answers


def test_updates_of_the_newest_have_nothing_but_what_is_new(tmp_path: Path) -> None:
    with speaking(tmp_path, "1.5", LS, {"text": "done"}) as agent:
        events = run(agent, "go")
        settled = agent.until("agent_settled")[-1]
    updates = [event for event in events if event["type"] == "message_update"]
    assert {tuple(update) for update in updates} == {("type", "usage", "assistantMessageEvent")}
    assert [update for update in updates if "partial" in update["assistantMessageEvent"]] == []
    start = next(event for event in updates if event["assistantMessageEvent"]["type"] == "toolcall_start")
    assert start["assistantMessageEvent"] == {
        "type": "toolcall_start",
        "contentIndex": 1,
        "id": "call_1",
        "toolName": "bash",
    }
    assert settled == {"type": "agent_settled", "aborted": False}
    begun = [event["message"] for event in events if event["type"] == "message_start"]
    assert [message["stopReason"] for message in begun if message["role"] == "assistant"] == ["pending", "pending"]
    (end,) = [event for event in events if event["type"] == "tool_execution_end"]
    assert end["durationMs"] >= 0


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DELTAS_ONLY])
def test_updates_of_the_others_have_the_message_so_far(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name, {"blocks": [{"text": ["Hel", "lo"]}]}) as agent:
        events = run(agent, "go")
    updates = [event for event in events if event["type"] == "message_update"]
    assert updates[-1]["message"] == updates[-1]["assistantMessageEvent"]["partial"]
    assert updates[-1]["message"]["content"] == [{"type": "text", "text": "Hello"}]
    assert {"usage" in update for update in updates} == {name == "default"}


@pytest.mark.parametrize("name", WITH_RESPONSES)
def test_what_became_of_a_message_is_answered_to_clients_of_the_newest_pi(tmp_path: Path, name: str) -> None:
    """pi's RpcClient of 1.5 reads `data.disposition`, and throws if it is missing."""
    commands = Path(tmp_path, "extension.py")
    commands.write_text('def setup(pi):\n    pi.register_command("hello", lambda text, ctx: None)\n')
    args = ["--dialect", name, "-e", str(commands)]
    with Agent(tmp_path, endless("slow"), endless("slow"), args=args) as agent:
        told = [agent.ask("steer", message="early")]
        agent.send("prompt", message="a")
        agent.until("message_update")
        told += [agent.ask(kind, message="b") for kind in ("steer", "follow_up")]
        told.append(agent.ask("prompt", message="c", streamingBehavior="steer"))
        told.append(agent.ask("prompt", message="/hello"))
        refused = agent.ask("prompt", message="d")
        agent.ask("abort")
    heads = [["id", "type", "command", "success"]] * 5
    if name in ("1.5", "default"):
        words = ("queued", "queued", "queued", "queued", "handled")
        assert [one.pop("data") for one in told] == [{"disposition": word} for word in words]
    assert [list(one) for one in told] == heads and all(one["success"] for one in told)
    assert not refused["success"] and "data" not in refused


def test_a_command_of_the_client_is_heard_while_it_runs_in_the_newest(tmp_path: Path) -> None:
    with speaking(tmp_path, "1.5") as agent:
        response = agent.ask("bash", command="echo hello")
        events = agent.until("bash_execution_update")
    assert events == [{"type": "bash_execution_update", "delta": "hello\n", "id": response["id"]}]


def test_a_compaction_that_fails_is_reported_in_the_words_of_the_dialect(tmp_path: Path) -> None:
    why = "Already compacted"
    with speaking(tmp_path / "a", "0.73") as agent:
        run(agent, "hi")
        agent.get("compact")
        agent.until("compaction_end")
        assert agent.ask("compact")["error"] == why
        assert agent.until("compaction_end") == [
            {"type": "compaction_start", "reason": "manual"},
            {
                "type": "compaction_end",
                "reason": "manual",
                "result": None,
                "aborted": False,
                "willRetry": False,
                "errorMessage": f"Compaction failed: {why}",
            },
        ]
    with speaking(tmp_path / "b", "2025-12") as agent:
        run(agent, "hi")
        agent.send("compact")
        agent.until("compaction")
        agent.send("compact")
        assert agent.until("error") == [{"type": "error", "error": f"Compaction failed: {why}"}]
        assert agent.responses == []


NEWER = ["0.73", "0.84", "1.5"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("2026-01", "stop"),
        ("2026-03", "stop"),
        ("default", "stop"),
        ("0.73", "error"),
        ("0.84", "error"),
        ("1.5", "error"),
    ],
)
def test_in_the_newer_ones_a_request_that_fails_at_once_is_never_announced_as_an_answer(
    tmp_path: Path, name: str, reason: str
) -> None:
    with speaking(tmp_path, name, {"error": {"message": "401 no"}}) as agent:
        events = run(agent, "go")
    begun = [event["message"] for event in events if event["type"] == "message_start"]
    assert [message["stopReason"] for message in begun if message["role"] == "assistant"] == [reason]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "2025-12"])
def test_in_the_newer_ones_a_command_shows_that_it_has_begun(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name, LS, {"text": "done"}) as agent:
        events = run(agent, "go")
    (first, *_) = [event["partialResult"] for event in events if event["type"] == "tool_execution_update"]
    assert (first == {"content": []}) is (name in NEWER)


@pytest.mark.parametrize("name", [*NEWER, "default"])
def test_during_the_wait_for_a_retry_the_newest_is_streaming(tmp_path: Path, name: str) -> None:
    settings = {"retry": {"baseDelayMs": 60000}}
    with speaking(tmp_path, name, {"error": {"message": "529 overloaded"}}, settings=settings) as agent:
        agent.send("prompt", message="go")
        agent.until("auto_retry_start")
        assert agent.get("get_state")["isStreaming"] is (name in DELTAS_ONLY)
        agent.ask("abort_retry")
        agent.until("auto_retry_end")
        assert agent.get("get_state")["isStreaming"] is False


@pytest.mark.parametrize(("name", "after"), [("2026-01", "agent_end"), ("2026-03", "message_end")])
def test_that_a_retry_has_helped_is_reported_after_the_answer_and_in_january_after_the_run(
    tmp_path: Path, name: str, after: str
) -> None:
    failing, settings = {"error": {"message": "529 overloaded"}}, {"retry": {"baseDelayMs": 1}}
    with speaking(tmp_path, name, failing, {"text": "ok"}, settings=settings) as agent:
        agent.send("prompt", message="go")
        events = agent.until("auto_retry_end")
    assert (types(events)[-2], events[-1]["success"]) == (after, True)


@pytest.mark.parametrize("name", [*NEWER, "default"])
def test_a_command_during_a_run_is_remembered_after_the_run_or_with_the_next_prompt(tmp_path: Path, name: str) -> None:
    with (
        Pipe(tmp_path / "gate") as gate,
        speaking(tmp_path, name, calls(f"read x <{gate.path}"), {"text": "ok"}) as agent,
    ):
        agent.send("prompt", message="one")
        agent.until("tool_execution_start")
        agent.ask("bash", command="echo mid")
        gate.say()
        agent.until("agent_end")
        if name in DELTAS_ONLY:
            agent.until("agent_settled")
        first = [*(["system"] if name == "1.5" else []), "user", "assistant", "toolResult", "assistant"]
        said = [message["role"] for message in agent.get("get_messages")["messages"]]
        assert said == [*first, *(["bashExecution"] if name in DELTAS_ONLY else [])]
        run(agent, "two")
        said = [message["role"] for message in agent.get("get_messages")["messages"]]
    assert said == [*first, "bashExecution", "user", "assistant"]


@pytest.mark.parametrize("name", [*NEWER, "default"])
def test_what_is_chosen_is_saved_but_not_by_the_newest(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name) as agent:
        agent.get("set_thinking_level", level="low")
        agent.get("set_steering_mode", mode="all")
        saved = json.loads(agent.settings_file.read_text(encoding="utf-8"))
    levels = {} if name == "1.5" else {"defaultThinkingLevel": "low"}
    assert saved == {**levels, "steeringMode": "all"}


@pytest.mark.parametrize("name", [*NEWER, "default"])
def test_in_the_newer_ones_a_model_named_on_the_command_line_is_kept(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name) as agent:
        run(agent, "one")
        first = agent.get("get_state")["sessionFile"]
        agent.get("new_session")
        agent.get("set_model", provider="tau", modelId="demo")
        agent.get("switch_session", sessionPath=first)
        assert agent.get("get_state")["model"]["id"] == ("demo" if name in NEWER else "scripted")


# Prompts


def document(**more: str) -> Json:
    text = base64.b64encode(b"plain words").decode()
    return {
        "id": "d",
        "type": "document",
        "fileName": "note.txt",
        "mimeType": "text/plain",
        "size": 11,
        "content": text,
        **more,
    }


@pytest.mark.parametrize("name", NAMES)
def test_attachments_are_given_to_the_model_in_every_dialect(tmp_path: Path, name: str) -> None:
    image = {
        "id": "i",
        "type": "image",
        "fileName": "a.png",
        "mimeType": "image/png",
        "size": 8,
        "content": PNG,
    }
    given = [image, document(extractedText="extracted"), document()]
    with speaking(tmp_path, name) as agent:
        events = run(agent, "look", attachments=given)
    (said,) = [e["message"] for e in events if e["type"] == "message_end" and e["message"]["role"] == "user"]
    assert said["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "text", "text": "\n\n[Document: note.txt]\nextracted", "isDocument": True},
        {"type": "text", "text": "\n\n[Document: note.txt]\nplain words", "isDocument": True},
    ]
    assert said.get("attachments") == (given if name == "2025-12" else None)


@pytest.mark.parametrize(
    ("attachment", "error"),
    [
        (
            {**document(), "content": base64.b64encode(b"\xff\x00").decode()},
            "attachments[0] (note.txt): the document is not text; send its text in extractedText",
        ),
        ({**document(), "content": "!"}, "attachments[0] (note.txt).content: not valid base64"),
        (
            {**document(), "type": "image"},
            "attachments[0] (note.txt): MIME type 'text/plain' is not one of "
            "image/png, image/jpeg, image/gif, image/webp",
        ),
    ],
)
def test_an_attachment_that_cannot_be_given_is_named(tmp_path: Path, attachment: Json, error: str) -> None:
    with speaking(tmp_path / "a", "default") as agent:
        assert agent.ask("prompt", message="x", attachments=[attachment])["error"] == error
    with speaking(tmp_path / "b", "2025-12") as agent:
        agent.send("prompt", message="x", attachments=[attachment])
        assert agent.until("error") == [{"type": "error", "error": error}]


def test_in_the_first_dialect_a_prompt_during_a_run_is_delivered_after_it(tmp_path: Path) -> None:
    with (
        Pipe(tmp_path / "gate") as gate,
        speaking(tmp_path, "2025-12", calls(f"read x <{gate.path}"), {"text": "first"}, {"text": "second"}) as agent,
    ):
        agent.send("prompt", message="one")
        agent.until("tool_execution_start")
        agent.send("prompt", message="two")
        agent.send("get_protocol")  # what was said before it has been heard when it is answered
        agent.until("protocol")
        gate.say()
        ended = agent.until("agent_end")[-1]
    roles = [message["role"] for message in ended["messages"]]
    assert roles == ["user", "assistant", "toolResult", "assistant", "user", "assistant"]
    assert agent.responses == []


def test_forks_answer_by_the_name_that_they_were_asked_by(tmp_path: Path) -> None:
    with speaking(tmp_path, "2026-01") as agent:
        run(agent, "first")
        (point,) = agent.get("get_branch_messages")["messages"]
        forked = agent.ask("branch", entryId=point["entryId"])
    assert {key: forked[key] for key in ("command", "success", "data")} == {
        "command": "branch",
        "success": True,
        "data": {"text": "first", "cancelled": False},
    }


# Steering


def steered(folder: Path, name: str, *, side_by_side: bool = False, **settings: Any) -> list[Json]:
    """The events of a run with two calls, steered while the first waits; `side_by_side`: the second ends first."""
    with Pipe(folder / "gate") as gate:
        both = calls(f"read x <{gate.path}; echo one", "echo two")
        with speaking(folder, name, both, {"text": "done"}, settings=settings) as agent:
            agent.send("prompt", message="go")
            events = agent.until("tool_execution_start")
            agent.get("steer", message="stop that")
            if side_by_side:
                events += agent.until("tool_execution_end")
            gate.say()
            return events + agent.until("agent_end")


def results(events: list[Json]) -> list[tuple[str, bool]]:
    (first, *_) = [event for event in events if event["type"] == "turn_end"]
    return [(result["content"][0]["text"], result["isError"]) for result in first["toolResults"]]


@pytest.mark.parametrize("name", ["default", "2026-03", "2026-01"])
def test_steering_skips_the_tools_that_have_not_begun(tmp_path: Path, name: str) -> None:
    skipped = "Skipped due to queued user message."
    assert results(steered(tmp_path, name)) == [("one\n", False), (skipped, True)]


@pytest.mark.parametrize("name", ["0.73", "1.5"])
def test_in_the_newer_ones_the_tools_of_an_answer_all_run_and_side_by_side(tmp_path: Path, name: str) -> None:
    events = steered(tmp_path, name, side_by_side=True)
    assert results(events) == [("one\n", False), ("two\n", False)]
    ended = [event["toolCallId"] for event in events if event["type"] == "tool_execution_end"]
    assert ended == ["call_1", "call_0"]


def test_the_tools_of_an_answer_can_all_run_one_by_one(tmp_path: Path) -> None:
    events = steered(tmp_path, "1.5", toolExecution="sequential")
    assert results(events) == [("one\n", False), ("two\n", False)]
    ended = [event["toolCallId"] for event in events if event["type"] == "tool_execution_end"]
    assert ended == ["call_0", "call_1"]


@pytest.mark.parametrize("name", WITH_RESPONSES)
def test_results_of_edit_are_worded_as_in_the_release_of_the_dialect(tmp_path: Path, name: str) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha\n")
    edit = {"path": "a.txt", "oldText": "alpha", "newText": "beta"}
    call = {"blocks": [{"tool": "edit", "arguments": edit}]}
    with speaking(tmp_path, name, call, {"text": "done"}) as agent:
        (end,) = (event for event in run(agent, "go") if event["type"] == "tool_execution_end")
    old = name not in ("default", *NEWER)
    assert end["result"]["content"][0]["text"] == f"Successfully replaced {'text' if old else '1 block(s)'} in a.txt."
    assert ("patch" in end["result"]["details"]) is (name in ("default", *DELTAS_ONLY))


@pytest.mark.parametrize("name", WITH_RESPONSES)
def test_a_short_conversation_is_compacted_by_pi_up_to_0_80(tmp_path: Path, name: str) -> None:
    with speaking(tmp_path, name, {"text": "hello"}, {"text": "a summary"}) as agent:
        run(agent, "hi")
        response = agent.ask("compact")
        refused = "Nothing to compact (session too small)"
        assert response.get("error") == (refused if name in ("default", *DELTAS_ONLY) else None)
        if response["success"]:
            assert response["data"]["summary"].startswith("a summary")


@pytest.mark.parametrize("name", ["0.73", "default"])
def test_pi_0_73_has_no_level_max(tmp_path: Path, name: str) -> None:
    levels = {"max": "max", "xhigh": "xhigh"}
    model = {"id": "m1", "name": "M1", "reasoning": True, "thinkingLevelMap": levels}
    models = {"providers": {"lab": {"baseUrl": "http://127.0.0.1:9", "api": "openai-completions", "apiKey": "k"}}}
    models["providers"]["lab"]["models"] = [model]  # type: ignore[assignment]
    args = ["--dialect", name, "--provider", "lab", "--model", "m1", "--thinking", "max"]
    with Agent(tmp_path, models=models, offline=False, args=args) as agent:
        state = agent.get("get_state")
        listed = agent.get("get_available_models")["models"][0]
    new = name == "default"
    assert ("max" in listed["thinkingLevelMap"], "max" in state["model"]["thinkingLevelMap"]) == (new, new)
    assert state["thinkingLevel"] == ("max" if new else "xhigh")
