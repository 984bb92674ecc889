"""A recorded answer of Google's Gemini API, its events, and what its reader has to do with them."""

from __future__ import annotations

from typing import Any

from support.readers import ReaderCase, deltas_of
from support.recorded_streams import recorded, sse
from tau.llm import google as api
from tau.records.messages import Assistant, Text, Thinking, ToolCall, Usage
from tau.records.models import Model

MODEL = Model(
    "gemini-x",
    "Gemini X",
    "google-generative-ai",
    "google",
    "https://api.example.com/v1beta",
    reasoning=True,
    input=["text", "image"],
    context_window=200000,
    max_tokens=8192,
)


RECORDED = recorded("google")


ANSWER = Assistant(
    [
        Thinking("Let me see ü", "c2lnLTE="),
        Text("Hello, 😀"),
        ToolCall("bash_0_1", "bash", {"command": "echo é"}, "c2lnLTI="),
        ToolCall("bash_0_2", "bash", {}),
    ],
    "google-generative-ai",
    "google",
    "gemini-x",
    Usage(50, 9, 40, 0, 99, reasoning=4),
    "toolUse",
    0,
    response_id="dGhpcw",
)


DELTAS = deltas_of(ANSWER, ["Let me ", "see ü"], ["Hello, ", "😀"], ['{"command":"echo é"}'], ["{}"])


def chunk(*parts: Any, finish: Any = None, **more: Any) -> bytes:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return sse({"candidates": [{**candidate, "finishReason": finish} if finish else candidate], **more})


HALF = [chunk({"text": "half"})]


MALFORMED = {
    b"data: {not json\n\n": "not JSON",
    sse([]): "without a type",
    sse({"candidates": [{"content": "x"}]}): "content is not an object",
    chunk("x"): "a part is not an object",
    chunk({"text": 5}): "text is not a string",
    chunk({"functionCall": "ls"}): "functionCall is not an object",
    chunk({"functionCall": {"args": {}}}): "functionCall.name is missing",
    chunk({"functionCall": {"name": 5}}): "functionCall.name is not a string",
    chunk({"functionCall": {"name": "ls", "args": "{}"}}): "functionCall.args is not an object",
    chunk({"functionCall": {"name": "ls", "args": [1]}}): "functionCall.args is not an object",
    chunk(finish=["STOP"]): "finishReason is not a string",
}


TOLERATED = [
    sse({}),
    b"data:\n\n",
    sse({"candidates": None}),
    sse({"candidates": 5}),
    sse({"candidates": [5]}),
    sse({"candidates": [{}]}),
    sse({"candidates": [{"content": {"role": "model"}}]}),
    sse({"candidates": [{"content": {"parts": None}, "finishReason": "FINISH_REASON_UNSPECIFIED"}]}),
    sse({"candidates": [{"content": {"parts": [None, {"vendor": 1}, {"text": ""}]}, "index": 0}]}),
    sse({"promptFeedback": "x"}),
    sse({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}),
    sse({"responseId": 5, "usageMetadata": "none"}),
    chunk({"text": "", "thoughtSignature": 5}),
    chunk(finish="STOP"),
]


CASE = ReaderCase(
    name="google",
    api=api,
    model=MODEL,
    recorded=RECORDED,
    answer=ANSWER,
    deltas=DELTAS,
    needed=len(RECORDED),
    half=HALF,
    finish=lambda reason: [chunk(finish=reason)],
    reasons={"STOP": "stop", "MAX_TOKENS": "length"},
    refused=["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "PROHIBITED_CONTENT", "ZORK"],
    overloaded=[
        sse({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}),
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
    ],
    malformed=MALFORMED,
    tolerated=TOLERATED,
    tried_again=["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"],
)
