"""Results in a shape: the model hands one in, mends it, or is asked for it; the client gets it as an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.rpc_agent import Agent
from support.rpc_process import Json, kinds, of, said, texts

VERDICT = {
    "type": "object",
    "properties": {"good": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["good"],
}


def hands_in(**arguments: Any) -> Json:
    return {"blocks": [{"tool": "return_result", "arguments": arguments, "id": "r"}]}


def output(events: list[Json]) -> Json:
    (event,) = of("structured_output", events)
    return event


def test_the_result_is_what_the_model_hands_in_and_ends_the_run(tmp_path: Path) -> None:
    with Agent(tmp_path, hands_in(good=True, why="tested"), {"text": "never said"}) as agent:
        events = agent.prompt("review", outputSchema=VERDICT)
        assert output(events) == {"type": "structured_output", "value": {"good": True, "why": "tested"}}
        assert kinds(events)[-4:] == ["turn_end", "structured_output", "agent_end", "agent_settled"]
        assert len(said(events, "assistant")) == 1


def test_an_invalid_result_is_returned_to_the_model_and_corrected(tmp_path: Path) -> None:
    with Agent(tmp_path, hands_in(good="perhaps"), hands_in(good=False)) as agent:
        events = agent.prompt("review", outputSchema=VERDICT)
        first, second = said(events, "toolResult")
        assert (first["isError"], second["isError"]) == (True, False)
        assert "good: must be boolean" in first["content"][0]["text"]
        assert output(events)["value"] == {"good": False}


def test_a_model_that_only_talks_is_reminded(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "Looks good to me."}, hands_in(good=True)) as agent:
        events = agent.prompt("review", outputSchema=VERDICT)
        (reminder,) = said(events, "custom")
        assert (reminder["customType"], reminder["display"]) == ("structured_output", False)
        assert output(events)["value"] == {"good": True}


def test_a_model_that_never_does_it_is_asked_three_times_in_all(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "no"}, hands_in(good="no"), {"text": "no!"}) as agent:
        events = agent.prompt("review", outputSchema=VERDICT)
        assert len(said(events, "assistant")) == 3
        assert output(events) == {
            "type": "structured_output",
            "error": "The model handed in no result that fits the schema (3 attempts).",
        }
        assert kinds(events)[-3:] == ["agent_end", "structured_output", "agent_settled"]


def test_a_schema_that_is_nested_too_deeply_is_refused_in_words(tmp_path: Path) -> None:
    def within(levels: int) -> bytes:
        return b'{"properties":{"a":' * levels + b"{}" + b"}}" * levels

    with Agent(tmp_path, hands_in(good=True)) as agent:
        answers = [
            agent.answer_to(b'{"type":"prompt","message":"x","outputSchema":%b}' % within(levels))
            for levels in (150, 2_000, 4_000)
        ]
        assert [answer["error"] for answer in answers] == ["Failed to parse command: nested too deeply"] * 3
        assert "Traceback" not in agent.stderr


def test_a_result_may_be_anything(tmp_path: Path) -> None:
    with Agent(tmp_path, hands_in(result=["a", "b"])) as agent:
        events = agent.prompt("list", outputSchema={"type": "array", "items": {"type": "string"}})
        assert output(events)["value"] == ["a", "b"]


def test_the_tool_is_there_for_that_prompt_only(tmp_path: Path) -> None:
    with Agent(tmp_path, hands_in(good=True)) as agent:
        agent.prompt("review", outputSchema=VERDICT)
        agent.ask("prompt", message="go on")
        agent.until("tool_execution_end")
        agent.ask("abort")
        events = agent.settled()
        assert of("structured_output", events) == []
        assert "Tool return_result not found" in json.dumps(agent.events)


def test_a_failure_is_reported_in_place_of_the_result(tmp_path: Path) -> None:
    failing = {"text": "", "error": {"message": "401 no such key"}}
    with Agent(tmp_path, failing) as agent:
        assert output(agent.prompt("review", outputSchema=VERDICT))["error"] == "401 no such key"


def test_another_try_after_a_failure_is_after_the_same_result(tmp_path: Path) -> None:
    failing = {"text": "", "error": {"message": "529 overloaded"}}
    with Agent(tmp_path, failing, hands_in(good=True), settings={"retry": {"baseDelayMs": 1}}) as agent:
        assert output(agent.prompt("review", outputSchema=VERDICT))["value"] == {"good": True}


def test_a_budget_counts_here_too(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "no"}, args=["--max-turns", "1"]) as agent:
        events = agent.prompt("review", outputSchema=VERDICT)
        assert output(events)["error"] == "Stopped: the limit of 1 turns was reached."
        assert kinds(events)[-4:] == ["budget_exceeded", "agent_end", "structured_output", "agent_settled"]


def test_a_schema_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with Agent(tmp_path) as agent:
        response = agent.ask("prompt", message="go", outputSchema={"properties": {"a": {"if": {}}}})
        assert response["error"] == "outputSchema: /properties/a/if: this keyword is not supported"


def test_a_message_that_is_queued_cannot_bring_its_own(tmp_path: Path) -> None:
    with Agent(tmp_path, {"text": "a", "hangAfter": 1}) as agent:
        agent.ask("prompt", message="go")
        refused = agent.ask("prompt", message="and", streamingBehavior="followUp", outputSchema=VERDICT)
        assert refused["error"].startswith("A message that is queued cannot have an outputSchema")


def test_a_file_on_the_command_line_holds_for_every_prompt(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(VERDICT))
    with Agent(tmp_path, hands_in(good=True), args=["--output-schema", str(schema)]) as agent:
        for _ in range(2):
            assert output(agent.prompt("review"))["value"] == {"good": True}


def test_the_next_prompt_follows_the_result_in_the_conversation(tmp_path: Path) -> None:
    with Agent(tmp_path, hands_in(good=True), {"text": "You are welcome."}) as agent:
        agent.prompt("review", outputSchema=VERDICT)
        assert texts(agent.prompt("thanks"), "assistant") == ["You are welcome."]
        roles = [message["role"] for message in agent.get("get_messages")["messages"]]
        assert roles == ["user", "assistant", "toolResult", "user", "assistant"]
