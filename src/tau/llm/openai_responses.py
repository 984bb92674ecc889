"""The OpenAI Responses API, of OpenAI, on Azure and elsewhere: requests. No I/O.

openai_responses_reader.py reads the responses.

The server stores nothing, so the model's reasoning arrives encrypted, is kept in the signature of a thinking block,
and is sent back unchanged. A tool call has two ids: that of the call, which its result refers to, and that of the
item. They are kept as `call_id|item_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tau.core.conversation.provider_messages import ModelMessage, is_blank, strip_surrogates, strip_surrogates_in
from tau.core.models.thinking import level_value as sent_level
from tau.llm import azure
from tau.llm.compat import EFFORTS
from tau.llm.openai_responses_reader import Reader
from tau.llm.types import (
    CallOptions,
    HttpApi,
    ModelContext,
    ModelRequest,
    affinity_headers,
    base_url,
    has_no_output_limit,
    model_headers,
    output_limit,
)
from tau.records.base import BadRecord, encode, parse
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tau.records.models import Model

ENCRYPTED = "reasoning.encrypted_content"
NO_OUTPUT = "(no tool output)"


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    body: dict[str, Any] = {"model": model.id, "input": conversation(model, context), "stream": True, "store": False}
    if options.max_tokens or not has_no_output_limit(model):
        body["max_output_tokens"] = max(16, output_limit(model, options))  # the minimum that is accepted
    body |= _cache_fields(model, options)
    if context.tools:
        # Tools without this field are strict for OpenAI, and then their optional parameters are not allowed.
        strict = {} if (model.compat or {}).get("supportsStrictMode") is False else {"strict": False}
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                **strict,
            }
            for tool in context.tools
        ]
    body |= thinking(model, options)
    if azure.is_azure(model):
        endpoint = azure.endpoint(model, options)
        body["model"] = endpoint.deployment
        return ModelRequest(endpoint.url("responses"), {**endpoint.headers, **model_headers(model)}, body)
    headers = _affinity(model, options)
    if options.secret:
        headers["authorization"] = f"Bearer {options.secret}"
    return ModelRequest(f"{base_url(model, options)}/responses", {**headers, **model_headers(model)}, body)


def _allows(model: Model, feature: str) -> bool:
    """True if the model's configuration grants the feature."""
    return (model.compat or {}).get(feature) is True


def _cache_fields(model: Model, options: CallOptions) -> dict[str, Any]:
    if not options.session_id or not options.caches:
        return {}
    fields: dict[str, Any] = {"prompt_cache_key": options.session_id[:64]}
    long = options.caches_long and (model.compat or {}).get("supportsLongCacheRetention") is not False
    if not long or azure.is_azure(model):
        return fields
    if _allows(model, "supportsExplicitPromptCacheMode"):
        return {**fields, "prompt_cache_options": {"ttl": "30m"}}
    return {**fields, "prompt_cache_retention": "24h"}


def _affinity(model: Model, options: CallOptions) -> dict[str, str]:
    openrouter = model.provider == "openrouter" or "openrouter.ai" in model.base_url
    match (model.compat or {}).get("sessionAffinityFormat", "openrouter" if openrouter else "openai"):
        case "openrouter":
            return affinity_headers(options, "x-session-id")
        case "openai":
            return affinity_headers(options, "session_id", "x-client-request-id")
    return affinity_headers(options, "x-client-request-id")


def thinking(model: Model, options: CallOptions) -> dict[str, Any]:
    """Reasoning is always requested: a model that can think does so even if the request does not mention it."""
    if not model.reasoning:
        return {}
    effort = sent_level(options.thinking, model, EFFORTS)
    fields: dict[str, Any] = {"include": [ENCRYPTED]}
    if effort is None or (model.compat or {}).get("supportsReasoningEffort") is False:
        return fields
    if options.thinking != "off":
        return {"reasoning": {"effort": effort, "summary": "auto"}, **fields}
    return {"reasoning": {"effort": effort}, **(fields if effort != "none" or model.provider == "xai" else {})}


def conversation(model: Model, context: ModelContext) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    if context.system:
        plain = not model.reasoning or (model.compat or {}).get("supportsDeveloperRole") is False
        sent.append({"role": "system" if plain else "developer", "content": strip_surrogates(context.system)})
    for number, message in enumerate(context.messages):
        sent += _items(message, number)
    return sent


def _items(message: ModelMessage, number: int) -> Iterator[dict[str, Any]]:
    match message:
        case User():
            if parts := _parts(message.content):
                yield {"role": "user", "content": parts}
        case ToolResult():
            call, _, _ = message.tool_call_id.partition("|")
            yield {"type": "function_call_output", "call_id": call, "output": _output(message)}
        case Assistant():
            yield from _assistant_items(message, number)


def _assistant_items(message: Assistant, number: int) -> Iterator[dict[str, Any]]:
    blocks = enumerate(message.content)
    # Every message of an answer needs an id: its own, or one that stays the same from request to request.
    items = [item for at, block in blocks if (item := _item(block, f"msg_tau_{number}_{at}")) is not None]
    # The API rejects reasoning that nothing follows.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    yield from items


def _item(block: Text | Thinking | ToolCall, default_id: str) -> dict[str, Any] | None:
    match block:
        case Thinking():
            return _parse_object(block.thinking_signature or "")
        case Text():
            if is_blank(block.text):
                return None
            part = {"type": "output_text", "text": strip_surrogates(block.text), "annotations": []}
            origin = {"id": default_id, **_origin(block)}
            return {"type": "message", "role": "assistant", "content": [part], "status": "completed", **origin}
        case ToolCall():
            call, _, item = block.id.partition("|")
            arguments = encode(strip_surrogates_in(block.arguments)).decode()
            sent = {"type": "function_call", "call_id": call, "name": block.name, "arguments": arguments}
            return {**sent, "id": item} if item else sent


def _origin(block: Text) -> dict[str, str]:
    """The item of a text: its signature is the item's id, or an object with id and phase."""
    signature = block.text_signature or ""
    known = _parse_object(signature) or {"id": signature}
    return {
        name: value
        for name, limit in (("id", 64), ("phase", 64))
        if isinstance(value := known.get(name), str) and 0 < len(value) <= limit
    }


def _parse_object(data: str) -> dict[str, Any] | None:
    try:
        value = parse(data.encode("utf-8", "surrogatepass")) if data.startswith("{") else None
    except BadRecord:
        return None
    return value if isinstance(value, dict) else None


def _output(message: ToolResult) -> str | list[dict[str, Any]]:
    if any(isinstance(block, Image) for block in message.content):
        return _parts(message.content)
    return "\n".join(strip_surrogates(block.text) for block in message.content if isinstance(block, Text)) or NO_OUTPUT


def _parts(content: str | Sequence[Text | Image]) -> list[dict[str, Any]]:
    blocks = [Text(content)] if isinstance(content, str) else content
    return [_part(block) for block in blocks if not isinstance(block, Text) or not is_blank(block.text)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": strip_surrogates(block.text)}
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{block.mime_type};base64,{block.data}"}


API = HttpApi(request, Reader)
