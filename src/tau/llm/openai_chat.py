"""The OpenAI chat completions API of OpenAI and many other servers: requests. No I/O.

compat.py has the differences between servers; openai_chat_reader.py reads the responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tau.core.conversation.provider_messages import ModelMessage, is_blank, strip_surrogates, strip_surrogates_in
from tau.llm import azure
from tau.llm.anthropic import EPHEMERAL
from tau.llm.compat import Compat, compat, thinking
from tau.llm.openai_chat_reader import REASONING, Reader
from tau.llm.reasoning_details import details_of
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
from tau.records.base import encode
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tau.records.models import Model

if TYPE_CHECKING:
    from tau.llm.types import ToolSpec

NO_OUTPUT = "(no tool output)"
SEE_IMAGE = "(see attached image)"
ATTACHED = "Images that belong to the tool results above:"
ACKNOWLEDGEMENT = "I have read the tool results."


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    can = compat(model)
    body: dict[str, Any] = {
        "model": model.id,
        "messages": conversation(model, context, can, thinks=options.thinking != "off"),
        "stream": True,
    }
    if can.supports_usage_in_streaming:
        body["stream_options"] = {"include_usage": True}
    if can.supports_store:
        body["store"] = False
    if options.max_tokens or not has_no_output_limit(model):
        body[can.max_tokens_field] = output_limit(model, options)
    if context.tools:
        body["tools"] = [_tool(tool, can) for tool in context.tools]
        if can.zai_tool_stream:
            body["tool_stream"] = True
    elif any(isinstance(message, ToolResult) for message in context.messages):
        body["tools"] = []  # some servers reject calls in the history if the request has no tools
    body |= thinking(model, options, can)
    if can.open_router_routing:
        body["provider"] = can.open_router_routing
    if can.vercel_gateway_routing:
        body["providerOptions"] = {"gateway": can.vercel_gateway_routing}
    headers = _cache(body, model, options, can)
    return _to_endpoint(model, options, headers, body)


def _to_endpoint(model: Model, options: CallOptions, headers: dict[str, str], body: dict[str, Any]) -> ModelRequest:
    if azure.is_azure(model):
        endpoint = azure.endpoint(model, options)
        body["model"] = endpoint.deployment
        return ModelRequest(
            endpoint.url("chat/completions"), {**endpoint.headers, **headers, **model_headers(model)}, body
        )
    if options.secret:
        headers["authorization"] = f"Bearer {options.secret}"
    # The base URL of Mistral has no version.
    version = "/v1" if model.api == "mistral-conversations" and not model.base_url.rstrip("/").endswith("/v1") else ""
    return ModelRequest(
        f"{base_url(model, options)}{version}/chat/completions", {**headers, **model_headers(model)}, body
    )


def _tool(tool: ToolSpec, can: Compat) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, "strict": False} if can.supports_strict_mode else function}


def conversation(model: Model, context: ModelContext, can: Compat, *, thinks: bool = False) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    if context.system:
        role = "developer" if model.reasoning and can.supports_developer_role else "system"
        sent.append({"role": role, "content": strip_surrogates(context.system)})
    empty_thoughts = thinks and model.reasoning and can.requires_reasoning_content_on_assistant_messages
    for kind, group in groupby(context.messages, type):
        turn_messages = list(group)
        if kind is ToolResult:
            sent += _results([message for message in turn_messages if isinstance(message, ToolResult)], can)
        else:
            sent += [turn for message in turn_messages if (turn := _turn(message, can, empty_thoughts)) is not None]
    return _insert_answers(sent) if can.requires_assistant_after_tool_result else sent


def _turn(message: ModelMessage, can: Compat, empty_thoughts: bool) -> dict[str, Any] | None:
    if isinstance(message, User):
        parts = _parts(message.content)
        return {"role": "user", "content": parts} if parts else None
    sent = _assistant_message(message, can) if isinstance(message, Assistant) else None
    if sent and empty_thoughts and sent.keys().isdisjoint(REASONING):
        sent["reasoning_content"] = ""
    return sent


def _parts(content: str | Sequence[Text | Image]) -> list[dict[str, Any]]:
    blocks = [Text(content)] if isinstance(content, str) else content
    return [_part(block) for block in blocks if not isinstance(block, Text) or not is_blank(block.text)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": strip_surrogates(block.text)}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _assistant_message(message: Assistant, can: Compat) -> dict[str, Any] | None:
    texts = [
        strip_surrogates(block.text)
        for block in message.content
        if isinstance(block, Text) and not is_blank(block.text)
    ]
    thoughts = [block for block in message.content if isinstance(block, Thinking) and not is_blank(block.thinking)]
    sent: dict[str, Any] = {"role": "assistant", "content": None}
    if can.requires_thinking_as_text:
        texts = [*(strip_surrogates(block.thinking) for block in thoughts), *texts]
    elif details := details_of(message):
        sent["reasoning_details"] = details
        if can.requires_reasoning_content_on_assistant_messages:
            sent["reasoning_content"] = strip_surrogates("\n".join(block.thinking for block in thoughts))
    elif thoughts and (field := thoughts[0].thinking_signature) in REASONING:
        sent[str(field)] = strip_surrogates("\n".join(block.thinking for block in thoughts))
    if texts:
        sent["content"] = "\n\n".join(texts)
    calls = message.tool_calls
    if calls:
        sent["tool_calls"] = [_call(call) for call in calls]
    if not texts and not calls:
        return None
    if not texts and can.requires_assistant_after_tool_result:
        sent["content"] = ""
    return sent


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = encode(strip_surrogates_in(call.arguments)).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _results(messages: Sequence[ToolResult], can: Compat) -> Iterator[dict[str, Any]]:
    """One message per result; images follow in one user message, since tool messages are text only."""
    images: list[Image] = []
    for message in messages:
        result_images = [block for block in message.content if isinstance(block, Image)]
        text = "\n".join(strip_surrogates(block.text) for block in message.content if isinstance(block, Text))
        sent = {"role": "tool", "content": text or (SEE_IMAGE if result_images else NO_OUTPUT)}
        sent["tool_call_id"] = message.tool_call_id
        if can.requires_tool_result_name:
            sent["name"] = message.tool_name
        images += result_images
        yield sent
    if images:
        yield {"role": "user", "content": _parts([Text(ATTACHED), *images])}


def _insert_answers(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some servers require an answer between tool results and the next user message."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        if sent and sent[-1]["role"] == "tool" and message["role"] == "user":
            sent.append({"role": "assistant", "content": ACKNOWLEDGEMENT})
        sent.append(message)
    return sent


def _cache(body: dict[str, Any], model: Model, options: CallOptions, can: Compat) -> dict[str, str]:
    """Mark the cacheable parts of the body, and return the headers for session affinity."""
    if not options.caches:
        return {}
    if can.cache_control_format == "anthropic":
        long = options.caches_long and can.supports_long_cache_retention
        _mark_cache(body, {**EPHEMERAL, "ttl": "1h"} if long else EPHEMERAL)
    if not options.session_id:
        return {}
    mistral = model.api == "mistral-conversations"
    long = options.caches_long and can.supports_long_cache_retention and not mistral
    if long or mistral or "api.openai.com" in model.base_url:
        body["prompt_cache_key"] = options.session_id[:64]
    if long:
        body["prompt_cache_retention"] = "24h"
    return affinity_headers(options, *_affinity_names(can, mistral=mistral))


def _affinity_names(can: Compat, *, mistral: bool) -> tuple[str, ...]:
    if mistral:
        return ("x-affinity",)
    if not can.send_session_affinity_headers:
        return ()
    match can.session_affinity_format:
        case "openrouter":
            return ("x-session-id",)
        case "openai":
            return ("session_id", "x-client-request-id", "x-session-affinity")
    return ("x-client-request-id", "x-session-affinity")


def _mark_cache(body: dict[str, Any], cache: Mapping[str, str]) -> None:
    """Mark the system prompt, the tools, and the conversation up to its last text."""
    if body.get("tools"):
        body["tools"][-1] = {**body["tools"][-1], "cache_control": cache}
    messages = body["messages"]
    positions = [at for at, message in enumerate(messages) if message["role"] in ("system", "developer")]
    positions += [
        at for at, message in enumerate(messages) if message["role"] in ("user", "assistant") and message["content"]
    ][-1:]
    for at in positions:
        content = messages[at]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if texts := [index for index, part in enumerate(parts) if part["type"] == "text"]:
            parts[texts[-1]] = {**parts[texts[-1]], "cache_control": cache}
            messages[at] = {**messages[at], "content": parts}


API = HttpApi(request, Reader)
