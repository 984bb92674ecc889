"""The Anthropic Messages API: requests. No I/O. anthropic_reader.py reads the responses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from tau.core.conversation.provider_messages import (
    ModelMessage,
    ProviderMessages,
    is_blank,
    strip_surrogates,
    strip_surrogates_in,
)
from tau.core.models.thinking import level_value as sent_level
from tau.llm.anthropic_reader import Reader
from tau.llm.request_prefix import RequestPrefix
from tau.llm.types import (
    CallOptions,
    HttpApi,
    ModelContext,
    ModelRequest,
    affinity_headers,
    base_url,
    fit_window,
    model_headers,
    output_limit,
)
from tau.records.base import PackedList, packed_list
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tau.records.models import Model, ThinkingLevel

VERSION = "2023-06-01"
TOOL_STREAMING = "fine-grained-tool-streaming-2025-05-14"
INTERLEAVED = "interleaved-thinking-2025-05-14"
BUDGETS: dict[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 16384, "max": 16384}
# For models that decide themselves how much to think, and take only an effort.
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "max"}
EPHEMERAL = {"type": "ephemeral"}
# Newer models keep their thoughts to themselves unless a summary is requested.
SUMMARIZED = {"display": "summarized"}
_ADAPTIVE = r"(?:opus|sonnet)-4[.-][6-9](?!\d)|claude-[a-z]+-[5-9](?!\d)"


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    body = {"model": model.id, **message_body(model, context, options)}
    headers = {"anthropic-version": VERSION, **_affinity(model, options)}
    if betas := _betas(model, context, options):
        headers["anthropic-beta"] = ",".join(betas)
    headers |= model_headers(model)
    if options.secret:
        headers["x-api-key"] = options.secret
    return ModelRequest(f"{base_url(model, options)}/v1/messages", headers, body)


def _betas(model: Model, context: ModelContext, options: CallOptions) -> list[str]:
    thinks = model.reasoning and options.thinking != "off" and options.interleaved
    streams = bool(context.tools) and not _supports(model, "supportsEagerToolInputStreaming")
    return [
        *([TOOL_STREAMING] if streams else []),
        *([INTERLEAVED] if thinks and not uses_adaptive_thinking(model) else []),
    ]


def _affinity(model: Model, options: CallOptions) -> dict[str, str]:
    compat = model.compat or {}
    openrouter = model.provider == "openrouter" or "openrouter.ai" in model.base_url
    if not compat.get("sendSessionAffinityHeaders", openrouter):
        return {}
    form = compat.get("sessionAffinityFormat", "openrouter" if openrouter else "openai")
    return affinity_headers(options, "x-session-id" if form == "openrouter" else "x-session-affinity")


def _supports(model: Model, feature: str) -> bool:
    """True unless the model's configuration denies the feature."""
    return (model.compat or {}).get(feature) is not False


def message_body(model: Model, context: ModelContext, options: CallOptions) -> dict[str, Any]:
    """The body without the model name, which Bedrock has elsewhere."""
    cache = cache_control(model, options)
    max_tokens, thinking = thinking_fields(model, options)
    unsigned = (model.compat or {}).get("allowEmptySignature") is True
    body: dict[str, Any] = {
        "messages": _messages(context, cache, unsigned=unsigned),
        "max_tokens": max_tokens,
        "stream": True,
    }
    if context.system:
        body["system"] = [_cached({"type": "text", "text": strip_surrogates(context.system)}, cache)]
    if context.tools:
        body["tools"] = _tools(model, context, cache)
    return {**body, **thinking}


def _messages(context: ModelContext, cache: dict[str, str] | None, *, unsigned: bool) -> list[Any] | PackedList:
    last = partial(conversation, cache=cache, unsigned=unsigned)
    if context.kept is None or not isinstance(context.messages, ProviderMessages):
        return packed_list(last(context.messages))
    prefix: RequestPrefix = context.kept.setdefault("prefix", RequestPrefix())
    # Only the last message has a cache marker.
    return prefix.pack(
        context.messages, (conversation, unsigned), partial(conversation, cache=None, unsigned=unsigned), last
    )


def _tools(model: Model, context: ModelContext, cache: dict[str, str] | None) -> list[dict[str, Any]]:
    # Arguments are streamed as they are written, instead of field by field.
    eager = {"eager_input_streaming": True} if _supports(model, "supportsEagerToolInputStreaming") else {}
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters, **eager}
        for tool in context.tools
    ]
    if _supports(model, "supportsCacheControlOnTools"):
        tools[-1] = _cached(tools[-1], cache)
    return tools


def thinking_fields(model: Model, options: CallOptions) -> tuple[int, dict[str, Any]]:
    """max_tokens, and the fields that enable thinking."""
    level = options.thinking
    if uses_adaptive_thinking(model):
        efforts = {**EFFORTS, "xhigh": "max"} if "opus" in model.id else EFFORTS
        effort = None if level == "off" or not model.reasoning else sent_level(level, model, efforts)
        adaptive = {"thinking": {"type": "adaptive", **SUMMARIZED}, "output_config": {"effort": effort}}
        return output_limit(model, options), adaptive if effort else _disabled(model, level)
    max_tokens, budget = token_limits(model, options)
    enabled = {"thinking": {"type": "enabled", "budget_tokens": budget, **SUMMARIZED}}
    return max_tokens, enabled if budget else _disabled(model, level)


def _disabled(model: Model, level: ThinkingLevel) -> dict[str, Any]:
    """Switch thinking off, unless the model always thinks."""
    always = (model.thinking_level_map or {}).get("off", "") is None
    return {"thinking": {"type": "disabled"}} if model.reasoning and level == "off" and not always else {}


def uses_adaptive_thinking(model: Model) -> bool:
    return bool(re.search(_ADAPTIVE, model.id)) or (model.compat or {}).get("forceAdaptiveThinking") is True


def token_limits(model: Model, options: CallOptions) -> tuple[int, int]:
    """max_tokens, and how many of them are for thinking (0: none). At least 1024 are left for the answer."""
    base, level = output_limit(model, options), options.thinking
    if level == "off" or not model.reasoning:
        return base, 0
    budgets = options.budgets
    budget = budgets.get(level) or budgets.get("high" if level in ("xhigh", "max") else level) or BUDGETS[level]
    max_tokens = fit_window(min(base + budget, model.max_tokens), model, options)
    return max_tokens, min(budget, max(0, max_tokens - 1024))


def cache_control(model: Model, options: CallOptions) -> dict[str, str] | None:
    """The cache marker, for an hour if that is configured and the server can."""
    if not options.caches:
        return None
    long = options.caches_long and _supports(model, "supportsLongCacheRetention")
    return {**EPHEMERAL, "ttl": "1h"} if long else EPHEMERAL


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


API = HttpApi(request, Reader)
