"""Reader of chat completions responses. No I/O.

An answer is complete when a finish_reason and then [DONE] or the end of the stream have arrived, or [DONE] alone after
text or calls whose arguments parse; usage may be in any chunk up to there. Servers differ most in how they send tool
calls (see `_find_call`), so calls stay open until the answer is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm.compat import compat
from tau.llm.event_fields import (
    END_MARK,
    MALFORMED,
    as_id,
    as_index,
    as_object,
    as_objects,
    as_text,
    malformed,
    optional_text,
    prompt_counts,
    require_object,
    require_text,
    server_error,
    token_count,
)
from tau.llm.event_fields import parse_event as read_event
from tau.llm.reasoning_details import ReasoningDetails
from tau.llm.types import ModelResult
from tau.records.base import BadRecord, encode, parse
from tau.records.messages import StopReason, Text, Usage

# Fields in which servers send reasoning; it is sent back in the same field.
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "tool_call": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}


@dataclass
class PendingToolCall:
    """A tool call that is being streamed. It is shown once its name is known; until then its deltas are held."""

    id: str
    name: str = ""
    place: int | None = None
    held: list[str] = field(default_factory=list)
    is_complete: bool = False  # name and arguments arrived in one delta
    empty: str = ""  # an initial empty object: the arguments, unless others follow
    has_arguments: bool = False  # some of its arguments have arrived
    index: int | None = None


class Reader:
    """Converts the chunks of one response to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        draft.ends_blocks_on.add("aborted")
        self._ends_with_reason = compat(draft.model).supports_finish_reason
        self._writing: Literal["text", "thinking"] | None = None
        self._place = 0  # of the open block
        self._calls: list[PendingToolCall] = []
        self._by_index: dict[int, PendingToolCall] = {}
        self._by_id: dict[str, PendingToolCall] = {}
        self._details = ReasoningDetails()
        self._first_thought: int | None = None  # place of the first block of thinking
        self._told_reasoning = False  # some has come in one of the fields in REASONING
        self._named = False
        self._stop: str | None = None

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        if data.strip() == END_MARK:
            return self.end(marked=True)
        value = read_event(data)
        if event == "error" or value.get("error") or value.get("object") == "error":
            raise server_error(value)
        try:
            return self._chunk(value)
        except MALFORMED as error:
            raise malformed("chat.completion.chunk", data, error) from None

    def end(self, *, marked: bool = False) -> Sequence[ModelResult]:
        """`marked`: the server said that this is the end."""
        may_lack_reason = not self._ends_with_reason and self._draft.block_count
        if self._stop is None and not may_lack_reason and not (marked and self._is_whole()):
            self._draft.ends_blocks_on.add("error")
            raise ModelError("The stream ended before a finish_reason came.", transient=True)
        stop = (self._stop or "stop").lower()
        if stop == "content_filter":
            raise ModelError("The provider's content filter stopped the answer (content_filter).", transient=False)
        if stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {self._stop}", transient=stop == "network_error")
        results = self._stop_writing()
        for call in self._calls:
            if call.place is None:
                results += self._show(call)
            if call.empty and not call.has_arguments and call.place is not None:
                results.append(self._draft.add(call.place, call.empty))
        if self._details:
            if self._first_thought is None:
                results += [self._begin("thinking"), *self._stop_writing()]
            assert self._first_thought is not None
            self._draft.sign_thinking(self._first_thought, self._details.signature())
        reason = STOP_REASONS[stop]
        if reason != "length":  # some servers send `stop` although there are tool calls
            reason = "toolUse" if self._calls else "stop"
        return [*results, *self._draft.finish(reason)]

    def _is_whole(self) -> bool:
        """True for text, or calls that can be run. Snowflake Cortex and Novita send no finish_reason."""
        texts = [block.text for block in self._draft.message("stop").content if isinstance(block, Text)]
        return (any(texts) or bool(self._calls)) and all(map(self._can_run, self._calls))

    def _can_run(self, call: PendingToolCall) -> bool:
        if not call.has_arguments:
            return call.place is not None and bool(call.empty)
        return call.place is not None and _is_object(self._draft.streamed(call.place).strip())

    def _chunk(self, chunk: dict[str, Any]) -> Sequence[ModelResult]:
        if not self._named and (id := chunk.get("id")) and isinstance(id, str):
            self._draft.set_usage(response_id=id)
            self._named = True
        self._count(chunk.get("usage"))
        results: list[ModelResult] = []
        for choice in as_objects(chunk.get("choices")):
            if as_index(choice.get("index")):  # only one choice was requested
                continue
            if choice.get("error"):  # OpenRouter, when the provider behind it fails
                raise server_error(choice)
            self._count(choice.get("usage"))
            results += self._delta(self._content(choice))
            if reason := choice.get("finish_reason"):
                self._stop = require_text(reason, "finish_reason")
                self._draft.set_raw_stop_reason(self._stop)
        return results

    def _content(self, choice: dict[str, Any]) -> dict[str, Any]:
        """The delta of a choice, which is missing in annotations; some servers send one whole message instead."""
        if (delta := choice.get("delta")) is not None:
            return require_object(delta, "delta")
        return {} if self._draft.block_count else as_object(choice.get("message"))

    def _delta(self, delta: dict[str, Any]) -> list[ModelResult]:
        results = self._thought(delta)
        content = delta.get("content")
        if isinstance(content, list):
            for part in content:
                results += self._part(part)
        elif content:
            results += self._write("text", require_text(content, "delta.content"))
        if refusal := as_text(delta.get("refusal")):
            results += self._write("text", refusal)
        for call in _listed(delta.get("tool_calls")):
            results += self._call(require_object(call, "a tool call"))
        if older := delta.get("function_call"):
            results += self._call({"index": 0, "function": older})
        return results

    def _thought(self, delta: dict[str, Any]) -> list[ModelResult]:
        """Reasoning in a field of its own, in details, or in both, which then have the same text."""
        text, details = "", delta.get("reasoning_details")
        if details:
            text = "".join([self._details.add(detail) for detail in as_objects(details)])
        if source := next((name for name in REASONING if as_text(delta.get(name))), None):
            self._told_reasoning = True
            return self._write("thinking", delta[source], source)
        if text and not self._told_reasoning:
            return self._write("thinking", text)
        if details and self._details and self._first_thought is None and self._writing is None:
            return [self._begin("thinking")]  # encrypted, with nothing to show
        return []

    def _part(self, part: Any) -> list[ModelResult]:
        """Content in parts, the format of Mistral."""
        if isinstance(part, str):
            return self._write("text", part) if part else []
        match require_object(part, "a part of delta.content").get("type"):
            case "text":
                text = optional_text(part.get("text"), "text")
                return self._write("text", text) if text else []
            case "thinking":
                thought = part.get("thinking")
                parts = "".join(as_text(each.get("text")) for each in as_objects(thought))
                thought = as_text(thought) or parts
                return self._write("thinking", thought) if thought else []
        return []

    def _write(self, kind: Literal["text", "thinking"], delta: str, signature: str = "") -> list[ModelResult]:
        results: list[ModelResult] = []
        if self._writing != kind:
            results = self._stop_writing()
            results.append(self._begin(kind, signature))
        return [*results, self._draft.add(self._place, delta)]

    def _begin(self, kind: Literal["text", "thinking"], signature: str = "") -> ModelResult:
        self._writing, self._place = kind, self._draft.block_count
        if kind == "thinking" and self._first_thought is None:
            self._first_thought = self._place
        return self._draft.open(kind, signature)

    def _stop_writing(self) -> list[ModelResult]:
        if self._writing is None:
            return []
        self._writing = None
        return [self._draft.close(self._place)]

    def _call(self, given: dict[str, Any]) -> list[ModelResult]:
        function = require_object(given.get("function") or {}, "function")
        index, id = as_index(given.get("index")), as_id(given.get("id"))
        name = optional_text(function.get("name"), "function.name")
        arguments = function.get("arguments")
        delta = encode(arguments).decode() if isinstance(arguments, dict) else optional_text(arguments, "arguments")
        results = self._stop_writing()
        call = self._find_call(index, id, name)
        if call is None:
            call = PendingToolCall(id)
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
            call.index = index
        if id:
            self._by_id.setdefault(id, call)
            call.id = call.id or id
        if name and not call.name:
            call.name, call.is_complete = name, _is_object(delta)
            results += self._show(call)
        if not call.has_arguments and delta.strip() == "{}":
            call.empty = delta
        elif arguments is not None:
            call.has_arguments = call.has_arguments or bool(delta.strip())
            results += self._add(call, delta)
        return results

    def _find_call(self, index: int | None, id: str, name: str) -> PendingToolCall | None:
        """The call that a delta belongs to, None for a new one.

        Most servers number the calls; some omit numbers, ids or both and send each call complete; some give every
        call the number 0.
        """
        last = self._calls[-1] if self._calls and not name and not id else None
        if index is not None:
            call = self._by_index.get(index) or (last if last is not None and last.index is None else None)
        elif id:
            call = self._by_id.get(id)
        else:
            call = last
        if call is None or not name or not call.name:
            return call
        another = id != call.id if id and call.id else call.is_complete
        return None if another else call

    def _show(self, call: PendingToolCall) -> list[ModelResult]:
        call.place = self._draft.block_count
        results: list[ModelResult] = [
            self._draft.open_call(self._draft.call_id(call.id, call.name or "call"), call.name)
        ]
        return results + [self._draft.add(call.place, delta) for delta in call.held]

    def _add(self, call: PendingToolCall, delta: str) -> list[ModelResult]:
        if call.place is None:
            call.held.append(delta)
            return []
        return [self._draft.add(call.place, delta)]

    def _count(self, usage: Any) -> None:
        """The last count that is not zero wins. Cached tokens are part of prompt_tokens. Reasoning is part of
        completion_tokens, except for servers whose total adds it to both (xAI).
        """
        if not isinstance(usage, dict):
            return
        details = as_object(usage.get("prompt_tokens_details"))
        read = (
            token_count(details.get("cached_tokens"))
            or token_count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
            or token_count(usage.get("cached_tokens"))  # Moonshot
        )
        prompt, output = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
        if not prompt and not output and self._draft.usage.total_tokens:  # Cloudflare's last chunk
            return
        fresh, read, written = prompt_counts(prompt, read, token_count(details.get("cache_write_tokens")))
        thought = token_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
        if token_count(usage.get("total_tokens")) == prompt + output + thought:
            output += thought
        self._draft.set_usage(usage=Usage(fresh, output, read, written, reasoning=thought))


def _listed(calls: Any) -> list[Any]:
    """Some servers send a single call without the list, and null or false for none."""
    if isinstance(calls, list):
        return [call for call in calls if call is not None]
    return [] if not calls or isinstance(calls, (int, float)) else [calls]


def _is_object(text: str) -> bool:
    try:
        return text.endswith("}") and isinstance(parse(text.encode("utf-8", "surrogatepass")), dict)
    except BadRecord:
        return False
