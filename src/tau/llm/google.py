"""Gemini, through Google's own API and on Vertex AI: requests and the reader of its chunks. No I/O.

A chunk is a complete response with a few more parts. Tool calls arrive complete. Older models give them no id, and
results are matched by the order of the calls. The answer is complete when a finishReason and then the end of the
stream have arrived.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from itertools import groupby
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import (
    ModelMessage,
    is_blank,
    needs_call_ids,
    same_model,
    strip_surrogates,
    strip_surrogates_in,
)
from tau.errors import ModelError
from tau.llm.event_fields import (
    END_MARK,
    MALFORMED,
    BadField,
    as_id,
    as_object,
    as_objects,
    as_text,
    malformed,
    prompt_counts,
    require_object,
    require_text,
    server_error,
    token_count,
)
from tau.llm.event_fields import parse_event as read_event
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
from tau.records.base import encode
from tau.records.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model

STOP_REASONS: dict[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length"}
# Stop reasons after which the same request may succeed.
TRANSIENT_REASONS = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"}
# Placeholder for the signature that Gemini 3 requires on the first call of an answer, for calls of other models.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?|[A-Za-z0-9+/]{2,3}={1,2}")
NO_OUTPUT = "(no tool output)"
SEE_IMAGE = "(see attached image)"
ATTACHED = "Images that belong to the tool results above:"

# Thinking tokens by model family: the first name that occurs in the model's id.
BUDGETS: tuple[tuple[str, dict[str, int]], ...] = (
    ("2.5-pro", {"off": 128, "minimal": 128, "low": 2048, "medium": 8192, "high": 32768, "xhigh": 32768, "max": 32768}),
    ("2.5-flash-lite", {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}),
    ("2.5-flash", {"off": 0, "minimal": 128, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}),
)
# Later families take a level instead.
LEVELS: tuple[tuple[re.Pattern[str], dict[str, str]], ...] = (
    (
        re.compile(r"gemini-(?:3|[4-9])[\d.]*-pro"),
        {"off": "LOW", "minimal": "LOW", "low": "LOW", "medium": "HIGH", "high": "HIGH", "xhigh": "HIGH"},
    ),
    (
        re.compile(r"gemini-(?:3|[4-9])"),
        {"off": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH"},
    ),
)
DYNAMIC_BUDGET = -1


def request(model: Model, context: ModelContext, options: CallOptions) -> ModelRequest:
    body: dict[str, Any] = {"contents": conversation(context.messages, model)}
    if context.system:
        body["systemInstruction"] = {"parts": [{"text": strip_surrogates(context.system)}], "role": "user"}
    if context.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
            for tool in context.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    config: dict[str, Any] = {}
    if options.max_tokens or not has_no_output_limit(model):
        config["maxOutputTokens"] = output_limit(model, options)
    if thinking_config := thinking(model, options):
        config["thinkingConfig"] = thinking_config
    body["generationConfig"] = config
    if model.api == "google-vertex":
        url, headers = _on_vertex(model, options)
    else:
        url, headers = base_url(model, options), {"x-goog-api-key": options.secret} if options.secret else {}
    url = f"{url}/models/{model.id}:streamGenerateContent?alt=sse"
    return ModelRequest(url, {**headers, **model_headers(model)}, body)


def _on_vertex(model: Model, options: CallOptions) -> tuple[str, dict[str, str]]:
    """URL and headers for Vertex AI: one address for API keys, the address of the project for accounts."""
    environment = options.environment
    configured = (
        model.base_url.rstrip("/") if model.base_url and "aiplatform.googleapis.com" not in model.base_url else None
    )
    key = options.secret or environment.get("GOOGLE_CLOUD_API_KEY")
    if key:
        return f"{configured or 'https://aiplatform.googleapis.com'}/v1/publishers/google", {"x-goog-api-key": key}
    token = environment.get("GOOGLE_OAUTH_ACCESS_TOKEN")
    project = environment.get("GOOGLE_CLOUD_PROJECT") or environment.get("GCLOUD_PROJECT")
    location = environment.get("GOOGLE_CLOUD_LOCATION")
    if not token or not project or not location:
        raise ModelError(
            "Vertex AI needs GOOGLE_CLOUD_API_KEY, or an account (gcloud auth application-default login) "
            "with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION.",
            transient=False,
        )
    host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
    place = f"/v1/projects/{project}/locations/{location}/publishers/google"
    return (configured or f"https://{host}") + place, {"authorization": f"Bearer {token}"}


def thinking(model: Model, options: CallOptions) -> dict[str, Any]:
    """The thinkingConfig. Thoughts are included whenever thinking is on."""
    if not model.reasoning:
        return {}
    level = options.thinking
    include = {"includeThoughts": True} if level != "off" else {}
    if mapped := (model.thinking_level_map or {}).get(level):
        return {**include, "thinkingLevel": mapped.upper()}
    if levels := next((levels for pattern, levels in LEVELS if pattern.search(model.id)), None):
        return {**include, "thinkingLevel": levels.get(level, "HIGH")}
    budgets = next((budgets for name, budgets in BUDGETS if name in model.id), {})
    if level == "off":
        return {"thinkingBudget": budgets.get("off", 0)}
    default = budgets.get(level, max(budgets.values()) if budgets else DYNAMIC_BUDGET)
    return {**include, "thinkingBudget": options.budgets.get(level, default)}


def conversation(messages: Iterable[ModelMessage], model: Model) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    ids: set[str] = set()  # of the calls of the last answer, as far as they are sent
    for kind, group in groupby(messages, type):
        turn_messages = list(group)
        if kind is ToolResult:
            sent += _results([message for message in turn_messages if isinstance(message, ToolResult)], model, ids)
        for message in turn_messages:
            if isinstance(message, User):
                sent.append({"parts": _user_parts(message.content), "role": "user"})
            elif isinstance(message, Assistant):
                ids = {call.id for call in message.tool_calls if _sends_id(call, message, model)}
                sent.append({"parts": _assistant_parts(message, model, ids), "role": "model"})
    return [turn for turn in sent if turn["parts"]]


def _user_parts(content: str | Sequence[Text | Image]) -> list[dict[str, Any]]:
    blocks = [Text(content)] if isinstance(content, str) else content
    return [_part(block) for block in blocks if not isinstance(block, Text) or not is_blank(block.text)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": strip_surrogates(block.text)}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _sends_id(call: ToolCall, message: Assistant, model: Model) -> bool:
    """True for an id that Gemini gave, not one that was made up for a call without one (`Draft.call_id`)."""
    made_up = re.fullmatch(rf"{re.escape(call.name)}(_\d+){{2,}}", call.id) is not None
    return needs_call_ids(model) or (same_model(message, model) and not made_up)


def _assistant_parts(message: Assistant, model: Model, ids: Container[str]) -> list[dict[str, Any]]:
    parts = [part for block in message.content if (part := _assistant_part(block, ids)) is not None]
    # Gemini 3 signs the first of parallel calls only.
    first = next((part for part in parts if "functionCall" in part), {})
    if first and _newer(model):
        first.setdefault("thoughtSignature", UNSIGNED)
    return parts


def _assistant_part(block: Text | Thinking | ToolCall, ids: Container[str]) -> dict[str, Any] | None:
    match block:
        case Text():
            return (
                None
                if is_blank(block.text)
                else {"text": strip_surrogates(block.text), **_signature_field(block.text_signature)}
            )
        case Thinking():
            signed = _signature_field(block.thinking_signature)
            if is_blank(block.thinking):
                return None
            return {"text": strip_surrogates(block.thinking), "thought": True, **signed}
        case ToolCall():
            call: dict[str, Any] = {"name": block.name, "args": strip_surrogates_in(block.arguments)}
            if block.id in ids:
                call["id"] = block.id
            return {"functionCall": call, **_signature_field(block.thought_signature)}


def _signature_field(signature: Any) -> dict[str, str]:
    """Signatures are base64; anything else comes from another provider."""
    return {"thoughtSignature": signature} if isinstance(signature, str) and _BASE64.fullmatch(signature) else {}


def _newer(model: Model) -> bool:
    return any(pattern.search(model.id) for pattern, _ in LEVELS)


def _results(messages: Sequence[ToolResult], model: Model, ids: Container[str]) -> list[dict[str, Any]]:
    """All results of one turn, and images that older models accept only outside of them."""
    nested = _newer(model)
    responses, images = [], []
    for message in messages:
        result_images = [_part(block) for block in message.content if isinstance(block, Image)]
        output = "\n".join(strip_surrogates(block.text) for block in message.content if isinstance(block, Text))
        output = output or (SEE_IMAGE if result_images else NO_OUTPUT)
        response: dict[str, Any] = {
            "name": message.tool_name,
            "response": {"error" if message.is_error else "output": output},
        }
        if message.tool_call_id in ids:
            response["id"] = message.tool_call_id
        if result_images and nested:
            response["parts"] = result_images
        elif result_images:
            images += result_images
        responses.append({"functionResponse": response})
    turns = [{"parts": responses, "role": "user"}]
    return [*turns, {"parts": [{"text": ATTACHED}, *images], "role": "user"}] if images else turns


class Reader:
    """Converts the chunks of one response to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._writing: Literal["text", "thinking"] | None = None
        self._place = 0
        self._signature = ""  # of the open block; the last one wins
        self._named = False
        self._stop: str | None = None

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        if data.strip() == END_MARK:
            return self.end()
        value = read_event(data)
        if event == "error" or value.get("error"):
            raise server_error(value)
        try:
            return self._chunk(value)
        except MALFORMED as error:
            raise malformed("generateContent", data, error) from None

    def end(self) -> Sequence[ModelResult]:
        if self._stop is None:
            self._draft.ends_blocks_on.add("error")
            raise ModelError("The stream ended before a finishReason came.", transient=True)
        if self._stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {self._stop}", transient=self._stop in TRANSIENT_REASONS)
        reason = STOP_REASONS[self._stop]
        if reason == "stop" and self._draft.call_count:
            reason = "toolUse"
        return [*self._stop_writing(), *self._draft.finish(reason)]

    def _chunk(self, chunk: dict[str, Any]) -> Sequence[ModelResult]:
        if not self._named and isinstance(id := chunk.get("responseId"), str):
            self._draft.set_usage(response_id=id)
            self._named = True
        self._count(chunk.get("usageMetadata"))
        blocked = as_object(chunk.get("promptFeedback")).get("blockReason")
        if blocked and blocked != "BLOCK_REASON_UNSPECIFIED":
            raise ModelError(f"The prompt was blocked (blockReason: {blocked}).", transient=False)
        results: list[ModelResult] = []
        for candidate in as_objects(chunk.get("candidates"))[:1]:
            content = candidate.get("content")
            parts = require_object(content, "content").get("parts") if content is not None else None
            for part in parts if isinstance(parts, list) else (parts,):
                if part is not None:
                    results += self._part(require_object(part, "a part"))
            reason = candidate.get("finishReason")
            if reason and reason != "FINISH_REASON_UNSPECIFIED":
                self._stop = require_text(reason, "finishReason")
                self._draft.set_raw_stop_reason(self._stop)
        return results

    def _part(self, part: dict[str, Any]) -> list[ModelResult]:
        signature = as_text(part.get("thoughtSignature"))
        if (call := part.get("functionCall")) is not None:
            return self._call(require_object(call, "functionCall"), signature)
        if (text := part.get("text")) is None:
            return []  # a type of part that was not requested
        kind: Literal["text", "thinking"] = "thinking" if part.get("thought") is True else "text"
        results: list[ModelResult] = []
        if require_text(text, "text"):
            if self._writing != kind:
                results = self._stop_writing()
                self._writing, self._place = kind, self._draft.block_count
                results.append(self._draft.open(kind))
            results.append(self._draft.add(self._place, text))
        if self._writing == kind:  # a signature belongs to parts of its kind only
            self._signature = signature or self._signature
        return results

    def _stop_writing(self) -> list[ModelResult]:
        if self._writing is None:
            return []
        if self._signature:
            self._draft.add_signature(self._place, self._signature)
        self._writing, self._signature = None, ""
        return [self._draft.close(self._place)]

    def _call(self, call: dict[str, Any], signature: str) -> list[ModelResult]:
        name, arguments = require_text(call.get("name"), "functionCall.name"), call.get("args")
        if arguments is not None and not isinstance(arguments, dict):
            raise BadField("functionCall.args is not an object")
        results = self._stop_writing()
        place = self._draft.block_count
        results.append(self._draft.open_call(self._draft.call_id(as_id(call.get("id")), name), name))
        results.append(self._draft.add(place, encode(arguments or {}).decode()))
        if signature:
            self._draft.add_signature(place, signature)
        return [*results, self._draft.close(place)]

    def _count(self, usage: Any) -> None:
        """Cached tokens are part of the prompt; thoughts are not part of the candidates."""
        if not isinstance(usage, dict):
            return
        prompt = token_count(usage.get("promptTokenCount")) + token_count(usage.get("toolUsePromptTokenCount"))
        thought = token_count(usage.get("thoughtsTokenCount"))
        output = token_count(usage.get("candidatesTokenCount")) + thought
        fresh, read, _ = prompt_counts(prompt, token_count(usage.get("cachedContentTokenCount")))
        self._draft.set_usage(usage=Usage(fresh, output, read, reasoning=thought))


API = HttpApi(request, Reader)
