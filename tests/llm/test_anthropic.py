from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from support.loop_kit import assistant, call, new_draft, user
from support.readers.anthropic import ANSWER, BEGIN, DELTAS, MODEL, RECORDED, delta, event, finish, start, stop
from support.recorded_streams import BASH, Reading, fails, ways
from tau import llm
from tau.core.agent.draft import MessageDone
from tau.core.conversation.provider_messages import ModelMessage
from tau.errors import ModelError
from tau.llm import anthropic as api
from tau.llm.anthropic import conversation, request, token_limits
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.base import UNSET, parse, replace
from tau.records.deltas import (
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
)
from tau.records.messages import Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model, ThinkingLevel

SMALL = replace(MODEL, max_tokens=8192)
CACHED = {"cache_control": {"type": "ephemeral"}}


def asked(
    *messages: ModelMessage, model: Model = MODEL, thinking: ThinkingLevel = "off", **options: Any
) -> ModelRequest:
    return request(model, ModelContext("Be nice.", messages, [BASH]), CallOptions("secret-key", thinking, **options))


# What is sent.


def wire_messages(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    return [*conversation(messages)]


def test_a_request_has_all_its_parts() -> None:
    assert asked(user("hi"), thinking="low") == ModelRequest(
        "https://api.example.com/v1/messages",
        {
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "interleaved-thinking-2025-05-14",
            "x-api-key": "secret-key",
        },
        {
            "model": "claude-x",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **CACHED}]}],
            "max_tokens": 64000,
            "stream": True,
            "system": [{"type": "text", "text": "Be nice.", **CACHED}],
            "tools": [
                {
                    "name": "bash",
                    "description": "run",
                    "input_schema": {"type": "object", "properties": {}},
                    "eager_input_streaming": True,
                    **CACHED,
                }
            ],
            "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "summarized"},
        },
    )


def test_what_there_is_none_of_is_left_out() -> None:
    bare = request(replace(MODEL, reasoning=False), ModelContext("", [], []), CallOptions())
    assert list(bare.body) == ["model", "messages", "max_tokens", "stream"]
    assert "anthropic-beta" not in bare.headers
    assert "x-api-key" not in bare.headers


def test_a_model_may_bring_headers_and_another_address() -> None:
    own = replace(MODEL, base_url="http://localhost:1234/", headers={"x-team": "a", "anthropic-beta": "none"})
    sent = asked(user("hi"), model=own)
    assert sent.url == "http://localhost:1234/v1/messages"
    assert (sent.headers["x-team"], sent.headers["anthropic-beta"]) == ("a", "none")


@pytest.mark.parametrize(
    ("model", "level", "max_tokens", "budget"),
    [
        (MODEL, "off", 64000, 0),
        (MODEL, "minimal", 64000, 1024),
        (MODEL, "low", 64000, 2048),
        (MODEL, "medium", 64000, 8192),
        (MODEL, "high", 64000, 16384),
        (MODEL, "xhigh", 64000, 16384),
        (SMALL, "off", 8192, 0),
        (SMALL, "minimal", 8192, 1024),
        (SMALL, "low", 8192, 2048),
        (SMALL, "medium", 8192, 7168),
        (SMALL, "high", 8192, 7168),
        (replace(MODEL, max_tokens=1000), "high", 1000, 0),
        (replace(MODEL, reasoning=False), "high", 64000, 0),
    ],
)
def test_thinking_gets_its_budget_within_the_limit_of_the_model(
    model: Model, level: ThinkingLevel, max_tokens: int, budget: int
) -> None:
    assert token_limits(model, CallOptions(thinking=level)) == (max_tokens, budget)
    body = asked(user("hi"), model=model, thinking=level).body
    assert (body["max_tokens"], body.get("thinking", {}).get("budget_tokens", 0)) == (max_tokens, budget)


def test_the_user_may_set_budgets() -> None:
    assert asked(user("hi"), thinking="low", budgets={"low": 4000}).body["thinking"]["budget_tokens"] == 4000
    assert asked(user("hi"), thinking="xhigh", budgets={"high": 4000}).body["thinking"]["budget_tokens"] == 4000


@pytest.mark.parametrize(
    ("used", "max_tokens", "budget"),
    [(0, 64000, 16384), (150_000, 45904, 16384), (190_000, 5904, 4880), (400_000, 1, 0)],
)
def test_an_answer_and_its_thinking_fit_into_what_the_context_window_has_left(
    used: int, max_tokens: int, budget: int
) -> None:
    model = replace(MODEL, context_window=200_000)
    assert token_limits(model, CallOptions(thinking="high", context_tokens=used)) == (max_tokens, budget)


def test_a_caller_may_want_a_shorter_answer() -> None:
    assert token_limits(MODEL, CallOptions(max_tokens=1000)) == (1000, 0)
    assert token_limits(MODEL, CallOptions(thinking="low", max_tokens=1000)) == (3048, 2024)


def test_a_server_without_newer_features_gets_the_older_ones() -> None:
    compat = {"supportsEagerToolInputStreaming": False, "supportsCacheControlOnTools": False}
    sent = asked(user("hi"), model=replace(MODEL, compat=compat))
    assert sent.headers["anthropic-beta"] == "fine-grained-tool-streaming-2025-05-14"
    assert list(sent.body["tools"][0]) == ["name", "description", "input_schema"]


def test_results_of_one_turn_travel_in_one_message() -> None:
    one, two = call("one", a=1), call("two")
    said = [
        user("go"),
        assistant("ok", one, two),
        ToolResult(one.id, "one", [Text("1"), Text("more")]),
        ToolResult(two.id, "two", [Text("no")], {}, True),
        user("and"),
    ]
    assert wire_messages(said) == [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "call_one", "name": "one", "input": {"a": 1}},
                {"type": "tool_use", "id": "call_two", "name": "two", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_one", "content": "1\nmore", "is_error": False},
                {"type": "tool_result", "tool_use_id": "call_two", "content": "no", "is_error": True},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "and", **CACHED}]},
    ]


def test_the_last_result_is_where_the_cache_ends() -> None:
    sent = wire_messages([assistant(call("ls")), ToolResult("call_ls", "ls", [Text("a")])])
    assert sent[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "call_ls", "content": "a", "is_error": False, **CACHED}
    ]


def test_images_are_sent_as_base64() -> None:
    picture = Image("QUJD", "image/png")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    look, seen = User([Text("look"), picture], 0), ToolResult("call_ls", "ls", [Text("a"), picture])
    sent = wire_messages([look, assistant(call("ls")), seen, user("x")])
    assert sent[0]["content"] == [{"type": "text", "text": "look"}, image]
    assert sent[2]["content"][0]["content"] == [{"type": "text", "text": "a"}, image]


def test_thinking_is_handed_back_as_it_came() -> None:
    content = [
        Thinking("hm", "sig"),
        Thinking("[r]", "payload", True),
        Thinking("unsigned"),
        Thinking(" "),
        Text("yes"),
    ]
    assert wire_messages([assistant(*content)])[0]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "payload"},
        {"type": "text", "text": "unsigned"},
        {"type": "text", "text": "yes"},
    ]


def test_signed_thinking_is_handed_back_even_if_it_is_empty() -> None:
    sent = wire_messages([assistant(Thinking("", "sig"), "yes")])
    assert sent[0]["content"][0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_empty_text_is_never_sent() -> None:
    picture = Image("QUJD", "image/png")
    seen = ToolResult("call_ls", "ls", [Text(" "), picture])
    sent = wire_messages([user(" "), User([Text(""), picture], 0), assistant("", call("ls")), seen])
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    blocks = [block for message in sent for block in message["content"]]
    assert [block["type"] for block in blocks] == ["image", "tool_use", "tool_result"]
    assert [block["type"] for block in blocks[2]["content"]] == ["image"]


def test_a_character_in_two_halves_is_sent_whole() -> None:
    assert wire_messages([user("\ud83d\ude00")])[0]["content"][0]["text"] == "😀"


# What comes back.


def read(portions: Iterable[bytes]) -> Reading:
    return Reading(api, MODEL, portions)


ARGUMENTS = '{"command":"rm -rf /tmp/é/😀 \\u00e9","n":[1,{"a":null}]}'


def calling(*pieces: str, reason: str = "tool_use") -> Reading:
    sent = [delta(0, "input_json", partial_json=piece) for piece in pieces]
    return read([BEGIN, start(0, type="tool_use", id="t", name="bash", input={}), *sent, stop(0), *finish(reason)])


@pytest.mark.parametrize("cut", range(len(ARGUMENTS)))
def test_arguments_may_come_in_any_pieces(cut: int) -> None:
    done = calling(ARGUMENTS[:cut], ARGUMENTS[cut:]).told[-1]
    assert done.unreadable == {}
    assert done.message.tool_calls == [ToolCall("t", "bash", parse(ARGUMENTS.encode()))]


def test_arguments_that_come_whole_with_the_call_are_taken() -> None:
    reading = read([BEGIN, start(0, type="tool_use", id="t", name="ls", input={"a": 1}), stop(0), *finish("tool_use")])
    assert reading.deltas[1:] == [ToolCallDelta(0, '{"a":1}'), ToolCallEnd(0, ToolCall("t", "ls", {"a": 1}))]


def test_arguments_that_come_with_the_call_survive_empty_pieces() -> None:
    begin = start(0, type="tool_use", id="t", name="ls", input={"path": "sub"})
    empty = [delta(0, "input_json", partial_json=piece) for piece in ("", " ")]
    for end in ([stop(0)], []):
        done = read([BEGIN, begin, *empty, *end, *finish("tool_use")]).told[-1]
        assert done == MessageDone(done.message)
        assert done.message.tool_calls == [ToolCall("t", "ls", {"path": "sub"})]


def test_arguments_in_pieces_replace_those_that_came_with_the_call() -> None:
    begin = start(0, type="tool_use", id="t", name="ls", input={"path": "sub"})
    pieces = [delta(0, "input_json", partial_json=piece) for piece in ("", '{"path":', '"other"}')]
    done = read([BEGIN, begin, *pieces, stop(0), *finish("tool_use")]).told[-1]
    assert done.message.tool_calls == [ToolCall("t", "ls", {"path": "other"})]


@pytest.mark.parametrize(
    ("given", "pieces", "signature"),
    [("c2ln", [], "c2ln"), ("c2ln", [""], "c2ln"), ("c2ln", ["b3", "RoZXI="], "b3RoZXI="), ("", ["c2ln"], "c2ln")],
)
@pytest.mark.parametrize("end", [[stop(0)], []], ids=["closed", "never closed"])
def test_a_signature_may_come_with_the_start_of_thinking(
    given: str, pieces: list[str], signature: str, end: list[bytes]
) -> None:
    signed = [delta(0, "signature", signature=piece) for piece in pieces]
    begin = start(0, type="thinking", thinking="", signature=given)
    reading = read([BEGIN, begin, delta(0, "thinking", thinking="hm"), *signed, *end, *finish()])
    assert reading.told[-1].message.content == [Thinking("hm", signature)]


@pytest.mark.parametrize(
    ("begin", "pieces", "content"),
    [
        (
            start(0, type="tool_use", id="t", name="ls", input={}),
            [delta(0, "input_json", partial_json=piece) for piece in ('{"path":', '"sub"}')],
            [ToolCall("t", "ls", {"path": "sub"})],
        ),
        (start(0, type="text", text=""), [delta(0, "text", text=piece) for piece in ("Hel", "lo")], [Text("Hello")]),
    ],
    ids=["call", "text"],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_signature_in_another_block_than_thinking_changes_nothing(
    begin: bytes, pieces: list[bytes], content: list[Any], at: int
) -> None:
    signed = [*pieces[:at], delta(0, "signature", signature="c2ln"), *pieces[at:]]
    assert read([BEGIN, begin, *signed, stop(0), *finish("tool_use")]).told[-1].message.content == content


def test_a_signature_without_a_block_does_not_hide_the_text_after_it() -> None:
    stream = [BEGIN, delta(0, "signature", signature="c2ln"), delta(0, "text", text="hi"), *finish()]
    assert read(stream).told[-1].message.text == "hi"


@pytest.mark.parametrize(
    "pieces",
    [
        [stop(0), delta(0, "input_json", partial_json='{"path": "sub"}')],
        [delta(0, "text", text="x"), delta(0, "input_json", partial_json='{"path": "sub"}')],
        [delta(0, "text", text="x"), stop(0), delta(0, "input_json", partial_json='{"path": "sub"}')],
        [delta(0, "thinking", thinking="x"), delta(0, "input_json", partial_json='{"path": "sub"}')],
        [delta(0, "weather", partial_json='{"path": "sub"}')],
    ],
    ids=["ended", "text", "ended text", "thinking", "unknown"],
)
def test_arguments_that_do_not_reach_their_call_are_an_error(pieces: list[bytes]) -> None:
    begin = start(0, type="tool_use", id="t", name="ls", input={})
    with pytest.raises(ModelError, match="malformed content_block_delta event"):
        read([BEGIN, begin, *pieces, stop(0), *finish("tool_use")])


def test_text_that_comes_with_the_start_of_a_block_is_taken() -> None:
    reading = read([BEGIN, start(0, type="text", text="Hel"), delta(0, "text", text="lo"), stop(0), *finish()])
    assert reading.told[-1].message.text == "Hello"


def test_later_counts_replace_earlier_ones_where_they_are_given() -> None:
    assert read([BEGIN, *finish(output_tokens=5)]).told[-1].message.usage == Usage(10, 5, 3, 0, 18)
    assert read([BEGIN, *finish(input_tokens=11)]).told[-1].message.usage == Usage(11, 1, 3, 0, 15)


def test_tokens_of_thinking_are_part_of_the_output() -> None:
    usage = {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 4}}
    assert read([BEGIN, *finish(**usage)]).told[-1].message.usage == Usage(10, 5, 3, 0, 18, reasoning=4)


def test_blocks_and_events_of_a_newer_api_are_passed_over() -> None:
    reading = read(
        [
            BEGIN,
            event("weather", sky="blue"),
            start(0, type="hologram", shape="cube"),
            delta(0, "hologram", shape="ball"),
            stop(0),
            start(1, type="text", text=""),
            delta(1, "text", text="hi"),
            delta(1, "citations", citation={}),
            stop(1),
            *finish(),
        ]
    )
    assert reading.deltas == [TextStart(0), TextDelta(0, "hi"), TextEnd(0, "hi")]
    assert reading.told[-1].message.text == "hi"


def test_a_block_that_is_never_closed_is_closed_at_the_end() -> None:
    reading = read([BEGIN, start(0, type="text", text=""), delta(0, "text", text="hi"), *finish()])
    assert reading.deltas[-1] == TextEnd(0, "hi")


# The whole way.


class Recorded:
    """A network on which one answer is always the same."""

    def __init__(self, portions: list[bytes]) -> None:
        self.portions = portions

    async def post(self, request: ModelRequest) -> AsyncIterator[bytes]:
        for portion in self.portions:
            yield portion


def streamed(portions: list[bytes]) -> list[Any]:
    async def main() -> list[Any]:
        draft = new_draft(MODEL)
        world = CallEnvironment(Recorded(portions), asyncio.sleep)
        options = CallOptions("secret-key")
        return [
            fact
            async for facts in llm.stream(MODEL, ModelContext("", [user("hi")], []), options, draft, world)
            for fact in facts
        ]

    return asyncio.run(main())


def test_an_answer_is_streamed_from_its_beginning_to_its_end() -> None:
    begun, _, *updates, done = streamed([*RECORDED, b"data: what follows is not read\n\n"])
    assert begun.message == replace(ANSWER, content=[], usage=Usage(), stop_reason="stop", response_id=UNSET)
    assert [update.delta for update in updates] == DELTAS
    assert done == MessageDone(ANSWER)


def test_a_stream_that_ends_early_is_an_error() -> None:
    with pytest.raises(ModelError, match="ended before"):
        streamed(RECORDED[:5])


def test_an_error_in_the_stream_is_short_and_does_not_show_the_key() -> None:
    with pytest.raises(ModelError) as caught:
        streamed([BEGIN, event("error", error={"message": "bad key secret-key " + "x" * 100_000})])
    assert "secret-key" not in str(caught.value)
    assert len(str(caught.value)) <= 4096


# Newer models, and others that speak this API.

NEWER = replace(MODEL, id="claude-opus-4-6")


@pytest.mark.parametrize(
    ("id", "level", "effort"),
    [
        ("claude-opus-4-6", "minimal", "low"),
        ("claude-opus-4-6", "medium", "medium"),
        ("claude-opus-4-6", "xhigh", "max"),
        ("claude-sonnet-4.6", "xhigh", "high"),
        ("claude-sonnet-4-6", "high", "high"),
        ("us.anthropic.claude-haiku-5-5", "high", "high"),
    ],
)
def test_a_model_that_decides_how_much_to_think_is_told_how_hard(id: str, level: ThinkingLevel, effort: str) -> None:
    sent = asked(user("hi"), model=replace(MODEL, id=id), thinking=level)
    thinking = {"type": "adaptive", "display": "summarized"}
    assert (sent.body["thinking"], sent.body["output_config"]) == (thinking, {"effort": effort})
    assert sent.body["max_tokens"] == 64000
    assert "anthropic-beta" not in sent.headers


def test_a_model_that_decides_may_be_told_not_to_think_or_in_its_own_words() -> None:
    body = asked(user("hi"), model=NEWER).body
    assert (body["thinking"], "output_config" in body) == ({"type": "disabled"}, False)
    always = replace(NEWER, thinking_level_map={"off": None})
    assert "thinking" not in asked(user("hi"), model=always).body
    own = replace(MODEL, compat={"forceAdaptiveThinking": True}, thinking_level_map={"high": "very"})
    assert asked(user("hi"), model=own, thinking="high").body["output_config"] == {"effort": "very"}


def test_an_answer_may_be_as_long_as_the_caller_wants() -> None:
    assert asked(user("hi"), max_tokens=1000).body["max_tokens"] == 1000
    assert asked(user("hi"), thinking="low", max_tokens=1000).body["max_tokens"] == 3048
    assert asked(user("hi"), model=SMALL, max_tokens=100000).body["max_tokens"] == 8192


def test_a_cache_is_kept_for_an_hour_or_not_at_all_if_that_is_configured() -> None:
    def marks(model: Model, retention: str) -> list[Any]:
        body = asked(user("hi"), model=model, environment={"PI_CACHE_RETENTION": retention}).body
        return [body["system"][0].get("cache_control"), body["messages"][0]["content"][0].get("cache_control")]

    short = replace(MODEL, compat={"supportsLongCacheRetention": False})
    assert marks(MODEL, "long") == [{"type": "ephemeral", "ttl": "1h"}] * 2
    assert marks(short, "long") == [{"type": "ephemeral"}] * 2
    assert marks(MODEL, "none") == [None, None]


def test_a_model_that_signs_nothing_may_want_its_thinking_back() -> None:
    other = replace(MODEL, compat={"allowEmptySignature": True})
    sent = asked(assistant(Thinking("hm"), Thinking(" "), "yes"), model=other).body["messages"][0]["content"]
    assert sent == [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "yes"}]


@pytest.mark.parametrize(
    "id", ["claude-3-5-sonnet-20241022", "claude-sonnet-4-20250514", "claude-haiku-4-5", "kimi-k3"]
)
def test_older_models_are_told_a_budget(id: str) -> None:
    assert asked(user("hi"), model=replace(MODEL, id=id), thinking="low").body["thinking"]["budget_tokens"] == 2048


WHOLE = {
    "id": "m",
    "content": [
        {"type": "code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": "x"}},
        {"type": "text", "text": "Looking it up."},
        {"type": "tool_use", "id": "a", "name": "ls", "input": {"n": 1}, "caller": {"type": "code_execution"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 0},
}


def test_a_message_may_be_whole_in_its_start() -> None:
    for way in ways([event("message_start", message=WHOLE), event("message_stop")]):
        done = read(way).done
        assert done.message.content == [Text("Looking it up."), ToolCall("a", "ls", {"n": 1})]
        assert (done.message.stop_reason, done.message.usage.input) == ("toolUse", 3)


def test_a_message_whose_blocks_follow_is_not_read_twice() -> None:
    begin = event("message_start", message={**WHOLE, "content": [{"type": "text", "text": "hi"}]})
    done = read([begin, start(0, type="text", text=""), delta(0, "text", text="hi"), stop(0), *finish("end_turn")]).done
    assert (done.message.content, done.message.stop_reason) == ([Text("hi")], "stop")


def test_a_whole_message_without_its_end_is_no_answer() -> None:
    assert fails(api, MODEL, [event("message_start", message=WHOLE)])[0].transient is True


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "x", "explanation": "This is not allowed."}
    refused = event("message_delta", delta={"stop_reason": "refusal", "stop_details": details}, usage={})
    error, _ = fails(api, MODEL, [BEGIN, refused], event("message_stop"))
    assert str(error) == "The model refused to answer (stop reason: refusal): This is not allowed."
