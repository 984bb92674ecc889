"""Gemini, by Google's own API and on Vertex AI: what to send, and what its chunks mean. No I/O.

A chunk is a whole response with a few parts more. Tool calls come whole, mostly
without an id, and results are told to the model in the order of the calls. The
answer is over when a finishReason has come and then the end of the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import Spoken, blank, clean, clean_all, sends_ids
from tau.errors import ModelError
from tau.llm.event_fields import MALFORMED, count, malformed, maybe_text, text, told
from tau.llm.event_fields import event as read_event
from tau.llm.types import Context, Fact, Options, Request, address, fills_window, output_limit, own_headers
from tau.records.base import encode
from tau.records.messages import Assistant, Image, StopReason, Text, Thinking, ToolCall, ToolResult, Usage, User
from tau.records.models import Model

STOP_REASONS: dict[str, StopReason] = {"STOP": "stop", "MAX_TOKENS": "length"}
# Stands for the signature that Gemini 3 wants on every call, where a call has none.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?|[A-Za-z0-9+/]{2,3}={1,2}")
NO_OUTPUT = "(no tool output)"
SEE_IMAGE = "(see attached image)"
ATTACHED = "Images that belong to the tool results above:"

# Tokens to think with, by family: the first name that a model's id contains.
BUDGETS: tuple[tuple[str, dict[str, int]], ...] = (
    ("2.5-pro", {"off": 128, "minimal": 128, "low": 2048, "medium": 8192, "high": 32768, "xhigh": 32768, "max": 32768}),
    ("2.5-flash-lite", {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}),
    ("2.5-flash", {"off": 0, "minimal": 128, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 24576}),
)
# Later families are told a level instead.
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
AS_IT_LIKES = -1


# What to send.


def request(model: Model, context: Context, options: Options) -> Request:
    body: dict[str, Any] = {"contents": conversation(context.messages, model)}
    if context.system:
        body["systemInstruction"] = {"parts": [{"text": clean(context.system)}], "role": "user"}
    if context.tools:
        declared = [
            {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
            for tool in context.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    config: dict[str, Any] = {}
    if options.max_tokens or not fills_window(model):
        config["maxOutputTokens"] = output_limit(model, options)
    if wish := thinking(model, options):
        config["thinkingConfig"] = wish
    body["generationConfig"] = config
    if model.api == "google-vertex":
        url, headers = _on_vertex(model, options)
    else:
        url, headers = address(model, options), {"x-goog-api-key": options.secret} if options.secret else {}
    url = f"{url}/models/{model.id}:streamGenerateContent?alt=sse"
    return Request(url, {**headers, **own_headers(model)}, body)


def _on_vertex(model: Model, options: Options) -> tuple[str, dict[str, str]]:
    """Where Vertex AI has its models: for a key at one address, for an account at that of its project."""
    environment = options.environment
    own = model.base_url.rstrip("/") if model.base_url and "aiplatform.googleapis.com" not in model.base_url else None
    key = options.secret or environment.get("GOOGLE_CLOUD_API_KEY")
    if key:
        return f"{own or 'https://aiplatform.googleapis.com'}/v1/publishers/google", {"x-goog-api-key": key}
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
    return (own or f"https://{host}") + place, {"authorization": f"Bearer {token}"}


def thinking(model: Model, options: Options) -> dict[str, Any]:
    """thinkingConfig. Thoughts are shown whenever there shall be some."""
    if not model.reasoning:
        return {}
    level = options.thinking
    shown = {"includeThoughts": True} if level != "off" else {}
    if own := (model.thinking_level_map or {}).get(level):
        return {**shown, "thinkingLevel": own.upper()}
    if levels := next((levels for pattern, levels in LEVELS if pattern.search(model.id)), None):
        return {**shown, "thinkingLevel": levels.get(level, "HIGH")}
    budgets = next((budgets for name, budgets in BUDGETS if name in model.id), {})
    if level == "off":
        return {"thinkingBudget": budgets["off"]} if budgets else {}
    usual = budgets.get(level, max(budgets.values()) if budgets else AS_IT_LIKES)
    return {**shown, "thinkingBudget": options.budgets.get(level, usual)}


def conversation(messages: Iterable[Spoken], model: Model) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    for kind, group in groupby(messages, type):
        said = list(group)
        if kind is ToolResult:
            sent += _results([message for message in said if isinstance(message, ToolResult)], model)
        for message in said:
            if isinstance(message, User):
                sent.append({"parts": _asked(message.content), "role": "user"})
            elif isinstance(message, Assistant):
                sent.append({"parts": _answered(message, model), "role": "model"})
    return [turn for turn in sent if turn["parts"]]


def _asked(content: str | Sequence[Text | Image]) -> list[dict[str, Any]]:
    blocks = [Text(content)] if isinstance(content, str) else content
    return [_part(block) for block in blocks if not isinstance(block, Text) or not blank(block.text)]


def _part(block: Text | Image) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"text": clean(block.text)}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data}}


def _answered(message: Assistant, model: Model) -> list[dict[str, Any]]:
    return [part for block in message.content if (part := _said(block, model)) is not None]


def _said(block: Text | Thinking | ToolCall, model: Model) -> dict[str, Any] | None:
    match block:
        case Text():
            return None if blank(block.text) else {"text": clean(block.text), **_signed(block.text_signature)}
        case Thinking():
            signed = _signed(block.thinking_signature)
            if blank(block.thinking):
                return None
            return {"text": clean(block.thinking), "thought": True, **signed}
        case ToolCall():
            call: dict[str, Any] = {"name": block.name, "args": clean_all(block.arguments)}
            if sends_ids(model):
                call["id"] = block.id
            signed = _signed(block.thought_signature)
            if not signed and _newer(model):
                signed = {"thoughtSignature": UNSIGNED}
            return {"functionCall": call, **signed}


def _signed(signature: Any) -> dict[str, str]:
    """Signatures are bytes; what is no base64 was made by somebody else."""
    return {"thoughtSignature": signature} if isinstance(signature, str) and _BASE64.fullmatch(signature) else {}


def _newer(model: Model) -> bool:
    return any(pattern.search(model.id) for pattern, _ in LEVELS)


def _results(messages: Sequence[ToolResult], model: Model) -> list[dict[str, Any]]:
    """All results of one turn, and what older models must be shown apart from them."""
    nested = _newer(model)
    responses, images = [], []
    for message in messages:
        shown = [_part(block) for block in message.content if isinstance(block, Image)]
        said = "\n".join(clean(block.text) for block in message.content if isinstance(block, Text))
        said = said or (SEE_IMAGE if shown else NO_OUTPUT)
        response: dict[str, Any] = {
            "name": message.tool_name,
            "response": {"error" if message.is_error else "output": said},
        }
        if sends_ids(model):
            response["id"] = message.tool_call_id
        if shown and nested:
            response["parts"] = shown
        elif shown:
            images += shown
        responses.append({"functionResponse": response})
    turns = [{"parts": responses, "role": "user"}]
    return [*turns, {"parts": [{"text": ATTACHED}, *images], "role": "user"}] if images else turns


# What comes back.


class Reader:
    """Turns one response's chunks into facts."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._writing: Literal["text", "thinking"] | None = None
        self._place = 0
        self._signature = ""  # of what is being written; the last one given is the one that counts
        self._named = False
        self._stop: str | None = None

    def read(self, event: str, data: str) -> Sequence[Fact]:
        value = read_event(data)
        if event == "error" or value.get("error"):
            raise told(value)
        try:
            return self._chunk(value)
        except MALFORMED:
            raise malformed("generateContent", data) from None

    def end(self) -> Sequence[Fact]:
        if self._stop is None:
            raise ModelError("The stream ended before a finishReason came.", transient=True)
        if self._stop not in STOP_REASONS:
            raise ModelError(
                f"Unhandled stop reason: {self._stop}", transient=self._stop in ("MALFORMED_FUNCTION_CALL", "OTHER")
            )
        reason = STOP_REASONS[self._stop]
        if reason == "stop" and self._draft.calls:
            reason = "toolUse"
        return [*self._stop_writing(), *self._draft.done(reason)]

    def _chunk(self, chunk: dict[str, Any]) -> Sequence[Fact]:
        if not self._named and isinstance(id := chunk.get("responseId"), str):
            self._draft.note(response_id=id)
            self._named = True
        self._count(chunk.get("usageMetadata"))
        if blocked := (chunk.get("promptFeedback") or {}).get("blockReason"):
            raise ModelError(f"The prompt was blocked (blockReason: {blocked}).", transient=False)
        facts: list[Fact] = []
        for candidate in (chunk.get("candidates") or ())[:1]:
            for part in (candidate.get("content") or {}).get("parts") or ():
                facts += self._part(part)
            if reason := candidate.get("finishReason"):
                self._stop = text(reason)
        return facts

    def _part(self, part: dict[str, Any]) -> list[Fact]:
        signature = maybe_text(part.get("thoughtSignature"))
        if (call := part.get("functionCall")) is not None:
            return self._call(call, signature)
        if (said := part.get("text")) is None:
            return []  # of a kind that we never asked for
        kind: Literal["text", "thinking"] = "thinking" if part.get("thought") is True else "text"
        facts: list[Fact] = []
        if text(said):
            if self._writing != kind:
                facts = self._stop_writing()
                self._writing, self._place = kind, self._draft.blocks
                facts.append(self._draft.open(kind))
            facts.append(self._draft.add(self._place, said))
        if self._writing is not None:
            self._signature = signature or self._signature
        return facts

    def _stop_writing(self) -> list[Fact]:
        if self._writing is None:
            return []
        if self._signature:
            self._draft.sign(self._place, self._signature)
        self._writing, self._signature = None, ""
        return [self._draft.close(self._place)]

    def _call(self, call: dict[str, Any], signature: str) -> list[Fact]:
        name, arguments = text(call["name"]), call.get("args")
        if arguments is not None and not isinstance(arguments, dict):
            raise ValueError
        facts = self._stop_writing()
        place = self._draft.blocks
        facts.append(self._draft.open_call(self._draft.call_id(maybe_text(call.get("id")), name), name))
        facts.append(self._draft.add(place, encode(arguments or {}).decode()))
        if signature:
            self._draft.sign(place, signature)
        return [*facts, self._draft.close(place)]

    def _count(self, usage: Any) -> None:
        """Cached tokens are part of the prompt; thoughts are not part of the candidates."""
        if not isinstance(usage, dict):
            return
        read = count(usage.get("cachedContentTokenCount"))
        prompt = count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount"))
        thought = count(usage.get("thoughtsTokenCount"))
        said = count(usage.get("candidatesTokenCount")) + thought
        self._draft.note(usage=Usage(max(0, prompt - read), said, read, reasoning=thought))
