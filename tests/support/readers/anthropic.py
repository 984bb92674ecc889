"""A recorded answer of Anthropic's Messages API, its events, and what its reader has to do with them."""

from __future__ import annotations

from typing import Any

from support.readers import ReaderCase, deltas_of
from tau.llm import anthropic as api
from tau.records.base import encode
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage
from tau.records.models import Model

MODEL = Model(
    "claude-x",
    "Claude X",
    "anthropic-messages",
    "anthropic",
    "https://api.example.com",
    reasoning=True,
    max_tokens=64000,
)


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


DELTAS = deltas_of(
    ANSWER, ["Let me ", "see ü"], ["[Reasoning redacted]"], ["Hello, ", "😀"], ["", '{"command":"ec', 'ho é"}']
)


MALFORMED = {
    b"data: {not json\n\n": "not JSON",
    b"event: message_start\ndata: []\n\n": "without a type",
    b'data: {"type":["message_start"]}\n\n': "without a type",
    event("content_block_start", index=1): "content_block is missing",
    start(1, type="tool_use", id="t"): "content_block.name is missing",
    start(1, type="tool_use", id="t", name=5): "content_block.name is not a string",
    start(1, type="redacted_thinking"): "content_block.data is missing",
    event("content_block_delta", index=0): "delta is missing",
    delta(0, "text"): "delta.text is missing",
    delta(0, "text", text=5): "delta.text is not a string",
    delta(0, "thinking", thinking=["a"]): "delta.thinking is not a string",
    delta(0, "input_json", partial_json={"a": 1}): "delta.partial_json is not a string",
    delta(0, "input_json", partial_json="{}"): "no content_block_start of a call",
    delta(7, "input_json", partial_json="{}"): "no content_block_start of a call",
    delta(0, "signature", signature=5): "delta.signature is not a string",
    event("message_delta", delta={"stop_reason": ["end_turn"]}) + event("message_stop"): "stop_reason is not a string",
}


TOLERATED = [
    event("message_start"),
    event("message_start", message=5),
    event("message_start", message={"id": 5, "usage": "none"}),
    event("ping"),
    event("vendor_event", index=0),
    b"data:\n\n",
    b": keep-alive\n\n",
    b'data: {"type":null}\n\n',
    event("content_block_delta", index=0, delta={}),
    delta(0, "text", text=None),
    delta(0, "text", text=""),
    delta(0, "citations", citation={}),
    event("content_block_delta", delta={"text": ""}),
    event("content_block_delta", index="0", delta={"type": "text_delta", "text": ""}),
    event("message_delta", delta=None, usage={"output_tokens": "3"}),
    event("message_delta", usage={"output_tokens": None, "input_tokens": {}}),
    event("content_block_stop"),
    event("content_block_stop", index=9),
    start(1, type="server_tool_use", name="search")
    + delta(1, "input_json", partial_json="{")
    + event("content_block_stop", index=1),
]


def tool_call(name: str, arguments: str) -> list[bytes]:
    begin = start(0, type="tool_use", id="c1", name=name, input={})
    return [BEGIN, begin, delta(0, "input_json", partial_json=arguments), stop(0), *finish("tool_use")]


CASE = ReaderCase(
    name="anthropic",
    api=api,
    model=MODEL,
    recorded=RECORDED,
    answer=ANSWER,
    deltas=DELTAS,
    needed=len(RECORDED),
    half=[BEGIN, start(0, type="text", text=""), delta(0, "text", text="half")],
    finish=finish,
    reasons={
        "end_turn": "stop",
        "stop_sequence": "stop",
        "pause_turn": "stop",
        "max_tokens": "length",
        "tool_use": "toolUse",
    },
    refused=["refusal", "sensitive", "zork", None],
    overloaded=[event("error", error={"type": "overloaded_error", "message": "Overloaded"})],
    malformed=MALFORMED,
    tolerated=TOLERATED,
    call=tool_call,
)
