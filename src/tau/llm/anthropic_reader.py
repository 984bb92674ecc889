"""Reader of Anthropic Messages responses. No I/O.

An answer is complete when its stop_reason and message_stop have arrived. Proxies and other servers of this API omit
indexes, starts of blocks and types: what an event belongs to is then clear from the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tau.core.agent.draft import Draft
from tau.errors import ModelError
from tau.llm.event_fields import (
    END_MARK,
    BadField,
    as_id,
    as_index,
    as_object,
    as_objects,
    as_text,
    dispatch,
    require_object,
    require_text,
    server_error,
    token_count,
)
from tau.llm.types import ModelResult
from tau.records.base import encode, replace
from tau.records.messages import StopReason, Usage

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "model_context_window_exceeded": "length",
}
REFUSALS = {"refusal", "sensitive"}
# The field of each type of delta, which tells the type if the server omits it, and the type of its block.
DELTA_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool_use"),
    "signature_delta": ("signature", "thinking"),
}
COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}


class Reader:
    """Converts the events of one response to results."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._place: dict[int, int | None] = {}  # the API's block index -> index in the draft; None for ignored blocks
        self._kind: dict[int, str] = {}
        self._last = -1  # index of the last block that was started
        # Arguments and signatures in the start event of a block, used unless deltas follow.
        self._initial_input: dict[int, Any] = {}
        self._signature: dict[int, str] = {}
        self._stop: Any = None
        self._explanation = ""  # of a refusal
        self._whole: dict[str, Any] = {}  # a message that came whole in message_start
        self._tokens = Usage()

    def read(self, event: str, data: str) -> Sequence[ModelResult]:
        return self.end() if data.strip() == END_MARK else dispatch(self, HANDLERS, event, data)

    def end(self) -> Sequence[ModelResult]:
        raise ModelError("The stream ended before message_stop.", transient=True)

    def _message_start(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        message = as_object(event.get("message"))
        self._count(message.get("usage"))
        self._draft.set_usage(usage=self._tokens, response_id=as_text(message.get("id")) or None)
        if message.get("content"):
            self._whole = message
        return ()

    def _block_start(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        block = require_object(event.get("content_block"), "content_block")
        index = as_index(event.get("index"))
        index = self._last + 1 if index is None else index
        # Some servers give every block the same index.
        closed = self._close(index) if index in self._place else []
        self._last, self._place[index] = index, self._draft.block_count
        return [*closed, *self._open_block(index, block)]

    def _open_block(self, index: int, block: dict[str, Any]) -> Sequence[ModelResult]:
        self._kind[index] = kind = str(block.get("type") or ("tool_use" if "name" in block else "text"))
        match kind:
            case "text":
                return self._open_text("text", index, block.get("text"))
            case "thinking":
                self._signature[index] = as_text(block.get("signature"))
                return self._open_text("thinking", index, block.get("thinking"))
            case "redacted_thinking":
                return self._draft.add_redacted(require_text(block.get("data"), "content_block.data"))
            case "tool_use":
                self._initial_input[index] = block.get("input")
                name = require_text(block.get("name"), "content_block.name")
                return [self._draft.open_call(self._draft.call_id(as_id(block.get("id")), name), name)]
        self._place[index] = None  # an unknown type of block
        return ()

    def _open_text(self, kind: Literal["text", "thinking"], index: int, initial: Any) -> Sequence[ModelResult]:
        text = as_text(initial)
        place = self._draft.block_count
        self._place[index], self._kind[index] = place, kind
        opened = self._draft.open(kind)
        return [opened, self._draft.add(place, text)] if text else [opened]

    def _block_delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        """Read a delta of a block. Nearly every event is a delta of an open block of text: those are read first."""
        delta, index = event.get("delta"), event.get("index")
        if type(delta) is dict and type(index) is int and delta.get("type") == "text_delta":
            text, place = delta.get("text"), self._place.get(index)
            if isinstance(text, str) and place is not None and self._kind[index] == "text":
                return (self._draft.add(place, text),)
        return self._any_block_delta(event)

    def _any_block_delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        delta = require_object(event.get("delta"), "delta")
        kind = delta.get("type") or next((kind for kind, (name, _) in DELTA_FIELDS.items() if name in delta), None)
        index = as_index(event.get("index"))
        if index is None:
            index = self._last if self._last in self._place else self._last + 1
        if not isinstance(kind, str) or kind not in DELTA_FIELDS:
            if delta.get("partial_json") and self._kind.get(index) == "tool_use":
                raise BadField(f"a delta of the unknown type {kind!r} has arguments of a call")
            return ()
        field, block = DELTA_FIELDS[kind]
        if delta.get(field, "") is None:
            return ()
        piece = require_text(delta.get(field), f"delta.{field}")
        if kind == "signature_delta" and (self._place.get(index) is None or self._kind[index] != "thinking"):
            return ()  # it signs nothing: the block that has this index goes on
        opened: Sequence[ModelResult] = ()
        if index not in self._place:
            if kind == "input_json_delta" and piece.strip() and index <= self._last:
                raise BadField(f"there are more arguments for the call with the index {index}, which has ended")
            opened = () if index <= self._last else self._open_unstarted(index, kind)
        elif self._place[index] is not None and self._kind[index] != block:
            opened = [*self._close(index), *self._open_unstarted(index, kind)]
        place = self._place.get(index)
        return [*opened, *self._add(index, place, kind, piece)] if place is not None else opened

    def _open_unstarted(self, index: int, kind: str) -> Sequence[ModelResult]:
        """Open a block whose start the server omitted: of text, since only the start of a call has its name."""
        self._last = index
        if kind == "text_delta":
            return self._open_text("text", index, None)
        if kind == "thinking_delta":
            return self._open_text("thinking", index, None)
        raise BadField(f"there is no content_block_start of a call with the index {index}")

    def _add(self, index: int, place: int, kind: str, piece: str) -> Sequence[ModelResult]:
        if kind == "signature_delta":
            if piece:
                self._signature.pop(index, None)
                self._draft.add_signature(place, piece)
            return ()
        if kind == "input_json_delta" and piece.strip():
            self._initial_input.pop(index, None)
        return [self._draft.add(place, piece)]

    def _block_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        index = as_index(event.get("index"))
        return self._close(self._last if index is None else index)

    def _close(self, index: int) -> list[ModelResult]:
        place = self._place.pop(index, None)
        if place is None or self._draft.is_closed(place):
            return []
        if signature := self._signature.pop(index, ""):
            self._draft.add_signature(place, signature)
        initial = self._initial_input.pop(index, None)
        text = initial if isinstance(initial, str) else encode(initial).decode()
        results: list[ModelResult] = [self._draft.add(place, text)] if initial else []
        return [*results, self._draft.close(place)]

    def _message_delta(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        self._stopped(as_object(event.get("delta")))
        self._count(event.get("usage"))
        self._draft.set_usage(usage=self._tokens)
        return ()

    def _stopped(self, given: dict[str, Any]) -> None:
        self._stop = given.get("stop_reason") or self._stop
        self._explanation = as_text(as_object(given.get("stop_details")).get("explanation")) or self._explanation
        if isinstance(self._stop, str):
            self._draft.set_raw_stop_reason(self._stop)

    def _whole_message(self) -> list[ModelResult]:
        """The blocks of a message that came whole in message_start, as answers to calls from code of the model do."""
        results: list[ModelResult] = []
        for index, block in enumerate(as_objects(self._whole.get("content"))):
            results += self._block_start({"index": index, "content_block": block})
            results += self._close(index)
        if self._stop is None:
            self._stopped(self._whole)
        return results

    def _message_stop(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        whole = self._whole_message() if self._whole and not self._draft.block_count else []
        stop = self._stop
        if stop is not None:
            require_text(stop, "stop_reason")
        if stop in REFUSALS:
            why = f": {self._explanation}" if self._explanation else "."
            raise ModelError(f"The model refused to answer (stop reason: {stop}){why}", transient=False)
        if stop not in STOP_REASONS:
            raise ModelError(f"Unhandled stop reason: {stop}", transient=False)
        unclosed = [result for index in list(self._place) for result in self._close(index)]
        return [*whole, *unclosed, *self._draft.finish(STOP_REASONS[stop])]

    def _error(self, event: dict[str, Any]) -> Sequence[ModelResult]:
        raise server_error(event)

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones, where present."""
        sent = as_object(usage)
        counts = {field: token_count(sent[name]) for name, field in COUNTS.items() if sent.get(name) is not None}
        for_an_hour = as_object(sent.get("cache_creation")).get("ephemeral_1h_input_tokens")
        counts["cache_write_1h"] = self._tokens.cache_write_1h or 0 if for_an_hour is None else token_count(for_an_hour)
        thought = as_object(sent.get("output_tokens_details")).get("thinking_tokens")
        if thought is not None:
            counts["reasoning"] = token_count(thought)
        self._tokens = replace(self._tokens, **counts)


HANDLERS: dict[str, Callable[[Reader, dict[str, Any]], Sequence[ModelResult]]] = {
    "message_start": Reader._message_start,
    "content_block_start": Reader._block_start,
    "content_block_delta": Reader._block_delta,
    "content_block_stop": Reader._block_stop,
    "message_delta": Reader._message_delta,
    "message_stop": Reader._message_stop,
    "error": Reader._error,
}
