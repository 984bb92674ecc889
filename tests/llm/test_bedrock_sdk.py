"""Bedrock beside the vendor's SDK: the same bytes for both readers, and requests by the SDK's model of the API."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.loop_kit import assistant, call, user
from support.readers.bedrock import MODEL, delta, start
from support.recorded_streams import BASH, Offered, Reading, aws, frame, recorded
from tau.core.models.failures import classify
from tau.errors import ModelError
from tau.llm import anthropic, bedrock
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import encode, replace
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tau.records.models import Price

botocore = pytest.importorskip("botocore")
from botocore import parsers, validate  # noqa: E402
from botocore.eventstream import ChecksumMismatch, EventStream  # noqa: E402
from botocore.exceptions import EventStreamError  # noqa: E402
from botocore.loaders import Loader  # noqa: E402
from botocore.model import ServiceModel  # noqa: E402

MESSAGES = replace(MODEL, api="bedrock-anthropic-messages")
REDACTED = b64encode(b"\0secret\xff").decode()
ARGUMENTS = {"command": 'echo "é 😀" \\ {}', "nested": [{"a": [1, 2.5, None, True]}], "": ""}
WORDS = ["Hello", ", ", 'wör"ld', " 😀\n", "\u2028", "\0", ""]


@cache
def service() -> ServiceModel:
    (folder,) = (Path(botocore.__file__).parent / "data" / "bedrock-runtime").iterdir()
    return ServiceModel(Loader().load_data(f"bedrock-runtime/{folder.name}/service-2"), "bedrock-runtime")


def operation(name: str) -> Any:
    return service().operation_model(name)


class Raw:
    """A body as the SDK reads it."""

    def __init__(self, portions: list[bytes]) -> None:
        self._portions = portions

    def stream(self) -> Iterator[bytes]:
        yield from self._portions


def sdk_events(name: str, *frames: bytes) -> list[dict[str, Any]]:
    shape = operation(name).output_shape.members["stream" if name == "ConverseStream" else "body"]
    return list(EventStream(Raw(list(frames)), shape, parsers.EventStreamJSONParser(), name))


Block = tuple[Any, ...]


def sdk_answer(*frames: bytes) -> tuple[list[Block], str | None, tuple[int, ...]]:
    """What a program that uses the SDK makes of a stream: its blocks by their index, the stop reason, the usage."""
    blocks: dict[int, dict[str, Any]] = {}
    stop, used = None, (0, 0, 0, 0)
    for event in sdk_events("ConverseStream", *frames):
        if tool := event.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
            blocks[event["contentBlockStart"]["contentBlockIndex"]] = {"tool": tool, "input": ""}
        if "contentBlockDelta" in event:
            _add(blocks.setdefault(event["contentBlockDelta"]["contentBlockIndex"], {}), event["contentBlockDelta"])
        stop = event.get("messageStop", {}).get("stopReason", stop)
        if usage := event.get("metadata", {}).get("usage"):
            names = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
            used = tuple(usage.get(name, 0) for name in names)  # type: ignore[assignment]
    return [_as_block(block) for block in blocks.values() if block], stop, used


def _add(block: dict[str, Any], event: dict[str, Any]) -> None:
    given = event["delta"]
    thought = given.get("reasoningContent", {})
    for name, piece in (
        ("text", given.get("text")),
        ("input", given.get("toolUse", {}).get("input")),
        ("thinking", thought.get("text")),
        ("signature", thought.get("signature")),
    ):
        if piece is not None:
            block[name] = block.get(name, "") + piece
    if "redactedContent" in thought:
        block["redacted"] = thought["redactedContent"]


def _as_block(block: dict[str, Any]) -> Block:
    if "tool" in block:
        return "call", block["tool"]["toolUseId"], block["tool"]["name"], block["input"]
    if "redacted" in block:
        return "redacted", block["redacted"]
    if "thinking" in block or "signature" in block:
        return "thinking", block.get("thinking", ""), block.get("signature", "")
    return "text", block["text"]


def tau_answer(*frames: bytes) -> tuple[list[Block], str | None, tuple[int, ...]]:
    reading = Reading(bedrock, MODEL, frames).end()
    message = reading.done.message
    usage = message.usage
    blocks = [
        _told(content, "".join(raw.deltas)) for content, raw in zip(message.content, reading.draft._blocks, strict=True)
    ]
    reasons = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "toolUse", "max_tokens": "length"}
    stop = next((name for name, meaning in reasons.items() if meaning == message.stop_reason), None)
    return blocks, stop, (usage.input, usage.output, usage.cache_read, usage.cache_write)


def _told(block: Any, streamed: str) -> Block:
    match block:
        case ToolCall(id=id, name=name):
            return "call", id, name, streamed
        case Thinking(redacted=True, thinking_signature=payload):
            return "redacted", b64decode(str(payload))
        case Thinking(thinking=text, thinking_signature=signature):
            return "thinking", text, signature if isinstance(signature, str) else ""
    assert isinstance(block, Text)
    return "text", block.text


def stopped(index: int) -> bytes:
    return aws("contentBlockStop", {"contentBlockIndex": index})


def ended(reason: str = "end_turn", **usage: int) -> list[bytes]:
    used = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3, **usage}
    return [
        aws("messageStop", {"stopReason": reason}),
        aws("metadata", {"usage": used, "metrics": {"latencyMs": 1}}),
    ]


def thinks(index: int, **fields: str) -> bytes:
    return delta(index, reasoningContent=fields)


BEGUN = aws("messageStart", {"role": "assistant"})
TOOL = [start(1, toolUseId="a1", name="bash"), delta(1, toolUse={"input": encode(ARGUMENTS).decode()}), stopped(1)]

STREAMS: dict[str, list[bytes]] = {
    "text": [BEGUN, *(delta(0, text=word) for word in WORDS if word), stopped(0), *ended()],
    "empty pieces of text": [BEGUN, *(delta(0, text=word) for word in WORDS), stopped(0), *ended()],
    "no text at all": [BEGUN, *ended()],
    "no messageStart": [delta(0, text="hi"), stopped(0), *ended()],
    "no contentBlockStop": [BEGUN, delta(0, text="hi"), *ended()],
    "two texts": [BEGUN, delta(0, text="one"), stopped(0), delta(1, text="two"), stopped(1), *ended()],
    "indexes with gaps": [delta(3, text="one"), stopped(3), delta(7, text="two"), stopped(7), *ended()],
    "signed thinking": [thinks(0, text="h"), thinks(0, text="m"), thinks(0, signature="c2ln"), stopped(0), *ended()],
    "signature in pieces": [thinks(0, text="hm"), thinks(0, signature="c2"), thinks(0, signature="ln"), *ended()],
    "signature without thinking": [thinks(0, signature="c2ln"), stopped(0), delta(1, text="a"), *ended()],
    "redacted thinking": [thinks(0, redactedContent=REDACTED), stopped(0), delta(1, text="a"), *ended()],
    "thinking, redacted, text": [
        *(thinks(0, text="hm"), stopped(0), thinks(1, redactedContent=REDACTED), stopped(1)),
        *(delta(2, text="a"), stopped(2), *ended()),
    ],
    "a call": [delta(0, text="I look."), stopped(0), *TOOL, *ended("tool_use")],
    "a call without input": [start(0, toolUseId="a1", name="ls"), stopped(0), *ended("tool_use")],
    "a call with empty pieces": [
        start(0, toolUseId="a1", name="ls"),
        *(delta(0, toolUse={"input": piece}) for piece in ("", "{", "", "}", "")),
        *(stopped(0), *ended("tool_use")),
    ],
    "calls whose pieces alternate": [
        *(start(0, toolUseId="a", name="ls"), start(1, toolUseId="b", name="ls")),
        *(delta(at, toolUse={"input": piece}) for piece in ('{"a":', "1}") for at in (0, 1)),
        *(stopped(1), stopped(0), *ended("tool_use")),
    ],
    "text behind a call": [*TOOL, delta(2, text="done"), stopped(2), *ended("tool_use")],
    "cached tokens": [delta(0, text="a"), *ended(cacheReadInputTokens=30, cacheWriteInputTokens=4)],
    "metadata before messageStop": [delta(0, text="a"), *reversed(ended())],
    "fields of a newer API": [
        aws("messageStart", {"role": "assistant", "p": "abcdef"}),
        aws("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "a"}, "p": "abc"}),
        aws("messageStop", {"stopReason": "end_turn", "additionalModelResponseFields": {"a": [1]}}),
    ],
    "citations": [delta(0, text="a"), delta(0, citation={"title": "t", "source": "s"}), stopped(0), *ended()],
    "events of a newer API": [aws("weather", {"sky": "blue"}), delta(0, text="a"), *ended()],
    "an initial response": [aws("initial-response", {}), delta(0, text="a"), *ended()],
}


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_is_what_the_sdk_makes_of_it(name: str) -> None:
    assert tau_answer(*STREAMS[name]) == sdk_answer(*STREAMS[name])


def random_stream(chance: random.Random) -> list[bytes]:
    frames = [BEGUN] * chance.randrange(2)
    index, calls = chance.choice([0, 0, 5]), 0
    for _ in range(chance.randrange(6)):
        match chance.randrange(4):
            case 0:
                frames += [delta(index, text=chance.choice(WORDS[:-1])) for _ in range(chance.randint(1, 5))]
            case 1:
                frames += [thinks(index, text=chance.choice(WORDS[:-1])) for _ in range(chance.randint(1, 3))]
                frames += [thinks(index, signature="c2ln")] * chance.randrange(2)
            case 2:
                frames.append(thinks(index, redactedContent=REDACTED))
            case _:
                calls += 1
                text = encode({chance.choice(WORDS): chance.choice([ARGUMENTS, 5, [], None])}).decode()
                cut = chance.randrange(len(text))
                frames.append(start(index, toolUseId=f"call-{calls}", name=chance.choice(["ls", "bash"])))
                frames += [delta(index, toolUse={"input": piece}) for piece in (text[:cut], text[cut:])]
        frames += [stopped(index)] * (chance.random() < 0.9)
        index += chance.choice([1, 1, 1, 3])
    usage = {"cacheReadInputTokens": chance.randrange(99)} if chance.random() < 0.5 else {}
    return [*frames, *ended("tool_use" if calls else chance.choice(["end_turn", "max_tokens"]), **usage)]


def test_random_answers_are_what_the_sdk_makes_of_them() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        frames = random_stream(chance)
        whole = b"".join(frames)
        cuts = sorted(chance.sample(range(len(whole)), min(9, len(whole))))
        portions = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert tau_answer(*portions) == sdk_answer(*portions), seed


# Errors.


@pytest.mark.parametrize("name", [name for name in bedrock.EXCEPTIONS if name != "modelTimeoutException"])
def test_exceptions_of_the_sdk_are_errors(name: str) -> None:
    bad = aws(name, {"message": "slow down"}, "exception")
    with pytest.raises(EventStreamError, match=name):
        sdk_events("ConverseStream", delta(0, text="a"), bad)
    with pytest.raises(ModelError, match="slow down") as caught:
        tau_answer(delta(0, text="a"), bad)
    assert classify(str(caught.value)).is_transient is (name != "validationException")


def test_every_exception_of_the_api_is_known() -> None:
    for name, member in (("ConverseStream", "stream"), ("InvokeModelWithResponseStream", "body")):
        shape = operation(name).output_shape.members[member]
        assert {event for event in shape.members if event.endswith("Exception")} <= bedrock.EXCEPTIONS.keys()


def test_every_stop_reason_of_the_api_ends_an_answer_or_is_an_error_that_names_it() -> None:
    """What is not known here is an error; a malformed call is worth another try."""
    reasons = operation("ConverseStream").output_shape.members["stream"].members["messageStop"].members["stopReason"]
    unknown: dict[str, bool | None] = {}
    for reason in reasons.enum:
        try:
            tau_answer(delta(0, text="a"), *ended(reason))
        except ModelError as error:
            assert reason in str(error)
            unknown[reason] = error.transient
    assert unknown == {
        "guardrail_intervened": False,
        "content_filtered": False,
        "malformed_model_output": True,
        "malformed_tool_use": True,
    }


@pytest.mark.parametrize("at", [0, 5, 9, 14, -1])
def test_a_damaged_frame_is_an_error_for_both(at: int) -> None:
    bad = bytearray(delta(0, text="hello"))
    bad[at] ^= 1
    with pytest.raises(ChecksumMismatch):
        sdk_events("ConverseStream", bytes(bad) + b"\0" * 99)
    with pytest.raises(ModelError, match="event stream is broken"):
        tau_answer(bytes(bad) + b"\0" * 99)


def test_an_error_of_the_transport_is_one_for_both() -> None:
    bad = frame(b"", message_type="error", error_code="InternalFailure", error_message="Oops")
    with pytest.raises(EventStreamError, match="Oops"):
        sdk_events("ConverseStream", bad)
    with pytest.raises(ModelError, match="InternalFailure: Oops"):
        tau_answer(bad)


def test_claude_s_own_events_are_unpacked_as_the_sdk_does() -> None:
    datas = [
        next(line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")) for event in recorded("anthropic")
    ]
    frames = [aws("chunk", {"bytes": b64encode(data).decode(), "p": "abc"}) for data in datas]
    assert [event["chunk"]["bytes"] for event in sdk_events("InvokeModelWithResponseStream", *frames)] == datas
    assert Reading(bedrock, MESSAGES, frames).done == Reading(anthropic, MESSAGES, recorded("anthropic")).done


# Requests.


def problems(body: dict[str, Any], id: str = MODEL.id) -> str:
    shape = operation("ConverseStream").input_shape
    report = validate.ParamValidator().validate({"modelId": id, **body}, shape)
    return str(report.generate_report())


SAID = [
    user("go"),
    assistant(Thinking("hm", "sig"), Thinking("[r]", REDACTED, True), "ok", call("one", **ARGUMENTS), call("two")),
    ToolResult("call_one", "one", [Text("1"), Image(b64encode(b"png").decode(), "image/png")]),
    ToolResult("call_two", "two", [], {}, True),
    User([Text("look"), Image(b64encode(b"webp").decode(), "image/webp")], 0),
    assistant(Thinking("unsigned"), Text("a")),
    user("on"),
]
UNDESCRIBED = Offered("bare", "", {"type": "object", "properties": {}})


@pytest.mark.parametrize("thinking", ["off", "low", "high"])
@pytest.mark.parametrize("id", [MODEL.id, "amazon.nova-x", "us.anthropic.claude-opus-4-6-v1"])
def test_a_request_is_one_of_the_api(thinking: Any, id: str) -> None:
    model = replace(MODEL, id=id, cost=Price(3, 15, 0.3, 3.75))
    for retention in ("", "long"):
        options = CallOptions("k", thinking=thinking, environment={"PI_CACHE_RETENTION": retention})
        body = bedrock.request(model, ModelContext("Be nice.", SAID, [BASH, UNDESCRIBED]), options).body
        assert problems(dict(body), id) == ""


def test_the_sdk_would_refuse_a_request_that_is_wrong() -> None:
    assert "Unknown parameter" in problems({"messages": [{"role": "user", "content": [{"words": "hi"}]}]})
    assert isinstance(SAID[1], Assistant)
