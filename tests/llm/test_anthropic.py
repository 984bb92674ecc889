from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from support.loop_kit import assistant, byte_by_byte, call, new_draft, user
from tau import llm
from tau.core.agent.draft import Draft, MessageDone, Update
from tau.core.conversation.provider_messages import ModelMessage
from tau.core.models.failures import is_transient
from tau.errors import ModelError
from tau.llm.anthropic import Reader, conversation, request, token_limits
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.base import UNSET, encode, parse, replace
from tau.records.deltas import (
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model, ThinkingLevel
from tau.wire.sse import SSEDecoder
from tau.wire.unfinished import PartialJson

MODEL = Model(
    "claude-x",
    "Claude X",
    "anthropic-messages",
    "anthropic",
    "https://api.example.com",
    reasoning=True,
    max_tokens=64000,
)
SMALL = replace(MODEL, max_tokens=8192)
CACHED = {"cache_control": {"type": "ephemeral"}}


@dataclass(frozen=True)
class Offered:
    name: str
    description: str
    parameters: dict[str, Any]


BASH = Offered("bash", "run", {"type": "object", "properties": {}})


def asked(
    *messages: ModelMessage, model: Model = MODEL, thinking: ThinkingLevel = "off", **options: Any
) -> ModelRequest:
    return request(model, ModelContext("Be nice.", messages, [BASH]), CallOptions("secret-key", thinking, **options))


# What is sent.


def spoken(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    return [*conversation(messages)]


def test_a_request_has_all_its_parts() -> None:
    assert asked(user("hi"), thinking="low") == ModelRequest(
        "https://api.example.com/v1/messages",
        {
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14",
            "x-api-key": "secret-key",
        },
        {
            "model": "claude-x",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **CACHED}]}],
            "max_tokens": 34048,
            "stream": True,
            "system": [{"type": "text", "text": "Be nice.", **CACHED}],
            "tools": [{"name": "bash", "description": "run", "input_schema": {"type": "object", "properties": {}}}],
            "thinking": {"type": "enabled", "budget_tokens": 2048},
        },
    )


def test_what_there_is_none_of_is_left_out() -> None:
    bare = request(MODEL, ModelContext("", [], []), CallOptions())
    assert list(bare.body) == ["model", "messages", "max_tokens", "stream"]
    assert "x-api-key" not in bare.headers


def test_a_model_may_bring_headers_and_another_address() -> None:
    own = replace(MODEL, base_url="http://localhost:1234/", headers={"x-team": "a", "anthropic-beta": "none"})
    sent = asked(user("hi"), model=own)
    assert sent.url == "http://localhost:1234/v1/messages"
    assert (sent.headers["x-team"], sent.headers["anthropic-beta"]) == ("a", "none")


@pytest.mark.parametrize(
    ("model", "level", "max_tokens", "budget"),
    [
        (MODEL, "off", 32000, 0),
        (MODEL, "minimal", 33024, 1024),
        (MODEL, "low", 34048, 2048),
        (MODEL, "medium", 40192, 8192),
        (MODEL, "high", 48384, 16384),
        (MODEL, "xhigh", 48384, 16384),
        (SMALL, "off", 8192, 0),
        (SMALL, "minimal", 8192, 1024),
        (SMALL, "low", 8192, 2048),
        (SMALL, "medium", 8192, 7168),
        (SMALL, "high", 8192, 7168),
        (replace(MODEL, max_tokens=1000), "high", 1000, 0),
        (replace(MODEL, reasoning=False), "high", 32000, 0),
    ],
)
def test_thinking_gets_its_budget_within_the_limit_of_the_model(
    model: Model, level: ThinkingLevel, max_tokens: int, budget: int
) -> None:
    assert token_limits(model, level, {}) == (max_tokens, budget)
    body = asked(user("hi"), model=model, thinking=level).body
    assert (body["max_tokens"], body.get("thinking", {}).get("budget_tokens", 0)) == (max_tokens, budget)


def test_the_user_may_set_budgets() -> None:
    assert asked(user("hi"), thinking="low", budgets={"low": 4000}).body["thinking"]["budget_tokens"] == 4000


def test_results_of_one_turn_travel_in_one_message() -> None:
    one, two = call("one", a=1), call("two")
    said = [
        user("go"),
        assistant("ok", one, two),
        ToolResult(one.id, "one", [Text("1"), Text("more")]),
        ToolResult(two.id, "two", [Text("no")], {}, True),
        user("and"),
    ]
    assert spoken(said) == [
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
    sent = spoken([assistant(call("ls")), ToolResult("call_ls", "ls", [Text("a")])])
    assert sent[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "call_ls", "content": "a", "is_error": False, **CACHED}
    ]


def test_images_are_sent_as_base64() -> None:
    picture = Image("QUJD", "image/png")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    look, seen = User([Text("look"), picture], 0), ToolResult("call_ls", "ls", [Text("a"), picture])
    sent = spoken([look, assistant(call("ls")), seen, user("x")])
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
    assert spoken([assistant(*content)])[0]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "payload"},
        {"type": "text", "text": "unsigned"},
        {"type": "text", "text": "yes"},
    ]


def test_signed_thinking_is_handed_back_even_if_it_is_empty() -> None:
    sent = spoken([assistant(Thinking("", "sig"), "yes")])
    assert sent[0]["content"][0] == {"type": "thinking", "thinking": "", "signature": "sig"}


def test_empty_text_is_never_sent() -> None:
    picture = Image("QUJD", "image/png")
    seen = ToolResult("call_ls", "ls", [Text(" "), picture])
    sent = spoken([user(" "), User([Text(""), picture], 0), assistant("", call("ls")), seen])
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    blocks = [block for message in sent for block in message["content"]]
    assert [block["type"] for block in blocks] == ["image", "tool_use", "tool_result"]
    assert [block["type"] for block in blocks[2]["content"]] == ["image"]


def test_nothing_is_sent_that_is_no_utf8() -> None:
    bad = "a\ud800b"
    said = [user(bad), assistant(bad, Thinking(bad, "sig"), call("ls", path=bad, more=[{bad: bad}]))]
    sent = request(MODEL, ModelContext(bad, [*said, ToolResult("call_ls", "ls", [Text(bad)])], []), CallOptions())
    assert "ud800" not in encode(sent.body).decode()
    assert sent.body["messages"][0]["content"] == [{"type": "text", "text": "ab"}]


def test_a_character_in_two_halves_is_sent_whole() -> None:
    assert spoken([user("\ud83d\ude00")])[0]["content"][0]["text"] == "😀"


# What comes back.


def event(type: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (type.encode(), encode({"type": type, **fields}))


def start(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, kind: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", **fields})


def stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


BEGIN = event(
    "message_start",
    message={"id": "msg_1", "usage": {"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": 1}},
)


def finish(reason: str | None = "end_turn", **usage: int) -> list[bytes]:
    return [event("message_delta", delta={"stop_reason": reason}, usage=usage), event("message_stop")]


RECORDED = [
    BEGIN,
    event("ping"),
    start(0, type="thinking", thinking=""),
    delta(0, "thinking", thinking="Let me "),
    delta(0, "thinking", thinking="see ü"),
    delta(0, "signature", signature="c2ln"),
    stop(0),
    start(1, type="redacted_thinking", data="payload"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, "text", text="Hello, "),
    delta(2, "text", text="😀"),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="bash", input={}),
    delta(3, "input_json", partial_json=""),
    delta(3, "input_json", partial_json='{"command":"ec'),
    delta(3, "input_json", partial_json='ho é"}'),
    stop(3),
    *finish("tool_use", output_tokens=42, cache_creation_input_tokens=7),
]
ANSWER = Assistant(
    [
        Thinking("Let me see ü", "c2ln"),
        Thinking("[Reasoning redacted]", "payload", True),
        Text("Hello, 😀"),
        ToolCall("toolu_1", "bash", {"command": "echo é"}),
    ],
    "anthropic-messages",
    "anthropic",
    "claude-x",
    Usage(10, 42, 3, 7, 62),
    "toolUse",
    0,
    response_id="msg_1",
)


class Reading:
    """One response being read: what was told so far, and its draft."""

    def __init__(self, portions: Iterable[bytes] = ()) -> None:
        self.draft = Draft(MODEL, 0, PartialJson)
        self.told: list[Any] = []
        self._sse, self._reader = SSEDecoder(), Reader(self.draft)
        for portion in portions:
            self.feed(portion)

    def feed(self, portion: bytes) -> None:
        for name, data in self._sse.feed(portion):
            self.told += self._reader.read(name, data)

    def end(self) -> None:
        self.told += self._reader.end()

    @property
    def deltas(self) -> list[Any]:
        return [fact.delta for fact in self.told if isinstance(fact, Update)]


DELTAS = [
    ThinkingStart(0),
    ThinkingDelta(0, "Let me "),
    ThinkingDelta(0, "see ü"),
    ThinkingEnd(0, "Let me see ü"),
    ThinkingStart(1),
    ThinkingDelta(1, "[Reasoning redacted]"),
    ThinkingEnd(1, "[Reasoning redacted]"),
    TextStart(2),
    TextDelta(2, "Hello, "),
    TextDelta(2, "😀"),
    TextEnd(2, "Hello, 😀"),
    ToolCallStart(3, "toolu_1", "bash"),
    ToolCallDelta(3, ""),
    ToolCallDelta(3, '{"command":"ec'),
    ToolCallDelta(3, 'ho é"}'),
    ToolCallEnd(3, ToolCall("toolu_1", "bash", {"command": "echo é"})),
]


@pytest.mark.parametrize(
    "portions", [[b"".join(RECORDED)], RECORDED, byte_by_byte(b"".join(RECORDED))], ids=["whole", "events", "bytes"]
)
def test_a_recorded_answer_is_read_however_it_is_cut(portions: list[bytes]) -> None:
    reading = Reading(portions)
    assert reading.deltas == DELTAS
    assert reading.told[-1] == MessageDone(ANSWER)


@pytest.mark.parametrize("count", range(len(RECORDED)))
def test_a_stream_cut_after_any_event_is_an_error_and_never_an_answer(count: int) -> None:
    reading = Reading(RECORDED[:count])
    with pytest.raises(ModelError) as caught:
        reading.end()
    assert caught.value.transient is True
    assert not any(isinstance(fact, MessageDone) for fact in reading.told)
    kept = reading.draft.fail("error", str(caught.value)).message.content
    assert [type(block) for block in kept] == [type(block) for block in ANSWER.content[: len(kept)]]


ARGUMENTS = '{"command":"rm -rf /tmp/é/😀 \\u00e9","n":[1,{"a":null}]}'


def calling(*pieces: str, reason: str = "tool_use") -> Reading:
    sent = [delta(0, "input_json", partial_json=piece) for piece in pieces]
    return Reading([BEGIN, start(0, type="tool_use", id="t", name="bash", input={}), *sent, stop(0), *finish(reason)])


@pytest.mark.parametrize("cut", range(1, len(ARGUMENTS)))
def test_arguments_cut_anywhere_never_become_a_call_that_can_run(cut: int) -> None:
    done = calling(ARGUMENTS[:cut]).told[-1]
    assert done.unreadable == {0: ARGUMENTS[:cut]}


@pytest.mark.parametrize("cut", range(len(ARGUMENTS)))
def test_arguments_may_come_in_any_pieces(cut: int) -> None:
    done = calling(ARGUMENTS[:cut], ARGUMENTS[cut:]).told[-1]
    assert done.unreadable == {}
    assert done.message.tool_calls == [ToolCall("t", "bash", parse(ARGUMENTS.encode()))]


def test_arguments_that_come_whole_with_the_call_are_taken() -> None:
    reading = Reading(
        [BEGIN, start(0, type="tool_use", id="t", name="ls", input={"a": 1}), stop(0), *finish("tool_use")]
    )
    assert reading.deltas[1:] == [ToolCallDelta(0, '{"a":1}'), ToolCallEnd(0, ToolCall("t", "ls", {"a": 1}))]


def test_arguments_that_come_with_the_call_survive_empty_pieces() -> None:
    begin = start(0, type="tool_use", id="t", name="ls", input={"path": "sub"})
    empty = [delta(0, "input_json", partial_json=piece) for piece in ("", " ")]
    for end in ([stop(0)], []):
        done = Reading([BEGIN, begin, *empty, *end, *finish("tool_use")]).told[-1]
        assert done == MessageDone(done.message)
        assert done.message.tool_calls == [ToolCall("t", "ls", {"path": "sub"})]


def test_arguments_in_pieces_replace_those_that_came_with_the_call() -> None:
    begin = start(0, type="tool_use", id="t", name="ls", input={"path": "sub"})
    pieces = [delta(0, "input_json", partial_json=piece) for piece in ("", '{"path":', '"other"}')]
    done = Reading([BEGIN, begin, *pieces, stop(0), *finish("tool_use")]).told[-1]
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
    reading = Reading([BEGIN, begin, delta(0, "thinking", thinking="hm"), *signed, *end, *finish()])
    assert reading.told[-1].message.content == [Thinking("hm", signature)]


def test_text_that_comes_with_the_start_of_a_block_is_taken() -> None:
    reading = Reading([BEGIN, start(0, type="text", text="Hel"), delta(0, "text", text="lo"), stop(0), *finish()])
    assert reading.told[-1].message.text == "Hello"


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "toolUse"),
    ],
)
def test_every_known_stop_reason_has_its_meaning(reason: str, ours: str) -> None:
    assert Reading([BEGIN, *finish(reason)]).told[-1].message.stop_reason == ours


@pytest.mark.parametrize("reason", ["refusal", "sensitive", "zork", None])
def test_a_refusal_or_an_unknown_stop_reason_is_an_error(reason: str | None) -> None:
    with pytest.raises(ModelError) as caught:
        Reading([BEGIN, *finish(reason)])
    assert str(reason) in str(caught.value)
    assert caught.value.transient is False


def test_an_error_in_the_stream_is_reported_in_its_own_words() -> None:
    reading = Reading([BEGIN, start(0, type="text", text=""), delta(0, "text", text="half")])
    with pytest.raises(ModelError) as caught:
        reading.feed(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    assert str(caught.value) == '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    assert is_transient(str(caught.value))
    assert reading.draft.message("error").content == [Text("half")]


def test_later_counts_replace_earlier_ones_where_they_are_given() -> None:
    assert Reading([BEGIN, *finish(output_tokens=5)]).told[-1].message.usage == Usage(10, 5, 3, 0, 18)
    assert Reading([BEGIN, *finish(input_tokens=11)]).told[-1].message.usage == Usage(11, 1, 3, 0, 15)


def test_blocks_and_events_of_a_newer_api_are_passed_over() -> None:
    reading = Reading(
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
    reading = Reading([BEGIN, start(0, type="text", text=""), delta(0, "text", text="hi"), *finish()])
    assert reading.deltas[-1] == TextEnd(0, "hi")


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {not json\n\n",
        b"event: message_start\ndata: []\n\n",
        b'data: {"type":["message_start"]}\n\n',
        event("message_start"),
        event("message_start", message=5),
        event("content_block_start", index=1),
        start(1),
        start(1, type="tool_use", name="ls"),
        start(1, type="tool_use", id=None, name="ls"),
        start(1, type="tool_use", id="t", name=5),
        start(1, type="text", text=5),
        start(1, type="redacted_thinking"),
        event("content_block_delta", index=0),
        delta(0, "text"),
        delta(0, "text", text=None),
        delta(0, "text", text=5),
        delta(0, "thinking", thinking=["a"]),
        delta(0, "input_json", partial_json={"a": 1}),
        delta(0, "signature", signature=5),
        event("content_block_stop"),
        event("message_delta", delta=None),
        event("message_delta", delta={"stop_reason": ["end_turn"]}) + event("message_stop"),
    ],
)
def test_a_malformed_event_is_an_error_and_what_came_before_is_kept(bad: bytes) -> None:
    reading = Reading([BEGIN, start(0, type="text", text=""), delta(0, "text", text="half")])
    with pytest.raises(ModelError):
        reading.feed(bad)
    assert reading.draft.message("error").content[0] == Text("half")


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
    assert (sent.body["thinking"], sent.body["output_config"]) == ({"type": "adaptive"}, {"effort": effort})
    assert sent.body["max_tokens"] == 32000
    assert sent.headers["anthropic-beta"] == "fine-grained-tool-streaming-2025-05-14"


def test_a_model_that_decides_may_be_told_not_to_think_or_in_its_own_words() -> None:
    assert {"thinking", "output_config"}.isdisjoint(asked(user("hi"), model=NEWER).body)
    own = replace(MODEL, compat={"forceAdaptiveThinking": True}, thinking_level_map={"high": "very"})
    assert asked(user("hi"), model=own, thinking="high").body["output_config"] == {"effort": "very"}


def test_an_answer_may_be_as_long_as_the_caller_wants() -> None:
    assert asked(user("hi"), max_tokens=1000).body["max_tokens"] == 1000
    assert asked(user("hi"), thinking="low", max_tokens=1000).body["max_tokens"] == 3048
    assert asked(user("hi"), model=SMALL, max_tokens=100000).body["max_tokens"] == 8192


def test_only_anthropic_keeps_a_cache_for_an_hour_and_it_may_be_told_not_to() -> None:
    def marks(model: Model, retention: str) -> list[Any]:
        body = asked(user("hi"), model=model, environment={"PI_CACHE_RETENTION": retention}).body
        return [body["system"][0].get("cache_control"), body["messages"][0]["content"][0].get("cache_control")]

    own = replace(MODEL, base_url="https://api.anthropic.com")
    assert marks(own, "long") == [{"type": "ephemeral", "ttl": "1h"}] * 2
    assert marks(MODEL, "long") == [{"type": "ephemeral"}] * 2
    assert marks(own, "none") == [None, None]


def test_a_model_that_signs_nothing_may_want_its_thinking_back() -> None:
    other = replace(MODEL, compat={"allowEmptySignature": True})
    sent = asked(assistant(Thinking("hm"), Thinking(" "), "yes"), model=other).body["messages"][0]["content"]
    assert sent == [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "yes"}]


@pytest.mark.parametrize(
    "id", ["claude-3-5-sonnet-20241022", "claude-sonnet-4-20250514", "claude-haiku-4-5", "kimi-k3"]
)
def test_older_models_are_told_a_budget(id: str) -> None:
    assert asked(user("hi"), model=replace(MODEL, id=id), thinking="low").body["thinking"]["budget_tokens"] == 2048
