"""The part of a streamed message that a client has heard, and the deltas that complete it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tau.records.base import UNSET, BadRecord, Record, decode, encode, replace
from tau.records.deltas import (
    AnyDelta,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tau.records.events import MessageUpdate
from tau.records.messages import Assistant, Text, Thinking, ToolCall


class Piece(Record):
    """The fields of a delta that say which block it belongs to and what it adds."""

    type: str
    content_index: int = -1
    delta: str = ""


class PieceUpdate(Record):
    assistant_message_event: Piece


class HeardBlock:
    def __init__(self) -> None:
        self.text = ""
        self.ended = False


class PartialMessage:
    """An assistant message whose start was told. `begun` is the message of its `message_start`."""

    def __init__(self, begun: Any) -> None:
        self._begun = begun
        self._blocks: dict[int, HeardBlock] = {}

    def on_update(self, line: bytes) -> None:
        """Note what a `message_update` line adds."""
        try:
            piece = decode(PieceUpdate, line, nesting=None).assistant_message_event
        except BadRecord:
            return
        kind, _, step = piece.type.rpartition("_")
        if kind not in ("text", "thinking", "toolcall") or piece.content_index < 0:
            return
        block = self._blocks.setdefault(piece.content_index, HeardBlock())
        if step == "delta":
            block.text += piece.delta
        elif step == "end":
            block.ended = True

    def rest(self, message: Assistant, *, complete: bool, snapshots: bool) -> Iterator[MessageUpdate]:
        """The updates that lead from what was heard to `message`: the rest of each block as one delta.

        `complete`: the message is, so its blocks end. `snapshots`: updates carry the message so far.
        """
        so_far = message if snapshots else UNSET
        for index, block in enumerate(message.content):
            last = index == len(message.content) - 1
            for delta in self._deltas(index, block, ends=complete or not last):
                shown: Any = replace(delta, partial=message) if snapshots else delta
                yield MessageUpdate(shown, message=so_far)

    def _deltas(self, index: int, block: Text | Thinking | ToolCall, *, ends: bool) -> Iterator[AnyDelta]:
        heard = self._blocks.get(index)
        if heard is None:
            yield _start(index, block)
            heard = self._blocks[index] = HeardBlock()
        whole = _text(block)
        # The JSON of arguments may be written in other ways than the model did; then it is in the last delta alone.
        new = whole[len(heard.text) :] if whole.startswith(heard.text) else ""
        if new and not heard.ended:
            heard.text += new
            yield _delta(index, block, new)
        if ends and not heard.ended:
            heard.ended = True
            yield _end(index, block)

    def broken_off(self) -> Assistant:
        """The message with what was heard of it, as aborted."""
        begun = {**self._begun, "content": [], "stopReason": "aborted"}
        texts = [Text(self._blocks[index].text) for index in sorted(self._blocks) if self._blocks[index].text]
        return replace(decode(Assistant, encode(begun)), content=list(texts))


def _text(block: Text | Thinking | ToolCall) -> str:
    match block:
        case Text():
            return block.text
        case Thinking():
            return block.thinking
    return encode(block.arguments).decode()


def _start(index: int, block: Text | Thinking | ToolCall) -> AnyDelta:
    match block:
        case Text():
            return TextStart(index)
        case Thinking():
            return ThinkingStart(index)
    return ToolCallStart(index, block.id, block.name)


def _delta(index: int, block: Text | Thinking | ToolCall, new: str) -> AnyDelta:
    match block:
        case Text():
            return TextDelta(index, new)
        case Thinking():
            return ThinkingDelta(index, new)
    return ToolCallDelta(index, new)


def _end(index: int, block: Text | Thinking | ToolCall) -> AnyDelta:
    match block:
        case Text():
            return TextEnd(index, block.text)
        case Thinking():
            return ThinkingEnd(index, block.thinking)
    return ToolCallEnd(index, block)
