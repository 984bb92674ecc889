from __future__ import annotations

from typing import Any

import pytest

from support.loop_kit import assistant, call, user
from support.readers.openai_responses import (
    MODEL,
    TEXT,
    added,
    delta,
    done,
    event,
    finished,
)
from support.recorded_streams import BASH, Reading, asking, fails
from tau.core.agent.draft import MessageDone
from tau.errors import ModelError
from tau.llm import openai_responses as api
from tau.llm.openai_responses import conversation
from tau.llm.types import CallOptions, ModelContext, ModelRequest
from tau.records.base import encode, replace
from tau.records.deltas import (
    TextDelta,
)
from tau.records.messages import Image, Text, Thinking, ToolCall, ToolResult, Usage, UsageCost, User
from tau.records.models import Model, Price, ThinkingLevel

PICTURE = Image("QUJD", "image/png")
SHOWN = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"}


def wire_messages(*messages: Any, model: Model = MODEL, system: str = "") -> list[dict[str, Any]]:
    return conversation(model, ModelContext(system, messages, []))


def output(text: str, **more: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part], "status": "completed", **more}


# What is sent.


def test_a_request_has_all_its_parts() -> None:
    assert asking(api, MODEL, user("hi"), thinking="medium", session_id="s-1") == ModelRequest(
        "https://api.openai.com/v1/responses",
        {"session_id": "s-1", "x-client-request-id": "s-1", "authorization": "Bearer secret-key"},
        {
            "model": "m-resp",
            "input": [
                {"role": "developer", "content": "Be nice."},
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
            "stream": True,
            "store": False,
            "max_output_tokens": 8192,
            "prompt_cache_key": "s-1",
            "tools": [
                {
                    "type": "function",
                    "name": "bash",
                    "description": "run",
                    "parameters": BASH.parameters,
                    "strict": False,
                }
            ],
            "reasoning": {"effort": "medium", "summary": "auto"},
            "include": ["reasoning.encrypted_content"],
        },
    )


def test_what_there_is_none_of_is_left_out() -> None:
    bare = api.request(replace(MODEL, reasoning=False), ModelContext("", [], []), CallOptions(thinking="high"))
    assert list(bare.body) == ["model", "input", "stream", "store", "max_output_tokens"]
    assert bare.headers == {}


def test_a_model_that_does_not_think_has_a_system_prompt() -> None:
    assert wire_messages(model=replace(MODEL, reasoning=False), system="x") == [{"role": "system", "content": "x"}]
    assert (
        wire_messages(model=replace(MODEL, compat={"supportsDeveloperRole": False}), system="x")[0]["role"] == "system"
    )


@pytest.mark.parametrize(
    ("mapped", "level", "reasoning"),
    [
        ({}, "off", None),
        ({"off": None}, "off", None),
        ({"off": "none"}, "off", {"effort": "none"}),
        ({}, "minimal", {"effort": "minimal", "summary": "auto"}),
        ({}, "xhigh", {"effort": "high", "summary": "auto"}),
        ({"xhigh": "xhigh"}, "xhigh", {"effort": "xhigh", "summary": "auto"}),
    ],
)
def test_thinking_is_reported_in_the_words_of_the_model(
    mapped: dict[str, str | None], level: ThinkingLevel, reasoning: dict[str, str] | None
) -> None:
    body = asking(api, replace(MODEL, thinking_level_map=mapped), thinking=level).body
    assert body.get("reasoning") == reasoning
    unthinking = body.get("reasoning") == {"effort": "none"}
    assert body.get("include", []) == ([] if unthinking else ["reasoning.encrypted_content"])


def test_a_cache_is_kept_for_a_day_where_the_server_can() -> None:
    long = {"PI_CACHE_RETENTION": "long"}
    assert asking(api, MODEL, session_id="s", environment=long).body["prompt_cache_retention"] == "24h"
    other = replace(MODEL, compat={"supportsLongCacheRetention": False})
    assert "prompt_cache_retention" not in asking(api, other, session_id="s", environment=long).body
    assert "prompt_cache_key" not in asking(api, MODEL, session_id="s", environment={"PI_CACHE_RETENTION": "none"}).body


def test_the_limit_is_what_the_caller_wants_but_never_less_than_is_accepted() -> None:
    assert asking(api, MODEL, max_tokens=1000).body["max_output_tokens"] == 1000
    assert asking(api, MODEL, max_tokens=1).body["max_output_tokens"] == 16
    assert "max_output_tokens" not in asking(api, replace(MODEL, context_window=8192)).body


REASONING = {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAA", "summary": []}


def test_an_answer_goes_back_item_by_item() -> None:
    said = [
        user("go"),
        assistant(
            Thinking("hm", encode(REASONING).decode()),
            Text("ok", "msg_1"),
            Text("so", '{"v":1,"id":"msg_2","phase":"commentary"}'),
            ToolCall("call_a|fc_1", "bash", {"a": "é"}),
            ToolCall("call_b", "bash", {}),
        ),
        ToolResult("call_a|fc_1", "bash", [Text("1"), Text("more")]),
        ToolResult("call_b", "bash", [], {}, True),
    ]
    assert wire_messages(*said) == [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        REASONING,
        output("ok", id="msg_1"),
        output("so", id="msg_2", phase="commentary"),
        {"type": "function_call", "call_id": "call_a", "name": "bash", "arguments": '{"a":"é"}', "id": "fc_1"},
        {"type": "function_call", "call_id": "call_b", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_a", "output": "1\nmore"},
        {"type": "function_call_output", "call_id": "call_b", "output": "(no tool output)"},
    ]


def test_reasoning_that_nothing_followed_is_left_out() -> None:
    signature = encode(REASONING).decode()
    assert wire_messages(assistant(Thinking("hm", signature))) == []
    assert wire_messages(assistant("yes", Thinking("hm", signature), Text(" "))) == [output("yes", id="msg_tau_0_0")]


def test_thinking_that_is_no_reasoning_item_is_left_out() -> None:
    assert wire_messages(assistant(Thinking("a"), Thinking("b", "sig"), Thinking("c", "{cut"), "yes")) == [
        output("yes", id="msg_tau_0_3")
    ]


def test_a_text_of_another_model_gets_an_id() -> None:
    assert wire_messages(assistant(Text("a", "m" * 65), "b")) == [
        output("a", id="msg_tau_0_0"),
        output("b", id="msg_tau_0_1"),
    ]


def test_images_are_sent_by_the_user_and_by_tools() -> None:
    ls = call("ls")
    sent = wire_messages(
        User([Text("look"), PICTURE], 0), assistant(ls), ToolResult(ls.id, "read", [Text("a"), PICTURE])
    )
    assert sent[0]["content"] == [{"type": "input_text", "text": "look"}, SHOWN]
    assert sent[2]["output"] == [{"type": "input_text", "text": "a"}, SHOWN]


def test_empty_text_is_never_sent() -> None:
    assert wire_messages(user(" "), User([Text(""), PICTURE], 0), assistant(" ")) == [
        {"role": "user", "content": [SHOWN]}
    ]


# Azure.

AZURE = replace(MODEL, api="azure-openai-responses", provider="azure-openai-responses", base_url="")


@pytest.mark.parametrize(
    ("environment", "base", "url"),
    [
        ({"AZURE_OPENAI_RESOURCE_NAME": "res"}, "", "https://res.openai.azure.com/openai/v1"),
        ({"AZURE_OPENAI_BASE_URL": "https://x.example/openai/v1/"}, "", "https://x.example/openai/v1"),
        ({"AZURE_OPENAI_BASE_URL": "https://res.openai.azure.com"}, "", "https://res.openai.azure.com/openai/v1"),
        (
            {"AZURE_OPENAI_BASE_URL": "https://res.cognitiveservices.azure.com/openai/"},
            "",
            "https://res.cognitiveservices.azure.com/openai/v1",
        ),
        (
            {"AZURE_OPENAI_BASE_URL": "https://a.example", "AZURE_OPENAI_RESOURCE_NAME": "res"},
            "https://b.example",
            "https://a.example",
        ),
        ({}, "https://b.example/openai/v1", "https://b.example/openai/v1"),
    ],
)
def test_azure_is_where_the_environment_says(environment: dict[str, str], base: str, url: str) -> None:
    sent = asking(api, replace(AZURE, base_url=base), environment=environment)
    assert sent.url == f"{url}/responses?api-version=v1"
    assert sent.headers == {"api-key": "secret-key"}


def test_azure_has_versions_and_names_of_its_own() -> None:
    environment = {
        "AZURE_OPENAI_RESOURCE_NAME": "res",
        "AZURE_OPENAI_API_VERSION": "2025-04-01-preview",
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "other=x, m-resp = mine ,bad,=,",
    }
    sent = asking(api, AZURE, environment=environment)
    assert sent.url.endswith("?api-version=2025-04-01-preview")
    assert sent.body["model"] == "mine"


def test_azure_without_an_address_says_what_to_set() -> None:
    with pytest.raises(ModelError, match="AZURE_OPENAI_BASE_URL or AZURE_OPENAI_RESOURCE_NAME") as caught:
        asking(api, AZURE)
    assert caught.value.transient is False


# What comes back.


def read(*events: bytes, model: Model = MODEL) -> Reading:
    return Reading(api, model, events).end()


def test_what_comes_without_pieces_is_taken_from_the_end_of_its_item() -> None:
    reading = read(
        done(0, type="message", id="m", content=[{"type": "output_text", "text": "hi"}]),
        added(1, type="function_call", id="fc_1", call_id="a", name="ls", arguments=""),
        event("function_call_arguments.done", output_index=1, arguments='{"n":1}'),
        done(1, type="function_call", id="fc_1", call_id="a", name="ls", arguments='{"n":1}'),
        added(2, type="function_call", id="fc_2", call_id="b", name="ls", arguments=""),
        done(2, type="function_call", id="fc_2", call_id="b", name="ls", arguments='{"n":2}'),
        added(3, type="function_call", call_id="c", name="ls", arguments='{"n":3}'),
        finished(),
    )
    assert reading.done.message.content == [
        Text("hi", "m"),
        ToolCall("a|fc_1", "ls", {"n": 1}),
        ToolCall("b|fc_2", "ls", {"n": 2}),
        ToolCall("c", "ls", {"n": 3}),
    ]
    assert [one.delta for one in reading.deltas if isinstance(one, TextDelta)] == ["hi"]


@pytest.mark.parametrize("given", ["", "{}", '{"old":1}'])
@pytest.mark.parametrize("pieces", [[], [""], ["{}"], ["", '{"n":', "1}"], ["{}", '{"n":1}']])
@pytest.mark.parametrize("at_the_end", ["arguments.done", "item.done", "response.completed"])
def test_empty_pieces_do_not_keep_arguments_from_being_taken(given: str, pieces: list[str], at_the_end: str) -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls"}
    whole = {**item, "arguments": '{"n":1}'}
    events = [added(0, **item, arguments=given), *(delta("function_call_arguments", 0, piece) for piece in pieces)]
    if at_the_end == "arguments.done":
        events.append(event("function_call_arguments.done", output_index=0, arguments='{"n":1}'))
    elif at_the_end == "item.done":
        events.append(done(0, **whole))
    end = finished(output=[whole] if at_the_end == "response.completed" else [])
    reading = read(*events, end)
    assert reading.done == MessageDone(reading.done.message)
    assert reading.done.message.tool_calls == [ToolCall("c|fc", "ls", {"n": 1})]


def test_arguments_that_only_came_with_the_start_of_a_call_are_taken() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls"}
    for pieces in ([], [""], ["{}"]):
        sent = [delta("function_call_arguments", 0, piece) for piece in pieces]
        reading = read(added(0, **item, arguments='{"n":1}'), *sent, done(0, **item, arguments=""), finished())
        assert reading.done.message.tool_calls == [ToolCall("c|fc", "ls", {"n": 1})]


def test_calls_without_an_id_or_with_one_twice_get_their_own() -> None:
    calls = [
        added(at, type="function_call", id=id, call_id=given, name="ls", arguments="{}")
        for at, (given, id) in enumerate([("a", "x"), ("a", "x"), ("", "y")])
    ]
    assert [one.id for one in read(*calls, finished()).done.message.tool_calls] == ["a|x", "ls_0_1", "ls_0_2"]


def test_a_phase_is_kept_with_the_text() -> None:
    reading = read(*TEXT, done(0, type="message", id="m", phase="final_answer", content=[]), finished())
    assert reading.done.message.content == [Text("half", '{"v":1,"id":"m","phase":"final_answer"}')]


def test_a_refusal_is_said() -> None:
    refusal = [{"type": "refusal", "refusal": "No."}]
    reading = read(
        added(0, type="message", id="m"),
        delta("refusal", 0, "No."),
        done(0, type="message", id="m", content=refusal),
        finished(),
    )
    assert reading.done.message.text == "No."


def test_reasoning_in_plain_words_is_read() -> None:
    content = [{"type": "reasoning_text", "text": "hm"}]
    item = {"type": "reasoning", "id": "r", "summary": [], "content": content}
    reading = read(added(0, type="reasoning", id="r"), delta("reasoning_text", 0, "hm"), done(0, **item), finished())
    assert reading.done.message.content == [Thinking("hm", encode(item).decode())]


def test_items_and_events_of_a_newer_api_are_passed_over() -> None:
    reading = read(
        added(0, type="web_search_call", id="ws"),
        event("web_search_call.searching", output_index=0),
        delta("output_text", 0, "no"),
        done(0, type="web_search_call", id="ws"),
        added(1, type="message", id="m", content=[]),
        delta("output_text", 1, "hi"),
        finished(),
    )
    assert reading.done.message.content == [Text("hi")]


def test_an_answer_that_ran_out_of_tokens_says_so() -> None:
    cut = event("incomplete", response={"incomplete_details": {"reason": "max_output_tokens"}})
    assert read(*TEXT, cut).done.message.stop_reason == "length"
    error, _ = fails(
        api, MODEL, TEXT, event("incomplete", response={"incomplete_details": {"reason": "content_filter"}})
    )
    assert "content_filter" in str(error) and error.transient is False


@pytest.mark.parametrize(
    ("details", "counted"),
    [
        ({"cached_tokens": 10, "cache_write_tokens": 43}, Usage(47, 5, 10, 43, 105, reasoning=0)),
        ({"cached_tokens": 161, "cache_write_tokens": 43}, Usage(0, 5, 100, 0, 105, reasoning=0)),
    ],
)
def test_tokens_of_the_cache_are_part_of_the_prompt(details: dict[str, int], counted: Usage) -> None:
    usage = {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": details}
    assert read(*TEXT, finished(usage=usage)).done.message.usage == counted


@pytest.mark.parametrize(("tier", "total"), [("default", 18.0), ("flex", 9.0), ("priority", 36.0), (None, 18.0)])
def test_a_service_tier_has_its_price(tier: str | None, total: float) -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    model = replace(MODEL, cost=Price(3, 15))
    counted = read(*TEXT, finished(service_tier=tier, usage=usage), model=model).done.message.usage
    assert counted == Usage(
        1_000_000, 1_000_000, 0, 0, 2_000_000, UsageCost(3 * total / 18, 15 * total / 18, 0, 0, total), 0
    )
