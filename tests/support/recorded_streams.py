"""Recorded answers of model servers (tests/golden/streams), and how a test reads them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.loop_kit import byte_by_byte, new_draft
from tau.core.agent.draft import MessageDone, Update
from tau.core.conversation.provider_messages import ModelMessage
from tau.errors import ModelError
from tau.llm.types import Api, CallOptions, ModelContext, ModelRequest
from tau.records.base import encode, parse
from tau.records.models import Model

STREAMS = Path(__file__).parent.parent / "golden" / "streams"
CALLS: list[dict[str, Any]] = [
    parse(line) for line in (STREAMS / "calls.jsonl").read_bytes().split(b"\n") if line
]  # fifty calls, as models made them


@dataclass(frozen=True)
class Offered:
    name: str
    description: str
    parameters: dict[str, Any]


BASH = Offered("bash", "run", {"type": "object", "properties": {}})


def asking(api: ModuleType, model: Model, *messages: ModelMessage, **options: Any) -> ModelRequest:
    """The request for a conversation with a system prompt and one tool."""
    sent: ModelRequest = api.request(
        model, ModelContext("Be nice.", messages, [BASH]), CallOptions("secret-key", **options)
    )
    return sent


def sse(data: Any, event: str = "") -> bytes:
    text = data if isinstance(data, str) else encode(data).decode()
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def recorded(name: str) -> list[bytes]:
    """The events of a recorded stream, each with the empty line that ends it."""
    return [event + b"\n\n" for event in (STREAMS / f"{name}.sse").read_bytes().split(b"\n\n") if event]


class Reading:
    """One response being read: what was told so far, and its draft."""

    def __init__(self, api: ModuleType | Api, model: Model, portions: Iterable[bytes] = ()) -> None:
        self.draft = new_draft(model)
        self.told: list[Any] = []
        http = api.API if isinstance(api, ModuleType) else api
        self._decoder = http.decoder()
        self._reader = http.reader(self.draft)
        for portion in portions:
            self.feed(portion)

    def feed(self, portion: bytes) -> None:
        for name, data in self._decoder.feed(portion):
            self.told += self._reader.read(name, data)

    def end(self) -> Reading:
        if not self.told or not isinstance(self.told[-1], MessageDone):
            self.told += self._reader.end()
        return self

    @property
    def deltas(self) -> list[Any]:
        return [fact.delta for fact in self.told if isinstance(fact, Update)]

    @property
    def done(self) -> MessageDone:
        done = self.told[-1]
        assert isinstance(done, MessageDone)
        return done


def ways(events: Sequence[bytes]) -> list[list[bytes]]:
    """The same stream whole, event by event, and byte by byte."""
    whole = b"".join(events)
    return [[whole], list(events), byte_by_byte(whole)]


def fails(api: ModuleType, model: Model, events: Sequence[bytes], bad: bytes = b"") -> tuple[ModelError, Reading]:
    """How a reading ends after `events` and then `bad`, or the end of the stream, and what it had until then."""
    reading = Reading(api, model, events)
    with pytest.raises(ModelError) as caught:
        reading.feed(bad)
        reading.end()
    assert not any(isinstance(fact, MessageDone) for fact in reading.told)
    return caught.value, reading


def frame(payload: bytes, **headers: str) -> bytes:
    """One frame of an AWS event stream; `event_type` is the header :event-type."""
    packed = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack(">BH", 7, len(value.encode())) + value.encode()
        for name, value in ((f":{name.replace('_', '-')}", value) for name, value in headers.items())
    )
    head = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    head += struct.pack(">I", zlib.crc32(head))
    return head + packed + payload + struct.pack(">I", zlib.crc32(head + packed + payload))


def aws(event: str, data: Any, kind: str = "event") -> bytes:
    return frame(encode(data), **{f"{kind}_type": event, "content_type": "application/json", "message_type": kind})


def recorded_frames(name: str) -> list[bytes]:
    lines = (STREAMS / f"{name}.jsonl").read_bytes().split(b"\n")
    return [aws(line["event"], line["data"]) for line in map(parse, filter(None, lines))]
