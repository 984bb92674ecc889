"""A recorded answer of OpenAI's Responses API, its events, and what its reader has to do with them."""

from __future__ import annotations

from typing import Any

from support.readers import ReaderCase, deltas_of
from support.recorded_streams import recorded, sse
from tau.llm import openai_responses as api
from tau.records.base import encode
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage
from tau.records.models import Model

MODEL = Model(
    "m-resp",
    "Responses",
    "openai-responses",
    "openai",
    "https://api.openai.com/v1",
    reasoning=True,
    input=["text", "image"],
    context_window=200000,
    max_tokens=8192,
)


RECORDED = recorded("openai_responses")


ITEM = {
    "id": "rs_1",
    "type": "reasoning",
    "encrypted_content": "gAAAA",
    "summary": [{"type": "summary_text", "text": "Let me see ü"}],
}


ANSWER = Assistant(
    [
        Thinking("Let me see ü", encode(ITEM).decode()),
        Text("Hello, 😀", "msg_1"),
        ToolCall("call_a|fc_1", "bash", {"command": "echo é"}),
    ],
    "openai-responses",
    "openai",
    "m-resp",
    Usage(50, 9, 40, 0, 99, reasoning=4),
    "toolUse",
    0,
    response_id="resp_67c9",
)


DELTAS = deltas_of(ANSWER, ["Let me ", "see ü"], ["Hello, ", "😀"], ['{"command":"ec', 'ho é"}'])


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": f"response.{kind}", **fields}, f"response.{kind}")


def added(index: int, **item: Any) -> bytes:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item: Any) -> bytes:
    return event("output_item.done", output_index=index, item=item)


def delta(kind: str, index: int, piece: Any) -> bytes:
    return event(f"{kind}.delta", output_index=index, delta=piece)


def finished(**response: Any) -> bytes:
    return event("completed", response=response)


TEXT = [added(0, type="message", id="m", content=[]), delta("output_text", 0, "half")]


MALFORMED = {
    b"data: {not json\n\n": "not JSON",
    sse([]): "without a type",
    sse({"type": ["x"]}): "without a type",
    event("output_item.added", output_index=1): "item is missing",
    added(1): "item.type is missing",
    added(1, type="function_call", call_id="a"): "item.name is missing",
    added(1, type="function_call", call_id="a", name="ls", arguments=5): "arguments is not a string",
    event("output_text.delta", output_index=0): "delta is missing",
    delta("output_text", 0, 5): "delta is not a string",
    delta("function_call_arguments", 0, 5): "delta is not a string",
    delta("function_call_arguments", 7, "{}") + finished(): "arguments of a call that was not started",
    done(0): "item.type is missing",
}


TOLERATED = [
    event("created"),
    event("created", response=5),
    event("created", response={"id": 5}),
    event("in_progress", response={}),
    event("vendor", output_index=0),
    sse({"type": None}),
    b"data:\n\n",
    event("output_text.delta", delta=""),
    event("output_text.delta", output_index=[], delta=""),
    event("output_text.delta", output_index="0", delta=""),
    event("output_text.delta", item_id="m", delta=""),
    event("output_text.delta", item_id="another", delta=""),
    delta("output_text", 0, None),
    event("output_item.added", output_index=0, item={"type": "message", "id": "m"}),
    event("function_call_arguments.delta", output_index=9, delta=None),
    event("reasoning_summary_part.done"),
    event("content_part.added", part=5),
    done(0, type="message", id="m", content=[5, {"text": 5}]),
    done(0, type="message", id=None, content=None),
    done(3, type="web_search_call", action=5),
]


def tool_call(name: str, arguments: str) -> list[bytes]:
    item = {"type": "function_call", "id": "fc", "call_id": "c1", "name": name}
    return [
        added(0, **item, arguments=""),
        delta("function_call_arguments", 0, arguments),
        done(0, **item, arguments=arguments),
        finished(),
    ]


def end(reason: str) -> list[bytes]:
    if reason == "completed":
        return [finished()]
    return [event("incomplete", response={"incomplete_details": {"reason": reason}})]


CASE = ReaderCase(
    name="openai_responses",
    api=api,
    model=MODEL,
    recorded=RECORDED,
    answer=ANSWER,
    deltas=DELTAS,
    needed=len(RECORDED),
    half=TEXT,
    finish=end,
    reasons={"completed": "stop", "max_output_tokens": "length"},
    refused=["content_filter", "zork"],
    overloaded=[
        event("failed", response={"error": {"code": "server_error", "message": "Overloaded"}}),
        sse({"type": "error", "code": "server_error", "message": "Overloaded", "param": None}, "error"),
        sse({"type": "error", "error": {"type": "server_error", "message": "Overloaded"}}, "error"),
    ],
    malformed=MALFORMED,
    tolerated=TOLERATED,
    call=tool_call,
    call_id="c1|fc",
)
