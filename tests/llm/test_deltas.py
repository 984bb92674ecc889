"""The deltas that a client reads add up to the final text of their block: every API, recorded and generated streams."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.recorded_streams import Reading, aws, recorded, recorded_frames, sse, ways
from tau.llm import anthropic, bedrock, google, openai_chat, openai_responses
from tau.llm.extension_stream import Reader as ExtensionReader
from tau.records.base import encode, parse
from tau.records.deltas import TextDelta, TextEnd, ThinkingDelta, ThinkingEnd, ToolCallDelta, ToolCallEnd
from tau.records.messages import Text, Thinking, ToolCall
from tau.records.models import Model

# What an answer is made of: a text in pieces, thoughts of several parts in pieces, or arguments cut into pieces.
# Each says whether it is told whole at the start or at the end of its block, where an API has a place for that.
Block = tuple[str, list[list[str]], str]


def model(api: str) -> Model:
    return Model("m", "M", api, "p", "https://host/v1", reasoning=True, context_window=200000, max_tokens=8192)


def check(reading: Any) -> None:
    """Compare what was streamed with the message, block by block."""
    joined: dict[int, str] = {}
    ended: dict[int, Any] = {}
    for delta in reading.deltas:
        match delta:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                assert delta.content_index not in ended
                joined[delta.content_index] = joined.get(delta.content_index, "") + delta.delta
            case TextEnd() | ThinkingEnd():
                ended[delta.content_index] = delta.content
            case ToolCallEnd():
                ended[delta.content_index] = delta.tool_call.arguments
    calls = 0
    for index, block in enumerate(reading.done.message.content):
        told = joined.get(index, "")
        match block:
            case Text(text=text) | Thinking(thinking=text):
                assert told == text == ended[index]
            case ToolCall(arguments=arguments):
                assert ended[index] == arguments
                if calls in reading.done.unreadable:
                    assert told == reading.done.unreadable[calls]
                else:
                    assert (parse(told.encode()) if told.strip() else {}) == arguments
                calls += 1


RECORDED: dict[str, tuple[ModuleType, str, list[bytes]]] = {
    "anthropic": (anthropic, "anthropic-messages", recorded("anthropic")),
    "openai_chat": (openai_chat, "openai-completions", recorded("openai_chat")),
    "openai_responses": (openai_responses, "openai-responses", recorded("openai_responses")),
    "google": (google, "google-generative-ai", recorded("google")),
    "bedrock_converse": (bedrock, "bedrock-converse-stream", recorded_frames("bedrock_converse")),
}


@pytest.mark.parametrize("name", RECORDED)
def test_the_deltas_of_a_recorded_answer_add_up(name: str) -> None:
    module, api, events = RECORDED[name]
    for portions in ways(events):
        check(Reading(module, model(api), portions).end())


# Generated answers, as each API tells them.


def _anthropic_events(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "usage": {}}}]
    for index, (kind, parts, how) in enumerate(blocks):
        pieces = [piece for part in parts for piece in part]
        whole = how == "start"
        if kind == "call":
            begun: dict[str, Any] = {"type": "tool_use", "id": f"c{index}", "name": "ls", "input": {}}
            told = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            if whole:
                begun["input"], told = _parsed(pieces), [{"type": "input_json_delta", "partial_json": ""}]
        elif kind == "redacted":
            begun, told = {"type": "redacted_thinking", "data": "cGF5"}, []
        else:
            begun = {"type": kind, kind: "".join(pieces) if whole else ""}
            told = [] if whole else [{"type": f"{kind}_delta", kind: piece} for piece in pieces]
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += ({"type": "content_block_delta", "index": index, "delta": one} for one in told)
        events += [{"type": "content_block_stop", "index": index}] if how != "end" else []
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
    return [*events, {"type": "message_stop"}]


def _parsed(pieces: list[str]) -> Any:
    try:
        return parse("".join(pieces).encode())
    except Exception:
        return {"given": True}


def anthropic_stream(blocks: Sequence[Block]) -> list[bytes]:
    return [sse(event, event["type"]) for event in _anthropic_events(blocks)]


def bedrock_messages_stream(blocks: Sequence[Block]) -> list[bytes]:
    packed = [base64.b64encode(encode(event)).decode() for event in _anthropic_events(blocks)]
    return [aws("chunk", {"bytes": one}) for one in packed]


def bedrock_converse_stream(blocks: Sequence[Block]) -> list[bytes]:
    events: list[bytes] = []
    for index, (kind, parts, how) in enumerate(blocks):
        pieces = [piece for part in parts for piece in part]
        if kind == "call":
            start = {"contentBlockIndex": index, "start": {"toolUse": {"name": "ls", "toolUseId": f"c{index}"}}}
            events.append(aws("contentBlockStart", start))
            deltas: list[dict[str, Any]] = [{"toolUse": {"input": piece}} for piece in pieces]
        elif kind == "text":
            deltas = [{"text": piece} for piece in pieces]
        elif kind == "thinking":
            deltas = [{"reasoningContent": {"text": piece}} for piece in pieces]
            deltas.append({"reasoningContent": {"signature": "c2ln"}})
        else:
            deltas = [{"reasoningContent": {"redactedContent": "cGF5"}}]
        events += (aws("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}) for delta in deltas)
        events += [aws("contentBlockStop", {"contentBlockIndex": index})] if how != "end" else []
    return [*events, aws("messageStop", {"stopReason": "end_turn"}), aws("metadata", {"usage": {}})]


def chat_stream(blocks: Sequence[Block]) -> list[bytes]:
    deltas: list[dict[str, Any]] = []
    for index, (kind, parts, how) in enumerate(blocks):
        pieces = [piece for part in parts for piece in part]
        if kind == "call":
            first = "{}" if how == "start" else ""
            call = {"index": index, "id": f"c{index}", "function": {"name": "ls", "arguments": first}}
            deltas.append({"tool_calls": [call]})
            deltas += ({"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces)
        else:
            field = "content" if kind == "text" else "reasoning_content"
            deltas += ({field: piece} for piece in pieces)
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*map(sse, chunks), sse(end), sse("[DONE]")]


def google_stream(blocks: Sequence[Block]) -> list[bytes]:
    parts: list[dict[str, Any]] = []
    for kind, said, _ in blocks:
        pieces = [piece for part in said for piece in part]
        if kind == "call":
            parts.append({"functionCall": {"name": "ls", "args": _parsed(pieces)}, "thoughtSignature": "c2ln"})
        else:
            thought = {} if kind == "text" else {"thought": True}
            parts += ({"text": piece, **thought} for piece in pieces)
    chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    return [*map(sse, chunks), sse({"candidates": [{"finishReason": "STOP"}]})]


def responses_stream(blocks: Sequence[Block]) -> list[bytes]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r"}}]
    output: list[dict[str, Any]] = []
    for index, (kind, parts, how) in enumerate(blocks):
        begun, whole, told = _RESPONSES[kind](parts)
        output.append(whole)
        at = {"output_index": index}
        events.append({"type": "response.output_item.added", **at, "item": whole if how == "start" else begun})
        events += ({**one, **at} for one in (told if how == "pieces" else ()))
        if how != "end":
            events.append({"type": "response.output_item.done", **at, "item": whole})
    events.append({"type": "response.completed", "response": {"output": output}})
    return [sse(event, event["type"]) for event in events]


def _message(parts: list[list[str]]) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    content = [{"type": "output_text", "text": "".join(part)} for part in parts]
    told = [{"type": "response.output_text.delta", "delta": piece} for part in parts for piece in part]
    return {"type": "message", "id": "m"}, {"type": "message", "id": "m", "content": content}, told


def _reasoning(parts: list[list[str]]) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    summary = [{"type": "summary_text", "text": "".join(part)} for part in parts]
    told: list[dict[str, Any]] = []
    for index, part in enumerate(parts):
        text = {"type": "response.reasoning_summary_text.delta", "summary_index": index}
        told += ({**text, "delta": piece} for piece in part)
        told.append({"type": "response.reasoning_summary_part.done", "summary_index": index})
    return {"type": "reasoning", "id": "r"}, {"type": "reasoning", "id": "r", "summary": summary}, told


def _call(parts: list[list[str]]) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    pieces = [piece for part in parts for piece in part]
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls"}
    told = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
    return {**item, "arguments": ""}, {**item, "arguments": "".join(pieces)}, told


_RESPONSES = {"text": _message, "thinking": _reasoning, "redacted": _reasoning, "call": _call}
GENERATED: dict[str, tuple[ModuleType, str, Callable[[Sequence[Block]], list[bytes]]]] = {
    "anthropic": (anthropic, "anthropic-messages", anthropic_stream),
    "openai_chat": (openai_chat, "openai-completions", chat_stream),
    "openai_responses": (openai_responses, "openai-responses", responses_stream),
    "google": (google, "google-generative-ai", google_stream),
    "bedrock_converse": (bedrock, "bedrock-converse-stream", bedrock_converse_stream),
    "bedrock_messages": (bedrock, bedrock.MESSAGES, bedrock_messages_stream),
}

PIECES = st.lists(st.text('ab é\n😀"\\{}', max_size=4), max_size=4)
ARGUMENTS = st.dictionaries(st.text("ab", min_size=1, max_size=2), st.text('xé\n"', max_size=5), max_size=3)
HOW = st.sampled_from(["pieces", "start", "end"])


@st.composite
def arguments(draw: st.DrawFn) -> list[list[str]]:
    """A JSON object in pieces, some of them empty; or one that was cut."""
    whole = encode(draw(ARGUMENTS)).decode()
    whole = whole[: draw(st.integers(1, len(whole)))] if draw(st.booleans()) else whole
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [[whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]]


BLOCK = st.one_of(
    st.tuples(st.sampled_from(["text", "thinking"]), st.lists(PIECES, min_size=1, max_size=3), HOW),
    st.tuples(st.just("call"), arguments(), HOW),
    st.tuples(st.just("redacted"), st.just([["hidden"]]), HOW),
)


@pytest.mark.parametrize("name", GENERATED)
@given(blocks=st.lists(BLOCK, min_size=1, max_size=4))
def test_the_deltas_of_any_answer_add_up(name: str, blocks: list[Block]) -> None:
    module, api, stream = GENERATED[name]
    check(Reading(module, model(api), stream(blocks)).end())


THOUGHTS = st.lists(PIECES.filter(any), min_size=1, max_size=3)


@given(blocks=st.lists(st.tuples(st.just("thinking"), THOUGHTS, HOW), min_size=1, max_size=3))
def test_parts_of_reasoning_stand_apart_by_an_empty_line(blocks: list[Block]) -> None:
    reading = Reading(openai_responses, model("openai-responses"), responses_stream(blocks)).end()
    said = ["\n\n".join("".join(part) for part in parts) for _, parts, _ in blocks]
    assert [one.thinking for one in reading.done.message.content if isinstance(one, Thinking)] == said


class _OfExtension:
    def __init__(self, pieces: list[dict[str, Any]]) -> None:
        reading = Reading(anthropic, model("extension-stream"))
        reader = ExtensionReader(reading.draft)
        reading.told += [*reader.read(pieces), *reader.end()]
        self.deltas, self.done = reading.deltas, reading.done


@given(blocks=st.lists(BLOCK, min_size=1, max_size=4))
def test_the_deltas_of_an_extension_add_up(blocks: list[Block]) -> None:
    pieces: list[dict[str, Any]] = []
    for kind, parts, _ in blocks:
        said = [piece for part in parts for piece in part]
        if kind == "call":
            pieces.append({"type": "tool_call", "name": "ls", "arguments": "".join(said)})
        else:
            pieces += ({"type": "text" if kind == "text" else "thinking", "delta": piece} for piece in said)
    check(_OfExtension(pieces))
