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


MALFORMED = [
    b"data: {not json\n\n",
    sse([]),
    sse({"candidates": 5}),
    sse({"candidates": [5]}),
    sse({"candidates": [{"content": "x"}]}),
    sse({"promptFeedback": "x"}),
    chunk("x"),
    chunk({"text": 5}),
    chunk({"text": "a", "thoughtSignature": 5}),
    chunk({"functionCall": "ls"}),
    chunk({"functionCall": {"args": {}}}),
    chunk({"functionCall": {"name": 5}}),
    chunk({"functionCall": {"name": "ls", "id": 5}}),
    chunk({"functionCall": {"name": "ls", "args": "{}"}}),
    chunk({"functionCall": {"name": "ls", "args": [1]}}),
    chunk(finish=["STOP"]),
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
    refused=["SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "PROHIBITED_CONTENT", "ZORK"],
    overloaded=[
        sse({"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}),
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
    ],
    malformed=MALFORMED,
    tried_again=["MALFORMED_FUNCTION_CALL"],
)
