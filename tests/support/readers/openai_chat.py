"""A recorded answer of OpenAI's Chat Completions API, its events, and what its reader has to do with them."""

from __future__ import annotations

from typing import Any

from support.readers import ReaderCase
from support.recorded_streams import recorded, sse
from tau.llm import openai_chat as api
from tau.records.base import replace
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
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage
from tau.records.models import Model, Price

MODEL = Model(
    "m-chat",
    "Chat",
    "openai-completions",
    "lab",
    "https://api.example.com/v1",
    reasoning=True,
    input=["text", "image"],
    cost=Price(3, 15, 0.3),
    context_window=200000,
    max_tokens=8192,
)


RECORDED = recorded("openai_chat")


ANSWER = Assistant(
    [
        Thinking("Let me see ü", "reasoning_content"),
        Text("Hello, 😀"),
        ToolCall("call_a", "bash", {"command": "echo é"}),
        ToolCall("call_b", "read", {"path": "a"}),
    ],
    "openai-completions",
    "lab",
    "m-chat",
    Usage(50, 9, 40, 0, 99, reasoning=4),
    "toolUse",
    0,
    response_id="chatcmpl-B9MBs8",
)


DELTAS = [
    ThinkingStart(0),
    ThinkingDelta(0, "Let me "),
    ThinkingDelta(0, "see ü"),
    ThinkingEnd(0, "Let me see ü"),
    TextStart(1),
    TextDelta(1, "Hello, "),
    TextDelta(1, "😀"),
    TextEnd(1, "Hello, 😀"),
    ToolCallStart(2, "call_a", "bash"),
    ToolCallDelta(2, ""),
    ToolCallDelta(2, '{"command":"ec'),
    ToolCallDelta(2, 'ho é"}'),
    ToolCallStart(3, "call_b", "read"),
    ToolCallDelta(3, '{"path":"a"}'),
    ToolCallEnd(2, ToolCall("call_a", "bash", {"command": "echo é"})),
    ToolCallEnd(3, ToolCall("call_b", "read", {"path": "a"})),
]


FREE = replace(MODEL, cost=Price())


def chunk(finish: str | None = None, **delta: Any) -> bytes:
    return sse({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def calling(*calls: dict[str, Any]) -> bytes:
    return chunk(tool_calls=list(calls))


DONE = sse("[DONE]")


FINISHED = next(at for at, event in enumerate(RECORDED) if b'"finish_reason":"tool_calls"' in event)


MALFORMED = {
    b"data: {not json\n\n": "not JSON",
    sse([]): "without a type",
    sse({"choices": [{"delta": "x"}]}): "delta is not an object",
    chunk(content=5): "delta.content is not a string",
    chunk(content=[5]): "a part of delta.content is not an object",
    chunk(content=[{"type": "text", "text": 5}]): "text is not a string",
    chunk(tool_calls="x"): "a tool call is not an object",
    chunk(tool_calls=["x"]): "a tool call is not an object",
    calling({"index": 0, "id": "a", "function": {"name": 5}}): "function.name is not a string",
    calling({"index": 0, "id": "a", "function": {"name": "ls", "arguments": 5}}): "arguments is not a string",
    calling({"index": 0, "id": "a", "function": "ls"}): "function is not an object",
    sse({"choices": [{"delta": {}, "finish_reason": ["stop"]}]}): "finish_reason is not a string",
}


TOLERATED = [
    sse({}),
    b"data:\n\n",
    b": OPENROUTER PROCESSING\n\n",
    sse({"id": 5, "choices": None}),
    sse({"choices": 5}),
    sse({"choices": [5]}),
    sse({"choices": [], "prompt_filter_results": [{}]}),
    sse({"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {"check_offset": 44}}]}),
    sse({"choices": [{"index": "0", "delta": None, "finish_reason": ""}], "usage": None, "error": None}),
    sse({"choices": [{"delta": {"role": None, "content": None, "tool_calls": None, "refusal": None}}]}),
    chunk(tool_calls=[]),
    chunk(tool_calls=[None]),
    chunk(tool_calls=False),
    chunk(tool_calls=5),
    chunk(content=[{"type": "text"}, {"type": "reference"}, "", {"type": "thinking", "thinking": [5]}]),
    chunk(reasoning_content={"a": 1}),
    chunk(reasoning_content=None, reasoning=[]),
    chunk(refusal=5),
    chunk(reasoning_details=["x"]),
    chunk(reasoning_details="x"),
    sse({"choices": [], "usage": {"prompt_tokens_details": "x", "completion_tokens_details": 5}}),
]


def tool_call(name: str, arguments: str) -> list[bytes]:
    begin = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": ""}}
    return [calling(begin), calling({"index": 0, "function": {"arguments": arguments}}), chunk("tool_calls"), DONE]


CASE = ReaderCase(
    name="openai_chat",
    api=api,
    model=FREE,
    recorded=RECORDED,
    answer=ANSWER,
    deltas=DELTAS,
    needed=FINISHED + 1,
    half=[chunk(content="half")],
    finish=lambda reason: [chunk(reason), DONE],
    reasons={"stop": "stop", "end": "stop", "length": "length", "tool_calls": "stop"},
    refused=["content_filter", "zork"],
    overloaded=[
        sse({"error": {"message": "Overloaded", "code": 529}}),
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
        sse({"object": "error", "message": "Overloaded"}),
        sse(
            {"id": "c", "choices": [{"delta": {"content": ""}, "finish_reason": "error"}], "error": {"m": "Overloaded"}}
        ),
    ],
    malformed=MALFORMED,
    tolerated=TOLERATED,
    call=tool_call,
)
