"""Gemini beside the vendor's SDK: the same response for both readers, and requests by the SDK's types.

Needs `pip install google-genai`, which is not among the development tools.
"""

from __future__ import annotations

import json
import random
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from support.loop_kit import assistant, call, user
from support.readers.google import MODEL, chunk
from support.recorded_streams import BASH, Offered, Reading, sse
from tau.errors import ModelError
from tau.llm import google
from tau.llm.types import CallOptions, ModelContext
from tau.records.base import replace
from tau.records.messages import Image, Text, Thinking, ToolCall, ToolResult, User

genai = pytest.importorskip("google.genai", reason="needs google-genai")
from google.genai import errors, types  # noqa: E402

pytestmark = pytest.mark.process
SIGNATURE = b64encode(b"signed \xff\xfe").decode()
ARGUMENTS = {"command": 'echo "é 😀" \\ {}', "nested": [{"a": [1, 2.5, None, True]}], "": ""}
WORDS = ["Hello", ", ", 'wör"ld', " 😀\n", "\u2028", "\0"]
USED = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 17}
STOP = chunk(finish="STOP", usageMetadata=USED)


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadingHTTPServer]:
    """Answers every request with the bytes in `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(served.answer)))  # type: ignore[attr-defined]
            self.end_headers()
            self.wfile.write(served.answer)  # type: ignore[attr-defined]

        def log_message(self, format: str, *args: object) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield served
    served.shutdown()
    served.server_close()


Block = tuple[Any, ...]
Answer = tuple[list[Block], str | None, tuple[int, ...]]


def sdk_answer(server: Any, stream: bytes) -> Answer:
    """What a program that uses the SDK makes of a response: pieces of one kind are one block."""
    server.answer = stream
    options = types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}")
    client = genai.Client(api_key="k", http_options=options)
    blocks: list[list[Any]] = []
    stop, used = None, (0, 0, 0, 0)
    for response in client.models.generate_content_stream(model="gemini-x", contents="hi"):
        candidate = (response.candidates or [None])[0]
        for part in (candidate and candidate.content and candidate.content.parts) or ():
            _add(blocks, part)
        if candidate is not None and candidate.finish_reason is not None:
            stop = candidate.finish_reason.name
        if (usage := response.usage_metadata) is not None:
            prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
            read, thought = usage.cached_content_token_count or 0, usage.thoughts_token_count or 0
            used = prompt - read, (usage.candidates_token_count or 0) + thought, read, thought
    return [tuple(block) for block in blocks], stop, used


def _add(blocks: list[list[Any]], part: Any) -> None:
    signature = part.thought_signature or b""
    if part.function_call is not None:
        blocks.append(["call", part.function_call.name, part.function_call.args or {}, signature])
    elif part.text:
        kind = "thinking" if part.thought else "text"
        if not blocks or blocks[-1][0] != kind:
            blocks.append([kind, "", b""])
        blocks[-1][1] += part.text
        blocks[-1][2] = signature or blocks[-1][2]
    elif part.text is not None and signature and blocks and blocks[-1][0] == ("thinking" if part.thought else "text"):
        blocks[-1][2] = signature


def tau_answer(*portions: bytes) -> Answer:
    reading = Reading(google, MODEL, portions).end()
    message, usage = reading.done.message, reading.done.message.usage
    stop = {"stop": "STOP", "toolUse": "STOP", "length": "MAX_TOKENS"}[message.stop_reason]
    thought = usage.reasoning if isinstance(usage.reasoning, int) else 0
    return [_told(block) for block in message.content], stop, (usage.input, usage.output, usage.cache_read, thought)


def _told(block: Any) -> Block:
    def signature(given: Any) -> bytes:
        return b64decode(given) if isinstance(given, str) else b""

    match block:
        case ToolCall(name=name, arguments=arguments, thought_signature=given):
            return "call", name, arguments, signature(given)
        case Thinking(thinking=text, thinking_signature=given):
            return "thinking", text, signature(given)
    assert isinstance(block, Text)
    return "text", block.text, signature(block.text_signature)


def calls(name: str, args: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **({} if args is None else {"args": args})}, **more}


def thinks(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "thought": True, **more}


SIGNED = {"thoughtSignature": SIGNATURE}
STREAMS: dict[str, bytes] = {
    "text": b"".join([*(chunk({"text": word}) for word in WORDS), STOP]),
    "one chunk": chunk({"text": "hi"}, finish="STOP", usageMetadata=USED),
    "nothing": STOP,
    "many parts in a chunk": chunk(*({"text": word} for word in WORDS)) + STOP,
    "thoughts": chunk(thinks("h")) + chunk(thinks("m")) + chunk({"text": "hi"}) + STOP,
    "signed thoughts": chunk(thinks("hm", **SIGNED)) + chunk({"text": "hi"}) + STOP,
    "signed text": chunk({"text": "hi"}) + chunk({"text": "", **SIGNED}) + STOP,
    "a signature of another kind": chunk(thinks("hm")) + chunk({"text": "", **SIGNED}) + chunk({"text": "hi"}) + STOP,
    "text, thoughts, text": chunk({"text": "a"}, thinks("b"), {"text": "c"}) + STOP,
    "a call": chunk(calls("bash", ARGUMENTS)) + STOP,
    "a call without arguments": chunk(calls("ls")) + STOP,
    "a call with empty arguments": chunk(calls("ls", {})) + STOP,
    "a call with an id": chunk({"functionCall": {"id": "x", "name": "ls", "args": {}}}) + STOP,
    "a signed call": chunk(calls("ls", {"a": 1}, **SIGNED)) + STOP,
    "calls in one chunk": chunk(calls("ls", {"a": 1}), calls("ls", {"a": 2}), calls("bash")) + STOP,
    "calls in chunks": chunk(calls("ls", {"a": 1})) + chunk(calls("ls", {"a": 2})) + STOP,
    "text around a call": chunk({"text": "a"}, calls("ls"), {"text": "b"}) + STOP,
    "the reason with the last text": chunk({"text": "a"}) + chunk({"text": "b"}, finish="MAX_TOKENS"),
    "numbers": chunk(calls("f", {"a": 1e20, "b": -0.5, "c": 2**53, "d": 0})) + STOP,
    "usage in every chunk": chunk({"text": "a"}, usageMetadata={"promptTokenCount": 10}) + STOP,
    "cached tokens": chunk({"text": "a"}) + chunk(finish="STOP", usageMetadata={**USED, "cachedContentTokenCount": 4}),
    "carriage returns": (chunk({"text": "a"}) + STOP).replace(b"\n", b"\r\n"),
    "names and versions": chunk({"text": "a"}, modelVersion="x", responseId="r", createTime="2026-01-01T00:00:00Z")
    + STOP,
    "ratings and citations": sse(
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": "a"}], "role": "model"},
                    "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW"}],
                    "citationMetadata": {"citationSources": [{"startIndex": 1}]},
                    "avgLogprobs": -0.5,
                    "index": 0,
                }
            ]
        }
    )
    + STOP,
    "parts that were not requested": chunk(
        {"executableCode": {"code": "1", "language": "PYTHON"}},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
        {"text": "a"},
    )
    + STOP,
}


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_is_what_the_sdk_makes_of_it(server: Any, name: str) -> None:
    assert tau_answer(STREAMS[name]) == sdk_answer(server, STREAMS[name])


def random_stream(chance: random.Random) -> bytes:
    parts: list[dict[str, Any]] = []
    for _ in range(chance.randrange(8)):
        signed = SIGNED if chance.random() < 0.2 else {}
        kind = chance.randrange(3)
        text = chance.choice(WORDS)
        args = {chance.choice(["a", "é", ""]): chance.choice([ARGUMENTS, 5, [], None, "x"])}
        parts.append([{"text": text, **signed}, thinks(text, **signed), calls("ls", args, **signed)][kind])
    frames: list[bytes] = []
    while parts:
        count = chance.randint(1, 3)
        frames.append(chunk(*parts[:count], **({"usageMetadata": USED} if chance.random() < 0.3 else {})))
        del parts[:count]
    return b"".join([*frames, STOP])


def test_random_answers_are_what_the_sdk_makes_of_them(server: Any) -> None:
    for seed in range(100):
        chance = random.Random(seed)
        whole = random_stream(chance)
        cut = chance.randrange(len(whole))
        assert tau_answer(whole[:cut], whole[cut:]) == sdk_answer(server, whole), seed


def test_every_reason_to_stop_of_the_sdk_is_known_or_an_error_that_names_it() -> None:
    for reason in types.FinishReason:
        if reason.name == "FINISH_REASON_UNSPECIFIED":
            continue
        try:
            assert tau_answer(chunk({"text": "a"}), chunk(finish=reason.value))[1] == reason.name
        except ModelError as error:
            assert reason.value in str(error)


def test_every_reason_to_block_of_the_sdk_is_an_error_that_names_it() -> None:
    for reason in types.BlockedReason:
        if reason.name != "BLOCKED_REASON_UNSPECIFIED":
            with pytest.raises(ModelError, match=reason.value):
                tau_answer(sse({"promptFeedback": {"blockReason": reason.value}}))


@pytest.mark.parametrize("status", [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE")])
def test_an_error_in_the_stream_is_one_for_both(server: Any, status: tuple[int, str]) -> None:
    bad = sse({"error": {"code": status[0], "message": "no more", "status": status[1]}})
    with pytest.raises(errors.APIError, match="no more"):
        sdk_answer(server, chunk({"text": "a"}) + bad)
    with pytest.raises(ModelError, match="no more"):
        tau_answer(chunk({"text": "a"}), bad)


# Requests.

UNDESCRIBED = Offered("bare", "", {"type": "object", "properties": {}})
SAID = [
    user("go"),
    assistant(Thinking("hm", SIGNATURE), Text("ok", SIGNATURE), call("one", **ARGUMENTS), call("two")),
    ToolResult("call_one", "one", [Text("1"), Image(b64encode(b"png").decode(), "image/png")]),
    ToolResult("call_two", "two", [], {}, True),
    User([Text("look"), Image(b64encode(b"webp").decode(), "image/webp")], 0),
    assistant(Thinking("unsigned"), Text("a")),
    user("on"),
]


@pytest.mark.parametrize("thinking", ["off", "low", "high"])
@pytest.mark.parametrize("id", ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-pro-preview", "gemini-3-flash"])
def test_a_request_is_one_of_the_sdk_s_types(thinking: Any, id: str) -> None:
    model = replace(MODEL, id=id)
    options = CallOptions("k", thinking=thinking)
    body = google.request(model, ModelContext("Be nice.", SAID, [BASH, UNDESCRIBED]), options).body
    sent = json.loads(json.dumps(body))
    for turn in (*sent["contents"], sent["systemInstruction"]):
        types.Content.model_validate(turn)
    for tool in sent["tools"]:
        types.Tool.model_validate(tool)
    types.GenerateContentConfig.model_validate(sent["generationConfig"])
    assert set(sent) == {"contents", "systemInstruction", "tools", "generationConfig"}
