"""Content of conversations in telemetry: only if the user asks for it, shortened, without keys.

`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is SPAN_ONLY, EVENT_ONLY or SPAN_AND_EVENT.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tau.llm.types import ModelContext
from tau.records.base import to_builtins
from tau.records.messages import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tau.runtime.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.trace import Span

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
LIMIT: Final = "TAU_TELEMETRY_CONTENT_BYTES"
CHOICES: Final = ("SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT")
MAX_BYTES: Final = 32 * 1024

Emit = Callable[[str, "Span", Mapping[str, Any]], None]


class Content:
    """Adds content to spans, sends it in events, or does nothing, as `capture` says."""

    def __init__(self, capture: str, limit: int, mask: Callable[[str], str], emit: Emit) -> None:
        self._in_spans = capture in ("SPAN_ONLY", "SPAN_AND_EVENT")
        self._in_events = capture in ("EVENT_ONLY", "SPAN_AND_EVENT")
        self._limit = limit
        self._mask = mask
        self._emit = emit

    @property
    def captured(self) -> bool:
        return self._in_spans or self._in_events

    def request(self, span: Span, context: ModelContext) -> None:
        if not self.captured:
            return
        tools = [{"type": "function", "name": tool.name, "parameters": tool.parameters} for tool in context.tools]
        self._add(
            span,
            {
                names.SYSTEM_INSTRUCTIONS: [{"type": "text", "content": context.system}],
                names.INPUT_MESSAGES: _last_messages(context.messages, self._limit),
                names.TOOL_DEFINITIONS: tools,
            },
        )

    def answer(self, span: Span, message: Assistant) -> None:
        if self.captured:
            shown = {"role": "assistant", "parts": _parts(message.content), "finish_reason": message.stop_reason}
            self._add(span, {names.OUTPUT_MESSAGES: [shown]})

    def tool_arguments(self, span: Span, arguments: Any) -> None:
        if self.captured:
            self._add(span, {names.TOOL_ARGUMENTS: to_builtins(arguments)})

    def tool_result(self, span: Span, text: Sequence[str]) -> None:
        if self.captured:
            self._add(span, {names.TOOL_RESULT: "".join(text)})

    def _add(self, span: Span, content: Mapping[str, Any]) -> None:
        if self._in_spans:
            span.set_attributes({name: self._shortened(value) for name, value in content.items()})
        if self._in_events:
            shortened = {name: self._structured(value, [self._limit]) for name, value in content.items()}
            self._emit(names.DETAILS_EVENT, span, shortened)

    def _shortened(self, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        masked = self._mask(text)
        data = masked.encode(errors="replace")
        return masked if len(data) <= self._limit else data[: self._limit].decode(errors="ignore") + "…"

    def _structured(self, value: Any, left: list[int]) -> Any:
        """The same value for an event, which keeps its structure; `left` is the bytes that its texts may still have."""
        if isinstance(value, dict):
            return {str(key): self._structured(one, left) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._structured(one, left) for one in value]
        if not isinstance(value, str):
            return value if value is None or isinstance(value, bool | int | float) else str(type(value).__name__)
        data = self._mask(value).encode(errors="replace")
        kept = data[: max(0, left[0])].decode(errors="ignore")
        left[0] -= len(data)
        return kept if len(data) <= len(kept.encode()) else kept + "…"


def _last_messages(messages: Iterable[Any], limit: int) -> list[dict[str, Any]]:
    """The last messages that fit, oldest first."""
    kept: list[dict[str, Any]] = []
    size = 0
    for message in reversed(list(messages)):
        shown = _message(message)
        size += len(json.dumps(shown, ensure_ascii=False, default=str))
        if kept and size > limit:
            break
        kept.append(shown)
    return kept[::-1]


def _message(message: Any) -> dict[str, Any]:
    if isinstance(message, ToolResult):
        text = "".join(block.text for block in message.content if isinstance(block, Text))
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": message.tool_call_id, "response": text}]}
    if isinstance(message, Assistant):
        return {"role": "assistant", "parts": _parts(message.content)}
    if isinstance(message, User):
        content = message.content
        return {"role": "user", "parts": _parts([Text(content)] if isinstance(content, str) else content)}
    return {"role": "user", "parts": [{"type": "text", "content": str(getattr(message, "summary", ""))}]}


def _parts(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    return [_part(block) for block in blocks]


def _part(block: Any) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "content": block.text}
    if isinstance(block, Thinking):
        return {"type": "reasoning", "content": block.thinking}
    if isinstance(block, ToolCall):
        return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": to_builtins(block.arguments)}
    if isinstance(block, Image):
        return {"type": "blob", "modality": "image", "mime_type": block.mime_type, "bytes": len(block.data) * 3 // 4}
    return {"type": "text", "content": ""}
