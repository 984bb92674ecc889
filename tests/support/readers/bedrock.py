"""A recorded answer of Amazon Bedrock's Converse API, its events, and what its reader has to do with them."""

from __future__ import annotations

from typing import Any

from support.readers import ReaderCase, deltas_of
from support.recorded_streams import aws, frame, recorded_frames
from tau.llm import bedrock as api
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage
from tau.records.models import Model

MODEL = Model(
    "anthropic.claude-x-v1:0",
    "Claude X",
    "bedrock-converse-stream",
    "amazon-bedrock",
    "https://bedrock-runtime.us-east-1.amazonaws.com",
    reasoning=True,
    input=["text", "image"],
    max_tokens=64000,
)


RECORDED = recorded_frames("bedrock_converse")


ANSWER = Assistant(
    [
        Thinking("Let me see ü", "c2ln"),
        Thinking("[Reasoning redacted]", "cGF5bG9hZA==", True),
        Text("Hello, 😀"),
        ToolCall("tooluse_1", "bash", {"command": "echo é"}),
    ],
    "bedrock-converse-stream",
    "amazon-bedrock",
    "anthropic.claude-x-v1:0",
    Usage(50, 9, 40, 3, 102),
    "toolUse",
    0,
)


DELTAS = deltas_of(
    ANSWER, ["Let me ", "see ü"], ["[Reasoning redacted]"], ["Hello, ", "😀"], ["", '{"command":"ec', 'ho é"}']
)


def delta(index: int, **fields: Any) -> bytes:
    return aws("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def start(index: int, **tool: Any) -> bytes:
    return aws("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": tool}})


def stop(reason: Any) -> bytes:
    return aws("messageStop", {"stopReason": reason})


USED = aws("metadata", {"usage": {"inputTokens": 1}})


HALF = [delta(0, text="half")]


MALFORMED = {
    frame(b"{no json", event_type="contentBlockDelta"): "not JSON",
    aws("contentBlockDelta", []): "without a type",
    aws("contentBlockDelta", {"contentBlockIndex": 0}): "delta is missing",
    delta(0, text=5): "text is not a string",
    delta(1, toolUse={"input": "{}"}): "no call with the index 1",
    delta(0, toolUse={"input": "{}"}): "no call with the index 0",
    start(1, name="ls", toolUseId="a") + delta(1, toolUse={"input": 5}): "toolUse.input is not a string",
    delta(0, reasoningContent="x"): "delta.reasoningContent is not an object",
    delta(1, reasoningContent={"text": 5}): "text is not a string",
    delta(1, reasoningContent={"redactedContent": 5}): "redactedContent is not a string",
    start(1, toolUseId="a"): "toolUse.name is missing",
    start(1, name=5): "toolUse.name is not a string",
    aws("messageStop", {}): "stopReason is missing",
    stop(["end_turn"]): "stopReason is not a string",
}


TOLERATED = [
    aws("messageStart", {}),
    aws("vendorEvent", []),
    aws("contentBlockStart", {"contentBlockIndex": 0, "start": None}),
    aws("contentBlockDelta", {"delta": {"text": ""}}),
    aws("contentBlockDelta", {"contentBlockIndex": "0", "delta": {"text": ""}}),
    delta(0, text=None),
    delta(0, toolUse={"input": None}),
    delta(0, citation={"title": 5}),
    aws("contentBlockStop", {}),
    aws("contentBlockStop", {"contentBlockIndex": 7}),
    aws("metadata", {"usage": "none"}),
    aws("metadata", {}),
]


def tool_call(name: str, arguments: str) -> list[bytes]:
    return [start(0, toolUseId="c1", name=name), delta(0, toolUse={"input": arguments}), stop("tool_use"), USED]


CASE = ReaderCase(
    name="bedrock",
    api=api,
    model=MODEL,
    recorded=RECORDED,
    answer=ANSWER,
    deltas=DELTAS,
    needed=len(RECORDED) - 1,  # the last one counts tokens
    half=HALF,
    finish=lambda reason: [stop(reason), USED],
    reasons={"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "toolUse"},
    refused=["guardrail_intervened", "content_filtered", "zork"],
    overloaded=[aws("serviceUnavailableException", {"message": "Overloaded"}, "exception")],
    malformed=MALFORMED,
    tolerated=TOLERATED,
    call=tool_call,
)
