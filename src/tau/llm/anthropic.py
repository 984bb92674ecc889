"""The Anthropic Messages API: what to send, and what its events mean. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tau.core.convert import Spoken
from tau.core.draft import Draft
from tau.errors import ModelError, shortened
from tau.llm.calls import Context, Fact, Options, Request
from tau.records.base import BadRecord, encode, parse, replace
from tau.records.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model, ThinkingLevel

VERSION = "2023-06-01"
BETAS = "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14"
OUTPUT_LIMIT = 32000
BUDGETS: dict[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 16384, "max": 16384}
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "model_context_window_exceeded": "length",
}
REFUSALS = {"refusal", "sensitive"}
EPHEMERAL = {"type": "ephemeral"}
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


# What to send.


def request(model: Model, context: Context, options: Options) -> Request:
    max_tokens, budget = limits(model, options.thinking, options.budgets, options.max_tokens)
    body: dict[str, Any] = {
        "model": model.id,
        "messages": conversation(context.messages),
        "max_tokens": max_tokens,
        "stream": True,
    }
    if context.system:
        body["system"] = [{"type": "text", "text": clean(context.system), "cache_control": EPHEMERAL}]
    if context.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in context.tools
        ]
    if budget:
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    headers = {"anthropic-version": VERSION, "anthropic-beta": BETAS, **(model.headers or {})}
    if options.key:
        headers["x-api-key"] = options.key
    return Request(f"{model.base_url.rstrip('/')}/v1/messages", headers, body)


def limits(model: Model, thinking: ThinkingLevel, budgets: Any, wanted: int | None = None) -> tuple[int, int]:
    """max_tokens, and how many of them are for thinking (0: none)."""
    base = min(model.max_tokens, wanted or OUTPUT_LIMIT)
    if thinking == "off" or not model.reasoning:
        return base, 0
    budget = budgets.get(thinking, BUDGETS[thinking])
    max_tokens = min(base + budget, model.max_tokens)
    if max_tokens <= budget:
        budget = max(0, max_tokens - 1024)
    return max_tokens, budget


def conversation(messages: Sequence[Spoken]) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    results: list[dict[str, Any]] | None = None  # results of one turn travel in one user message
    for message in messages:
        if isinstance(message, ToolResult):
            if results is None:
                results = []
                sent.append({"role": "user", "content": results})
            results.append(_result(message))
            continue
        results = None
        blocks = _asked(message) if isinstance(message, User) else _answered(message)
        if blocks:
            sent.append({"role": "user" if isinstance(message, User) else "assistant", "content": blocks})
    if sent and sent[-1]["role"] == "user":
        last = sent[-1]["content"]
        last[-1] = {**last[-1], "cache_control": EPHEMERAL}
    return sent


def _asked(message: User) -> list[dict[str, Any]]:
    content = [Text(message.content)] if isinstance(message.content, str) else message.content
    return [_block(block) for block in content if not isinstance(block, Text) or block.text.strip()]


def _answered(message: Assistant) -> list[dict[str, Any]]:
    return [sent for block in message.content if (sent := _said(block)) is not None]


def _said(block: Text | Thinking | ToolCall) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "text": clean(block.text)} if block.text.strip() else None
        case Thinking(redacted=True):
            return {"type": "redacted_thinking", "data": block.thinking_signature}
        case Thinking():
            if block.thinking_signature:
                return {"type": "thinking", "thinking": clean(block.thinking), "signature": block.thinking_signature}
            return {"type": "text", "text": clean(block.thinking)} if block.thinking.strip() else None
        case ToolCall():
            return {
                "type": "tool_use",
                "id": tool_id(block.id),
                "name": block.name,
                "input": _clean_all(block.arguments),
            }


def _result(message: ToolResult) -> dict[str, Any]:
    images = any(isinstance(block, Image) for block in message.content)
    content: Any = "\n".join(clean(block.text) for block in message.content if isinstance(block, Text))
    if images:
        content = [_block(block) for block in message.content if not isinstance(block, Text) or block.text.strip()]
    return {
        "type": "tool_result",
        "tool_use_id": tool_id(message.tool_call_id),
        "content": content,
        "is_error": message.is_error,
    }


def _block(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": clean(block.text)}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


def tool_id(id: str) -> str:
    return _UNSAFE.sub("_", id)[:64]


def clean(text: str) -> str:
    """Without lone surrogates: the API takes UTF-8 only."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def _clean_all(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): _clean_all(item) for key, item in value.items()}
    return [_clean_all(item) for item in value] if isinstance(value, list) else value


# What comes back.


def _text(value: Any) -> str:
    """What must be text: anything else is a malformed event."""
    if not isinstance(value, str):
        raise ValueError
    return value


class Reader:
    """Turns one response's events into facts."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place: dict[int, int] = {}  # the API's block index -> ours
        self._given: dict[int, Any] = {}  # arguments that came whole at the start of a block
        self._stop: str | None = None
        self._tokens = Usage()

    def read(self, event: str, data: str) -> Sequence[Fact]:
        try:
            value = parse(data.encode("utf-8", "surrogatepass"))
        except BadRecord as error:
            raise ModelError(
                f"The model server sent an event that is no JSON ({error}): {data[:200]}", transient=True
            ) from None
        kind = value.get("type", event) if isinstance(value, dict) else None
        if not isinstance(kind, str):
            raise ModelError(f"The model server sent an event of no type: {data[:200]}", transient=True)
        handler = HANDLERS.get(kind)
        try:
            return handler(self, value) if handler else ()
        except (KeyError, TypeError, IndexError, AttributeError, ValueError):
            raise ModelError(f"The model server sent a malformed {kind} event: {data[:200]}", transient=True) from None

    def end(self) -> Sequence[Fact]:
        raise ModelError("The stream ended before message_stop.", transient=True)

    def _message_start(self, event: dict[str, Any]) -> Sequence[Fact]:
        message = event["message"]
        self._count(message.get("usage") or {})
        id = message.get("id")
        self._draft.note(usage=self._tokens, response_id=id if isinstance(id, str) else None)
        return ()

    def _block_start(self, event: dict[str, Any]) -> Sequence[Fact]:
        block, index = event["content_block"], event["index"]
        self._place[index] = self._draft.blocks
        match block["type"]:
            case "text":
                return self._opened("text", index, block.get("text"))
            case "thinking":
                return self._opened("thinking", index, block.get("thinking"))
            case "redacted_thinking":
                return self._draft.redacted(_text(block["data"]))
            case "tool_use":
                self._given[index] = block.get("input")
                return [self._draft.open_call(_text(block["id"]), _text(block["name"]))]
        del self._place[index]  # a kind of block we do not know: its pieces are passed over
        return ()

    def _opened(self, kind: Any, index: int, text: str | None) -> Sequence[Fact]:
        opened = self._draft.open(kind)
        return [opened, self._draft.add(self._place[index], _text(text))] if text else [opened]

    def _block_delta(self, event: dict[str, Any]) -> Sequence[Fact]:
        place, delta = self._place.get(event["index"]), event["delta"]
        if place is None:
            return ()
        match delta["type"]:
            case "text_delta":
                return [self._draft.add(place, _text(delta["text"]))]
            case "thinking_delta":
                return [self._draft.add(place, _text(delta["thinking"]))]
            case "input_json_delta":
                self._given.pop(event["index"], None)
                return [self._draft.add(place, _text(delta["partial_json"]))]
            case "signature_delta":
                self._draft.sign(place, _text(delta["signature"]))
        return ()

    def _block_stop(self, event: dict[str, Any]) -> Sequence[Fact]:
        place = self._place.pop(event["index"], None)
        if place is None or self._draft.closed(place):
            return ()
        given = self._given.pop(event["index"], None)
        facts: list[Fact] = [self._draft.add(place, encode(given).decode())] if given else []
        return [*facts, self._draft.close(place)]

    def _message_delta(self, event: dict[str, Any]) -> Sequence[Fact]:
        self._stop = event["delta"].get("stop_reason") or self._stop
        self._count(event.get("usage") or {})
        self._draft.note(usage=self._tokens)
        return ()

    def _message_stop(self, event: dict[str, Any]) -> Sequence[Fact]:
        if self._stop in REFUSALS:
            raise ModelError(f"The model refused to answer (stop reason: {self._stop}).", transient=False)
        if self._stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {self._stop}", transient=False)
        return self._draft.done(STOP_REASONS[self._stop])

    def _error(self, event: dict[str, Any]) -> Sequence[Fact]:
        raise ModelError(shortened(encode(event).decode()))

    def _count(self, usage: dict[str, Any]) -> None:
        """Later numbers replace earlier ones, where they are given."""
        fresh = {ours: usage[theirs] for theirs, ours in COUNTS.items() if isinstance(usage.get(theirs), int)}
        self._tokens = replace(self._tokens, **fresh)


COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], Sequence[Fact]]] = {
    "message_start": Reader._message_start,
    "content_block_start": Reader._block_start,
    "content_block_delta": Reader._block_delta,
    "content_block_stop": Reader._block_stop,
    "message_delta": Reader._message_delta,
    "message_stop": Reader._message_stop,
    "error": Reader._error,
}
