"""A conversation that goes on with another model, of the same API or any other: recorded answers, told on."""

from __future__ import annotations

from typing import Any

import pytest

from support.loop_kit import for_model, user
from support.recorded_streams import Reading, recorded, recorded_frames
from tau.llm import apis
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import encode, replace
from tau.records.messages import Assistant, Text, Thinking, ToolResult
from tau.records.models import Model

STREAMS = {
    "anthropic-messages": recorded("anthropic"),
    "openai-completions": recorded("openai_chat"),
    "openai-responses": recorded("openai_responses"),
    "google-generative-ai": recorded("google"),
    "bedrock-converse-stream": recorded_frames("bedrock_converse"),
}
# What only the model that said it may get back.
SIGNATURES = {
    "anthropic-messages": ['"signature":"c2ln"'],
    "openai-completions": ['"reasoning_content":"Let me see ü"'],
    "openai-responses": ["gAAAA", '"id":"msg_1"', '"id":"fc_1"'],
    "google-generative-ai": ["c2lnLTE=", "c2lnLTI="],
    "bedrock-converse-stream": ['"signature":"c2ln"', "cGF5bG9hZA=="],
}


def model(api: str, id: str = "m") -> Model:
    return Model(id, "M", api, "lab", "http://lab", reasoning=True)


def answer(api: str) -> Assistant:
    reading = Reading(apis.load_api(api), model(api), STREAMS[api])
    return reading.end().done.message


def told_on(said: Assistant, to: Model) -> str:
    """The request in which `to` goes on with what was said."""
    results = [ToolResult(call.id, call.name, [Text("a")]) for call in said.tool_calls]
    messages = for_model([user("hi"), said, *results, user("go on")], to)
    request = apis.load_api(to.api).request(to, ModelContext("", messages, []), CallOptions("k", "medium"))
    return encode(request.body).decode()


@pytest.mark.parametrize("api", STREAMS)
def test_the_same_model_gets_back_what_it_signed(api: str) -> None:
    body = told_on(answer(api), model(api))
    assert [signature for signature in SIGNATURES[api] if signature not in body] == []


@pytest.mark.parametrize("to", STREAMS)
@pytest.mark.parametrize("api", STREAMS)
def test_another_model_gets_the_words_but_no_thinking_and_no_signature(api: str, to: str) -> None:
    body = told_on(answer(api), model(to, "another"))
    assert [signature for signature in SIGNATURES[api] if signature in body] == []
    assert "Hello, 😀" in body and "echo é" in body
    assert "Let me see ü" not in body
    assert "redacted" not in body.lower()


@pytest.mark.parametrize("to", STREAMS)
@pytest.mark.parametrize("api", STREAMS)
def test_results_are_found_by_their_calls(api: str, to: str) -> None:
    said = answer(api)
    body: Any = (
        apis.load_api(to)
        .request(
            model(to, "another"),
            ModelContext(
                "",
                for_model(
                    [said, *(ToolResult(c.id, c.name, [Text("a")]) for c in said.tool_calls)], model(to, "another")
                ),
                [],
            ),
            CallOptions(),
        )
        .body
    )
    calls, results = FOUND[to](body)
    assert len(calls) == len(said.tool_calls)
    assert calls == results


def _anthropic(body: Any) -> tuple[list[Any], list[Any]]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def _chat(body: Any) -> tuple[list[Any], list[Any]]:
    calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    return calls, [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]


def _responses(body: Any) -> tuple[list[Any], list[Any]]:
    calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    return calls, [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]


def _google(body: Any) -> tuple[list[Any], list[Any]]:
    parts = [part for turn in body["contents"] for part in turn["parts"]]
    calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
    return calls, [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]


def _bedrock(body: Any) -> tuple[list[Any], list[Any]]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    return calls, [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]


FOUND = {
    "anthropic-messages": _anthropic,
    "openai-completions": _chat,
    "openai-responses": _responses,
    "google-generative-ai": _google,
    "bedrock-converse-stream": _bedrock,
}


@pytest.mark.parametrize("to", STREAMS)
def test_an_answer_of_another_model_that_is_only_thinking_is_left_out(to: str) -> None:
    thought = replace(answer("anthropic-messages"), content=[Thinking("Let me see", "c2ln")], stop_reason="stop")
    other = model(to, "another")
    assert told_on(thought, other) == told_on(replace(thought, stop_reason="error"), other)


@pytest.mark.parametrize("to", STREAMS)
def test_an_answer_that_failed_is_not_sent_to_the_model(to: str) -> None:
    failed = replace(answer("openai-responses"), stop_reason="error")
    body = told_on(failed, model(to))
    assert "Hello, 😀" not in body and "echo é" not in body and "call_a" not in body
