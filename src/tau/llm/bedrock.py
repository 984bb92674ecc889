"""Models on Amazon Bedrock: the Converse API, and Claude through the Anthropic Messages API. No I/O.

Requests are signed with the credentials of an account, or carry a Bedrock API key. Responses are AWS event streams.
Anthropic's events are wrapped in such frames and read by anthropic.py.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import ModelMessage, is_blank, strip_surrogates, strip_surrogates_in
from tau.core.text.install_hints import install_hint
from tau.errors import ModelError
from tau.llm import anthropic, anthropic_reader
from tau.llm.event_fields import (
    MALFORMED,
    BadField,
    as_id,
    as_index,
    as_object,
    as_text,
    malformed,
    require_object,
    require_text,
    token_count,
)
from tau.llm.event_fields import parse_event as read_event
from tau.llm.sigv4 import Credentials, sign_headers
from tau.llm.types import (
    CallOptions,
    HttpApi,
    ModelContext,
    ModelRequest,
    ModelResult,
    base_url,
    model_headers,
    output_limit,
)
from tau.records.base import encode_parts, replace
from tau.records.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model
from tau.wire.eventstream import EventStreamDecoder

if TYPE_CHECKING:
    from tau.llm.types import Reader, ToolSpec

ANTHROPIC_API = "bedrock-anthropic-messages"
VERSION = "bedrock-2023-05-31"
SERVICE = "bedrock"
DEFAULT_REGION = "us-east-1"
STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "toolUse",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
MALFORMED_ANSWERS = ("malformed_model_output", "malformed_tool_use")  # of the model: it may do better next time
# Text for exceptions in a stream, and whether a retry may help.
EXCEPTIONS = {
    "throttlingException": ("Throttling error", None),
    "internalServerException": ("Internal server error", None),
    "modelStreamErrorException": ("Model stream error", None),
    "serviceUnavailableException": ("Service unavailable", None),
    "modelTimeoutException": ("Model timed out", None),
    "validationException": ("Validation error", False),
}
NO_OUTPUT = "(no tool output)"
NO_CREDENTIALS = (
    "No AWS credentials. Set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    f"or AWS_PROFILE (which needs an optional package: {install_hint('bedrock')})."
)


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    if model.api == ANTHROPIC_API:
        body = anthropic.message_body(_without_newer_features(model), context, options)
        del body["stream"]
        body["anthropic_version"] = VERSION
        return _to_endpoint(model, options, "invoke-with-response-stream", body)
    return _to_endpoint(model, options, "converse-stream", converse(model, context, options))


def _without_newer_features(model: Model) -> Model:
    """`model` without what only Anthropic's own servers know: this API refuses unknown fields."""
    return replace(model, compat={"supportsEagerToolInputStreaming": False, **(model.compat or {})})


def _to_endpoint(model: Model, options: CallOptions, verb: str, body: dict[str, Any]) -> ModelRequest:
    # A colon is allowed in a path, and clients differ in their handling of %3A; slashes (in ARNs) must be encoded.
    url = f"{_base(model, options)}/model/{quote(model.id, safe=':')}/{verb}"
    return ModelRequest(url, {"accept": "application/vnd.amazon.eventstream", **model_headers(model)}, body)


def _base(model: Model, options: CallOptions) -> str:
    """The URL of the region, unless the model has a base URL of another server."""
    configured = base_url(model, options)
    if configured and not re.fullmatch(r"https://bedrock-runtime\.[\w-]+\.amazonaws\.com", configured):
        return configured
    return f"https://bedrock-runtime.{region(model, options.environment)}.amazonaws.com"


def region(model: Model, environment: Mapping[str, str]) -> str:
    if named := re.match(r"arn:[\w-]+:bedrock:([\w-]+):", model.id):
        return named[1]
    if chosen := environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"):
        return chosen
    default = re.match(r"https://bedrock-runtime\.([\w-]+)\.amazonaws\.com", model.base_url)
    return default[1] if default else DEFAULT_REGION


def sign(request: ModelRequest, model: Model, options: CallOptions) -> ModelRequest:
    """`request` with authentication. The signature covers the body exactly as http.py sends it."""
    environment = options.environment
    if environment.get("AWS_BEDROCK_SKIP_AUTH") == "1" or "authorization" in request.headers:
        return request
    if bearer := options.secret or environment.get("AWS_BEARER_TOKEN_BEDROCK"):
        return replace(request, headers={**request.headers, "authorization": f"Bearer {bearer}"})
    key_id, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        raise ModelError(NO_CREDENTIALS, transient=False)
    credentials = Credentials(key_id, secret, environment.get("AWS_SESSION_TOKEN", ""))
    headers = {"content-type": "application/json", **request.headers}
    where = region(model, environment)
    signed_headers = sign_headers(
        request.url,
        headers,
        b"".join(encode_parts(request.body)),
        credentials,
        region=where,
        service=SERVICE,
        now=options.now,
    )
    return replace(request, headers=signed_headers)


def converse(model: Model, context: ModelContext, options: CallOptions) -> dict[str, Any]:
    cache = _cache_points(model, options)
    # Only Claude takes thinking options; other models decide themselves.
    max_tokens, fields = (
        anthropic.thinking_fields(model, options) if _is_claude(model) else (output_limit(model, options), {})
    )
    body: dict[str, Any] = {"messages": conversation(context.messages, model, cache=cache)}
    if context.system:
        body["system"] = [{"text": strip_surrogates(context.system)}, *cache]
    body["inferenceConfig"] = {"maxTokens": max_tokens}
    if context.tools:
        body["toolConfig"] = {"tools": [{"toolSpec": _tool_spec(tool)} for tool in context.tools]}
    if options.thinking != "off" and fields:
        if region(model, options.environment).startswith("us-gov-"):
            fields["thinking"].pop("display", None)  # not known there yet
        if not anthropic.uses_adaptive_thinking(model):
            fields["anthropic_beta"] = [anthropic.INTERLEAVED]
        body["additionalModelRequestFields"] = fields
    return body


def _tool_spec(tool: ToolSpec) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}  # this API refuses an empty one
    return {"name": tool.name, **described, "inputSchema": {"json": tool.parameters}}


def _cache_points(model: Model, options: CallOptions) -> list[dict[str, Any]]:
    """What marks the end of a part that is cached; nothing if the model or the configuration has no cache."""
    if not options.caches or not _is_claude(model) or not (model.cost.cache_read or model.cost.cache_write):
        return []
    return [{"cachePoint": {"type": "default", **({"ttl": "1h"} if options.caches_long else {})}}]


def _is_claude(model: Model) -> bool:
    return "claude" in model.id


def conversation(
    messages: Iterable[ModelMessage], model: Model, *, cache: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """The messages of a request. Roles must alternate: consecutive messages of one role are merged."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, Assistant) else "user"
        blocks = _blocks(message, model)
        if blocks and sent and sent[-1]["role"] == role:
            sent[-1]["content"] += blocks
        elif blocks:
            sent.append({"role": role, "content": blocks})
    if sent and sent[-1]["role"] == "user":
        sent[-1]["content"] += cache
    return sent


def _blocks(message: ModelMessage, model: Model) -> list[dict[str, Any]]:
    match message:
        case User():
            content = [Text(message.content)] if isinstance(message.content, str) else message.content
            return _visible_blocks(content)
        case ToolResult():
            status = "error" if message.is_error else "success"
            shown = _visible_blocks(message.content) or [{"text": NO_OUTPUT}]
            return [{"toolResult": {"toolUseId": message.tool_call_id, "content": shown, "status": status}}]
        case Assistant():
            return [sent for block in message.content if (sent := _assistant_block(block, model)) is not None]


def _visible_blocks(content: Sequence[Text | Image]) -> list[dict[str, Any]]:
    return [_block(block) for block in content if not isinstance(block, Text) or not is_blank(block.text)]


def _block(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": strip_surrogates(block.text)}
    return {"image": {"format": block.mime_type.removeprefix("image/"), "source": {"bytes": block.data}}}


def _assistant_block(block: Text | Thinking | ToolCall, model: Model) -> dict[str, Any] | None:
    match block:
        case Text():
            return None if is_blank(block.text) else {"text": strip_surrogates(block.text)}
        case Thinking(redacted=True):
            return {"reasoningContent": {"redactedContent": block.thinking_signature}}
        case Thinking():
            thought = {"text": strip_surrogates(block.thinking)}
            if block.thinking_signature:
                return {"reasoningContent": {"reasoningText": {**thought, "signature": block.thinking_signature}}}
            if is_blank(block.thinking):
                return None
            # Claude rejects thinking without its signature.
            return thought if _is_claude(model) else {"reasoningContent": {"reasoningText": thought}}
        case ToolCall():
            return {
                "toolUse": {"toolUseId": block.id, "name": block.name, "input": strip_surrogates_in(block.arguments)}
            }


def reader(draft: Draft) -> Reader:
    return AnthropicReader(draft) if draft.model.api == ANTHROPIC_API else ConverseReader(draft)


def stream_error(kind: str, data: str) -> ModelError | None:
    """The error for an exception or error event in the stream; None for other events."""
    if kind != "error" and not kind.endswith("Exception"):
        return None
    value = read_event(data) if data else {}
    text, transient = EXCEPTIONS.get(kind, (kind, None))
    message = value.get("message") or value.get("Message") or data
    code = value.get("code")
    return ModelError(f"{code or text}: {message}", transient=transient)


class AnthropicReader:
    """Reads Anthropic's events, each base64-encoded in a frame of its own."""

    def __init__(self, draft: Draft) -> None:
        self._reader = anthropic_reader.Reader(draft)

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        if (error := stream_error(event, data)) is not None:
            raise error
        if event != "chunk":
            return ()
        try:
            packed = require_text(read_event(data).get("bytes"), "bytes")
            unpacked = binascii.a2b_base64(packed, strict_mode=True).decode()
        except MALFORMED as error:
            raise malformed(event, data, error) from None
        return self._reader.read("message", unpacked)

    def end(self) -> Sequence[ModelResult]:
        return self._reader.end()


class ConverseReader:
    """Converts the events of one response to results. The usage arrives last, after the stop reason."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place: dict[int, int] = {}
        self._kind: dict[int, str] = {}
        self._last = -1  # index of the last block that was started
        self._stop: str | None = None

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        if (error := stream_error(event, data)) is not None:
            raise error
        handler = HANDLERS.get(event)
        if handler is None:
            return ()
        value = read_event(data)
        try:
            return handler(self, value)
        except MALFORMED as error:
            raise malformed(event, data, error) from None

    def end(self) -> Sequence[ModelResult]:
        if self._stop is None:
            raise ModelError("The stream ended before messageStop.", transient=True)
        if self._stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {self._stop}", transient=self._stop in MALFORMED_ANSWERS)
        return self._draft.finish(STOP_REASONS[self._stop])

    def _index(self, event: dict[str, Any], *, starts: bool = False) -> int:
        """The block of an event: the last one, or a new one, if the server omits the index."""
        index = as_index(event.get("contentBlockIndex"))
        if index is not None:
            return index
        return self._last if self._last in self._place and not starts else self._last + 1

    def _start(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        tool = as_object(event.get("start")).get("toolUse")
        if tool is None:
            return ()
        tool = require_object(tool, "start.toolUse")
        name = require_text(tool.get("name"), "toolUse.name")
        index = self._index(event, starts=True)
        closed = self._close(index)
        self._last, self._place[index], self._kind[index] = index, self._draft.block_count, "call"
        return [*closed, self._draft.open_call(self._draft.call_id(as_id(tool.get("toolUseId")), name), name)]

    def _delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        delta = require_object(event.get("delta"), "delta")
        if (text := delta.get("text")) is not None:
            return self._write(self._index(event), "text", text)
        if (tool := delta.get("toolUse")) is not None:
            return self._add_arguments(self._index(event), require_object(tool, "delta.toolUse").get("input"))
        if (thought := delta.get("reasoningContent")) is not None:
            return self._think(self._index(event), require_object(thought, "delta.reasoningContent"))
        return ()

    def _add_arguments(self, index: int, piece: Any) -> Sequence[ModelResult]:
        if piece is None:
            return ()
        if index not in self._place or self._kind[index] != "call":
            raise BadField(f"there is no call with the index {index}")
        return [self._draft.add(self._place[index], require_text(piece, "toolUse.input"))]

    def _think(self, index: int, thought: dict[str, Any]) -> Sequence[ModelResult]:
        if (hidden := thought.get("redactedContent")) is not None:
            return self._draft.add_redacted(require_text(hidden, "redactedContent"))
        results = list(self._write(index, "thinking", thought.get("text") or ""))
        if signature := as_text(thought.get("signature")):
            self._draft.add_signature(self._place[index], signature)
        return results

    def _write(self, index: int, kind: Any, delta: Any) -> Sequence[ModelResult]:
        """Add a delta. A block of text opens with its first delta, and closes the one before if the kind changes."""
        results: list[ModelResult] = []
        text = require_text(delta, "text")
        if self._kind.get(index) != kind or index not in self._place:
            results += self._close(index)
            self._last, self._place[index], self._kind[index] = index, self._draft.block_count, kind
            results.append(self._draft.open(kind))
        return [*results, self._draft.add(self._place[index], text)] if text else results

    def _block_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        return self._close(self._index(event))

    def _close(self, index: int) -> Sequence[ModelResult]:
        place = self._place.pop(index, None)
        return [] if place is None else [self._draft.close(place)]

    def _message_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._stop = require_text(event.get("stopReason"), "stopReason")
        self._draft.set_raw_stop_reason(self._stop)
        return ()

    def _metadata(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        usage = event.get("usage")
        if isinstance(usage, dict):
            sent, received, read, written = (token_count(usage.get(name)) for name in COUNTS)
            self._draft.set_usage(usage=Usage(sent, received, read, written))
        return self.end() if self._stop is not None else ()


COUNTS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")
HANDLERS: dict[str, Callable[[ConverseReader, dict[str, Any]], Sequence[ModelResult]]] = {
    "contentBlockStart": ConverseReader._start,
    "contentBlockDelta": ConverseReader._delta,
    "contentBlockStop": ConverseReader._block_stop,
    "messageStop": ConverseReader._message_stop,
    "metadata": ConverseReader._metadata,
}


API = HttpApi(request, reader, sign, EventStreamDecoder)
