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


MALFORMED = [
    b"data: {not json\n\n",
    sse([]),
    sse({"type": ["x"]}),
    event("created"),
    event("created", response=5),
    event("output_item.added", output_index=1),
    event("output_item.added", item={"type": "message"}),
    added(1),
    added(1, type="function_call", call_id="a"),
    added(1, type="function_call", call_id=5, name="ls"),
    added(1, type="function_call", call_id="a", name="ls", arguments=5),
    event("output_text.delta", output_index=0),
    delta("output_text", 0, None),
    delta("output_text", 0, 5),
    event("output_text.delta", delta="x"),
    event("output_text.delta", output_index=[], delta="x"),
    done(0, type="message", id=5),
    done(0, type="message", id="m", content=[5]),
    done(1, type="reasoning", summary=[{}]),
    event("completed"),
    event("completed", response=5),
    event("incomplete", response={"incomplete_details": "x"}),
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
    call=tool_call,
    call_id="c1|fc",
)
