"""The OpenAI Responses API, of OpenAI, on Azure and elsewhere: requests and the reader of its events. No I/O.

The server stores nothing, so the model's reasoning arrives encrypted, is kept in the signature of a thinking block,
and is sent back unchanged. A tool call has two ids: that of the call, which its result refers to, and that of the
item. They are kept as `call_id|item_id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import ModelMessage, is_blank, strip_surrogates, strip_surrogates_in
from tau.core.models.thinking import level_value as sent_level
from tau.errors import ModelError
from tau.llm import azure
from tau.llm.compat import EFFORTS
from tau.llm.event_fields import dispatch, optional_text, require_text, server_error, token_count
from tau.llm.types import (
    CallOptions,
    HttpApi,
    ModelContext,
    ModelRequest,
    ModelResult,
    base_url,
    has_no_output_limit,
    model_headers,
    output_limit,
)
from tau.records.base import BadRecord, encode, parse
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model

ENCRYPTED = "reasoning.encrypted_content"
NO_OUTPUT = "(no tool output)"
PART_SEPARATOR = "\n\n"  # separates parts of reasoning
# Price factor of a service tier.
TIERS = {"flex": 0.5, "priority": 2.0}


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    body: dict[str, Any] = {"model": model.id, "input": conversation(model, context), "stream": True, "store": False}
    if options.max_tokens or not has_no_output_limit(model):
        body["max_output_tokens"] = max(16, output_limit(model, options))  # the minimum that is accepted
    if options.session_id and options.caches:
        body["prompt_cache_key"] = options.session_id[:64]
        if options.caches_long and "api.openai.com" in model.base_url:
            body["prompt_cache_retention"] = "24h"
    if context.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in context.tools
        ]
    body |= thinking(model, options)
    if azure.is_azure(model):
        endpoint = azure.endpoint(model, options)
        body["model"] = endpoint.deployment
        return ModelRequest(endpoint.url("responses"), {**endpoint.headers, **model_headers(model)}, body)
    headers = {"authorization": f"Bearer {options.secret}"} if options.secret else {}
    return ModelRequest(f"{base_url(model, options)}/responses", {**headers, **model_headers(model)}, body)


def thinking(model: Model, options: CallOptions) -> dict[str, Any]:
    """Reasoning is always requested: a model that can think does so even if the request does not mention it."""
    if not model.reasoning:
        return {}
    effort = sent_level(options.thinking, model, EFFORTS)
    fields: dict[str, Any] = {"include": [ENCRYPTED]}
    if effort is None or (model.compat or {}).get("supportsReasoningEffort") is False:
        return fields
    reasoning = {"effort": effort} if options.thinking == "off" else {"effort": effort, "summary": "auto"}
    return {"reasoning": reasoning, **fields}


def conversation(model: Model, context: ModelContext) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    if context.system:
        plain = not model.reasoning or (model.compat or {}).get("supportsDeveloperRole") is False
        sent.append({"role": "system" if plain else "developer", "content": strip_surrogates(context.system)})
    for message in context.messages:
        sent += _items(message)
    return sent


def _items(message: ModelMessage) -> Iterator[dict[str, Any]]:
    match message:
        case User():
            if parts := _parts(message.content):
                yield {"role": "user", "content": parts}
        case ToolResult():
            call, _, _ = message.tool_call_id.partition("|")
            yield {"type": "function_call_output", "call_id": call, "output": _output(message)}
        case Assistant():
            yield from _assistant_items(message)


def _assistant_items(message: Assistant) -> Iterator[dict[str, Any]]:
    items = [item for block in message.content if (item := _item(block)) is not None]
    # The API rejects reasoning that nothing follows.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    yield from items


def _item(block: Text | Thinking | ToolCall) -> dict[str, Any] | None:
    match block:
        case Thinking():
            return _parse_object(block.thinking_signature or "")
        case Text():
            if is_blank(block.text):
                return None
            part = {"type": "output_text", "text": strip_surrogates(block.text), "annotations": []}
            return {"type": "message", "role": "assistant", "content": [part], "status": "completed", **_origin(block)}
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


class Reader:
    """Converts the events of one response to results. Items are identified by their output_index."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place: dict[int, int] = {}
        self._initial_arguments: dict[int, str] = {}  # arguments in the start of a call, used unless others follow
        self._part: dict[int, Any] = {}  # current part of the reasoning of an item; None between two parts

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        return dispatch(self, HANDLERS, event, data)

    def end(self) -> Sequence[ModelResult]:
        raise ModelError("The stream ended before a terminal response event.", transient=True)

    def _created(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        id = event["response"].get("id")
        self._draft.set_usage(response_id=id if isinstance(id, str) else None)
        return ()

    def _item_added(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        index, item = event["output_index"], event["item"]
        place = self._draft.block_count
        opened: ModelResult
        match item["type"]:
            case "message":
                opened = self._draft.open("text")
            case "reasoning":
                opened = self._draft.open("thinking")
            case "function_call":
                opened = self._open_call(item)
            case _:
                return ()  # an unknown type of item that was not requested
        self._place[index] = place
        if item["type"] == "function_call":
            self._initial_arguments[index] = optional_text(item.get("arguments"))
        return [opened]

    def _open_call(self, item: dict[str, Any]) -> ModelResult:
        name, call, made = require_text(item["name"]), optional_text(item.get("call_id")), optional_text(item.get("id"))
        return self._draft.open_call(self._draft.call_id(f"{call}|{made}" if call and made else call, name), name)

    def _delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        index = event["output_index"]
        return [self._draft.add(self._place[index], require_text(event["delta"]))] if index in self._place else ()

    def _thought(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        """Parts of reasoning are separated by an empty line."""
        index, part = event["output_index"], event.get("summary_index", event.get("content_index", 0))
        if index not in self._place:
            return ()
        another = index in self._part and self._part[index] != part
        self._part[index] = part
        between = [self._draft.add(self._place[index], PART_SEPARATOR)] if another else []
        return [*between, *self._delta(event)]

    def _summary_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._part[event["output_index"]] = None
        return ()

    def _arguments(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        """Some servers start with an empty object and send the arguments later."""
        index = event["output_index"]
        if index in self._initial_arguments and require_text(event["delta"]).strip() == "{}":
            self._initial_arguments[index] = self._initial_arguments[index] or event["delta"]
            return ()
        if require_text(event["delta"]).strip():
            self._initial_arguments.pop(index, None)
        return self._delta(event)

    def _arguments_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        index = event["output_index"]
        return self._rest(self._place[index], optional_text(event.get("arguments"))) if index in self._place else ()

    def _rest(self, place: int, text: str) -> list[ModelResult]:
        """The part of an item's final text that was not streamed."""
        missing = self._draft.missing_tail(place, text)
        return [self._draft.add(place, missing)] if missing else []

    def _item_done(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        index, item = event["output_index"], event["item"]
        results = [] if index in self._place else list(self._item_added(event))
        if index not in self._place:
            return results
        place = self._place.pop(index)
        if item["type"] == "function_call":
            text = optional_text(item.get("arguments")) or self._initial_arguments.get(index, "")
        elif item["type"] == "reasoning":
            self._draft.add_signature(place, encode(item).decode())
            parts = item.get("summary") or item.get("content") or ()
            text = PART_SEPARATOR.join(require_text(part["text"]) for part in parts)
        else:
            self._draft.add_signature(place, _signature(item))
            parts = item.get("content") or ()
            text = "".join(require_text(part.get("text", part.get("refusal", ""))) for part in parts)
        return [*results, *self._rest(place, text), self._draft.close(place)]

    def _completed(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._count(event["response"])
        self._draft.set_raw_stop_reason("completed")
        return [
            *self._unclosed(event["response"]),
            *self._draft.finish("toolUse" if self._draft.call_count else "stop"),
        ]

    def _unclosed(self, response: dict[str, Any]) -> Iterator[ModelResult]:
        """Close items that the server left open, from the final response if it contains them."""
        output = response.get("output") or ()
        for index, place in list(self._place.items()):
            if isinstance(index, int) and index < len(output):
                yield from self._item_done({"output_index": index, "item": output[index]})
            else:
                yield from self._rest(place, self._initial_arguments.get(index, ""))

    def _incomplete(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._count(event["response"])
        reason = (event["response"].get("incomplete_details") or {}).get("reason")
        self._draft.set_raw_stop_reason(f"incomplete.{reason}" if reason else "incomplete")
        if reason == "max_output_tokens":
            return self._draft.finish("length")
        raise ModelError(f"The answer is incomplete (reason: {reason}).", transient=False)

    def _failed(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._count(event["response"])
        raise server_error(event["response"].get("error") or event)

    def _error(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        raise server_error(event)

    def _count(self, response: dict[str, Any]) -> None:
        usage = response.get("usage")
        if not isinstance(usage, dict):
            return
        cached = token_count((usage.get("input_tokens_details") or {}).get("cached_tokens"))
        fresh = max(0, token_count(usage.get("input_tokens")) - cached)
        tier = response.get("service_tier")
        times = TIERS.get(tier, 1) if isinstance(tier, str) else 1
        thought = token_count((usage.get("output_tokens_details") or {}).get("reasoning_tokens"))
        output = token_count(usage.get("output_tokens"))
        self._draft.set_usage(usage=Usage(fresh, output, cached, reasoning=thought), times=times)


def _signature(item: dict[str, Any]) -> str:
    id, phase = optional_text(item.get("id")), item.get("phase")
    return encode({"v": 1, "id": id, "phase": phase}).decode() if isinstance(phase, str) else id


HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], Sequence[ModelResult]]] = {
    "response.created": Reader._created,
    "response.output_item.added": Reader._item_added,
    "response.output_text.delta": Reader._delta,
    "response.refusal.delta": Reader._delta,
    "response.reasoning_summary_text.delta": Reader._thought,
    "response.reasoning_summary_part.done": Reader._summary_done,
    "response.reasoning_text.delta": Reader._thought,
    "response.function_call_arguments.delta": Reader._arguments,
    "response.function_call_arguments.done": Reader._arguments_done,
    "response.output_item.done": Reader._item_done,
    "response.completed": Reader._completed,
    "response.incomplete": Reader._incomplete,
    "response.failed": Reader._failed,
    "error": Reader._error,
}


API = HttpApi(request, Reader)
