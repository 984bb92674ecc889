"""The Anthropic Messages API: requests and the reader of its events. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import ModelMessage, is_blank, strip_surrogates, strip_surrogates_in
from tau.core.models.thinking import level_value as sent_level
from tau.errors import ModelError
from tau.llm.event_fields import dispatch, optional_text, require_text, server_error
from tau.llm.types import (
    DEFAULT_OUTPUT_TOKENS,
    CallOptions,
    HttpApi,
    ModelContext,
    ModelRequest,
    ModelResult,
    base_url,
    model_headers,
)
from tau.records.base import encode, packed_list, replace
from tau.records.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model, ThinkingLevel

VERSION = "2023-06-01"
TOOL_STREAMING = "fine-grained-tool-streaming-2025-05-14"
INTERLEAVED = "interleaved-thinking-2025-05-14"
BUDGETS: dict[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 16384, "max": 16384}
# For models that decide themselves how much to think, and take only an effort.
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "max"}
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
_ADAPTIVE = re.compile(r"(?:opus|sonnet)-4[.-][6-9](?!\d)|claude-[a-z]+-[5-9](?!\d)")


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    interleaved = options.interleaved and not uses_adaptive_thinking(model)
    betas = f"{TOOL_STREAMING},{INTERLEAVED}" if interleaved else TOOL_STREAMING
    headers = {"anthropic-version": VERSION, "anthropic-beta": betas, **model_headers(model)}
    if options.secret:
        headers["x-api-key"] = options.secret
    body = {"model": model.id, **message_body(model, context, options)}
    return ModelRequest(f"{base_url(model, options)}/v1/messages", headers, body)


def message_body(model: Model, context: ModelContext, options: CallOptions) -> dict[str, Any]:
    """The body without the model name, which Bedrock has elsewhere."""
    cache = cache_control(model, options)
    max_tokens, thinking = thinking_fields(model, options)
    unsigned = (model.compat or {}).get("allowEmptySignature") is True
    body: dict[str, Any] = {
        "messages": packed_list(conversation(context.messages, cache=cache, unsigned=unsigned)),
        "max_tokens": max_tokens,
        "stream": True,
    }
    if context.system:
        body["system"] = [_cached({"type": "text", "text": strip_surrogates(context.system)}, cache)]
    if context.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in context.tools
        ]
    return {**body, **thinking}


def thinking_fields(model: Model, options: CallOptions) -> tuple[int, dict[str, Any]]:
    """max_tokens, and the fields that enable thinking."""
    level = options.thinking
    if uses_adaptive_thinking(model):
        efforts = {**EFFORTS, "xhigh": "max"} if "opus" in model.id else EFFORTS
        effort = None if level == "off" or not model.reasoning else sent_level(level, model, efforts)
        fields = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}} if effort else {}
        return token_limits(model, "off", {}, options.max_tokens)[0], fields
    max_tokens, budget = token_limits(model, level, options.budgets, options.max_tokens)
    return max_tokens, {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}


def uses_adaptive_thinking(model: Model) -> bool:
    return bool(_ADAPTIVE.search(model.id)) or (model.compat or {}).get("forceAdaptiveThinking") is True


def token_limits(
    model: Model, thinking: ThinkingLevel, budgets: Mapping[str, int], wanted: int | None = None
) -> tuple[int, int]:
    """max_tokens, and how many of them are for thinking (0: none)."""
    base = min(wanted or DEFAULT_OUTPUT_TOKENS, model.max_tokens)
    if thinking == "off" or not model.reasoning:
        return base, 0
    budget = budgets.get(thinking, BUDGETS[thinking])
    max_tokens = min(base + budget, model.max_tokens)
    if max_tokens <= budget:
        budget = max(0, max_tokens - 1024)
    return max_tokens, budget


def cache_control(model: Model, options: CallOptions) -> dict[str, str] | None:
    """The cache marker. Only Anthropic itself offers a one-hour cache."""
    if not options.caches:
        return None
    return {**EPHEMERAL, "ttl": "1h"} if options.caches_long and "api.anthropic.com" in model.base_url else EPHEMERAL


def _cached(block: dict[str, Any], cache: dict[str, str] | None) -> dict[str, Any]:
    return {**block, "cache_control": cache} if cache else block


def conversation(
    messages: Iterable[ModelMessage], *, cache: dict[str, str] | None = EPHEMERAL, unsigned: bool = False
) -> Iterator[dict[str, Any]]:
    """The messages of a request. `unsigned` is for models whose thinking has no signature but must be sent back."""
    sent: dict[str, Any] | None = None  # the last message, which may still grow
    results = False  # it contains the results of a turn, which share one user message
    for message in messages:
        if isinstance(message, ToolResult):
            if sent is not None and results:
                sent["content"].append(_result(message))
                continue
            blocks, results = [_result(message)], True
        else:
            blocks = _assistant_content(message, unsigned) if isinstance(message, Assistant) else _user_content(message)
            results = False
        if blocks:
            if sent is not None:
                yield sent
            sent = {"role": "assistant" if type(message) is Assistant else "user", "content": blocks}
    if sent is not None:
        if sent["role"] == "user":
            sent["content"][-1] = _cached(sent["content"][-1], cache)
        yield sent


def _user_content(message: User) -> list[dict[str, Any]]:
    content = [Text(message.content)] if isinstance(message.content, str) else message.content
    return [_block(block) for block in content if not isinstance(block, Text) or not is_blank(block.text)]


def _assistant_content(message: Assistant, unsigned: bool) -> list[dict[str, Any]]:
    return [sent for block in message.content if (sent := _assistant_block(block, unsigned)) is not None]


def _assistant_block(block: Text | Thinking | ToolCall, unsigned: bool) -> dict[str, Any] | None:
    if type(block) is Text:
        return None if is_blank(block.text) else {"type": "text", "text": strip_surrogates(block.text)}
    if type(block) is ToolCall:
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": strip_surrogates_in(block.arguments)}
    assert isinstance(block, Thinking)
    if block.redacted is True:
        return {"type": "redacted_thinking", "data": block.thinking_signature}
    if block.thinking_signature or (unsigned and not is_blank(block.thinking)):
        signature = block.thinking_signature or ""
        return {"type": "thinking", "thinking": strip_surrogates(block.thinking), "signature": signature}
    return None if is_blank(block.thinking) else {"type": "text", "text": strip_surrogates(block.thinking)}


def _result(message: ToolResult) -> dict[str, Any]:
    content: Any = "\n".join([strip_surrogates(block.text) for block in message.content if type(block) is Text])
    if any([type(block) is Image for block in message.content]):
        content = [
            _block(block) for block in message.content if not isinstance(block, Text) or not is_blank(block.text)
        ]
    return {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
        "is_error": message.is_error,
    }


def _block(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": strip_surrogates(block.text)}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}


class Reader:
    """Converts the events of one response to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place: dict[int, int] = {}  # the API's block index -> index in the draft
        # Arguments and signatures in the start event of a block, used unless deltas follow.
        self._initial_input: dict[int, Any] = {}
        self._signature: dict[int, str] = {}
        self._stop: str | None = None
        self._tokens = Usage()

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        return dispatch(self, HANDLERS, event, data)

    def end(self) -> Sequence[ModelResult]:
        raise ModelError("The stream ended before message_stop.", transient=True)

    def _message_start(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        message = event["message"]
        self._count(message.get("usage") or {})
        id = message.get("id")
        self._draft.set_usage(usage=self._tokens, response_id=id if isinstance(id, str) else None)
        return ()

    def _block_start(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        block, index = event["content_block"], event["index"]
        self._place[index] = self._draft.block_count
        match block["type"]:
            case "text":
                return self._open_block("text", index, block.get("text"))
            case "thinking":
                self._signature[index] = optional_text(block.get("signature"))
                return self._open_block("thinking", index, block.get("thinking"))
            case "redacted_thinking":
                return self._draft.add_redacted(require_text(block["data"]))
            case "tool_use":
                self._initial_input[index] = block.get("input")
                name = require_text(block["name"])
                return [self._draft.open_call(self._draft.call_id(require_text(block["id"]), name), name)]
        del self._place[index]  # an unknown type of block: its deltas are ignored
        return ()

    def _open_block(self, kind: Any, index: int, initial: str | None) -> Sequence[ModelResult]:
        opened = self._draft.open(kind)
        return [opened, self._draft.add(self._place[index], require_text(initial))] if initial else [opened]

    def _block_delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        place, delta = self._place.get(event["index"]), event["delta"]
        if place is None:
            return ()
        match delta["type"]:
            case "text_delta":
                return [self._draft.add(place, require_text(delta["text"]))]
            case "thinking_delta":
                return [self._draft.add(place, require_text(delta["thinking"]))]
            case "input_json_delta":
                if require_text(delta["partial_json"]).strip():
                    self._initial_input.pop(event["index"], None)
                return [self._draft.add(place, delta["partial_json"])]
            case "signature_delta":
                if require_text(delta["signature"]):
                    self._signature.pop(event["index"], None)
                    self._draft.add_signature(place, delta["signature"])
        return ()

    def _block_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        place = self._place.pop(event["index"], None)
        if place is None or self._draft.is_closed(place):
            return ()
        if signature := self._signature.pop(event["index"], ""):
            self._draft.add_signature(place, signature)
        initial = self._initial_input.pop(event["index"], None)
        results: list[ModelResult] = [self._draft.add(place, encode(initial).decode())] if initial else []
        return [*results, self._draft.close(place)]

    def _message_delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._stop = event["delta"].get("stop_reason") or self._stop
        if isinstance(self._stop, str):
            self._draft.set_raw_stop_reason(self._stop)
        self._count(event.get("usage") or {})
        self._draft.set_usage(usage=self._tokens)
        return ()

    def _message_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        if self._stop in REFUSALS:
            raise ModelError(f"The model refused to answer (stop reason: {self._stop}).", transient=False)
        if self._stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {self._stop}", transient=False)
        unclosed = [result for index in list(self._place) for result in self._block_stop({"index": index})]
        return [*unclosed, *self._draft.finish(STOP_REASONS[self._stop])]

    def _error(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        raise server_error(event)

    def _count(self, usage: dict[str, Any]) -> None:
        """Later counts replace earlier ones, where present."""
        counts = {field: usage[name] for name, field in COUNTS.items() if isinstance(usage.get(name), int)}
        if isinstance(usage.get("cache_creation"), dict):
            counts["cache_write_1h"] = usage["cache_creation"].get("ephemeral_1h_input_tokens")
        if not isinstance(counts.get("cache_write_1h"), int):
            counts["cache_write_1h"] = self._tokens.cache_write_1h or 0
        self._tokens = replace(self._tokens, **counts)


COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], Sequence[ModelResult]]] = {
    "message_start": Reader._message_start,
    "content_block_start": Reader._block_start,
    "content_block_delta": Reader._block_delta,
    "content_block_stop": Reader._block_stop,
    "message_delta": Reader._message_delta,
    "message_stop": Reader._message_stop,
    "error": Reader._error,
}


API = HttpApi(request, Reader)
