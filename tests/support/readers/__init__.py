"""What the reader of each API has to do with the same answers; tests/llm/test_reader_laws.py asks it of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from support.recorded_streams import Reading
from tau.records.deltas import (
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
from tau.records.messages import Assistant, Text, Thinking
from tau.records.models import Model


@dataclass(frozen=True, kw_only=True)
class ReaderCase:
    """A recorded answer of one API, what comes of it, and how its server says the same things as all others."""

    name: str
    api: ModuleType
    model: Model
    recorded: Sequence[bytes]
    answer: Assistant
    deltas: Sequence[Any]
    needed: int  # of the recorded events: with fewer, the answer is not whole
    half: Sequence[bytes]  # events that say "half"
    finish: Callable[[Any], Sequence[bytes]]  # the events that end an answer for a reason
    reasons: Mapping[str, str]  # why an answer stopped, in the words of the server and in ours
    refused: Sequence[Any]  # reasons that are errors
    overloaded: Sequence[bytes]  # errors in the stream that say "Overloaded"
    malformed: Mapping[bytes, str]  # events that lack what is needed, and what the error says about them
    tolerated: Sequence[bytes]  # odd events after `half` that change nothing: what they lack is not needed
    call: Callable[[str, str], Sequence[bytes]] | None = None  # a call of a tool, its arguments in one piece
    call_id: str = "c1"
    tried_again: Sequence[Any] = ()  # the refused reasons after which the same request may succeed

    def read(self, *events: bytes) -> Reading:
        return Reading(self.api, self.model, events).end()


def deltas_of(answer: Assistant, *pieces: Sequence[str]) -> list[Any]:
    """What is published of an answer whose blocks come in these pieces."""
    deltas: list[Any] = []
    for at, (block, parts) in enumerate(zip(answer.content, pieces, strict=True)):
        if isinstance(block, Text):
            deltas += [TextStart(at), *(TextDelta(at, part) for part in parts), TextEnd(at, block.text)]
        elif isinstance(block, Thinking):
            deltas += [ThinkingStart(at), *(ThinkingDelta(at, part) for part in parts), ThinkingEnd(at, block.thinking)]
        else:
            arguments = (ToolCallDelta(at, part) for part in parts)
            deltas += [ToolCallStart(at, block.id, block.name), *arguments, ToolCallEnd(at, block)]
    return deltas
