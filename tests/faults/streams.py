"""Answers of model servers with something wrong in them, read by the real readers over a network of ours.

An answer ends with a Done, or with a ModelError; whatever was told on the way can
be sent to a client. Any other exception would have ended the run as a bug of ours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from faults.mutations import IN_BYTES, Random, retyped
from support.loop_kit import MODEL, for_model, new_draft, user
from support.recorded_streams import BASH, aws, recorded, recorded_frames, sse
from support.rpc_process import WITHIN, as_record
from tau import llm
from tau.core.agent.draft import MessageDone, Update
from tau.errors import ModelError
from tau.llm.http import Http
from tau.llm.types import CallEnvironment, CallOptions, ModelContext, ModelRequest
from tau.records.base import replace, wire_json

if TYPE_CHECKING:
    from tau.llm.types import Transport

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "no secret", "AWS_REGION": "nowhere-1"}
DEEP = 3_000
SLOW = 5.0  # seconds


class Sample(NamedTuple):
    """A good answer of an API, event by event."""

    api: str
    events: list[bytes]


@cache
def samples() -> list[Sample]:
    return [
        Sample("anthropic-messages", recorded("anthropic")),
        Sample("openai-completions", recorded("openai_chat")),
        Sample("openai-responses", recorded("openai_responses")),
        Sample("google-generative-ai", recorded("google")),
        Sample("bedrock-converse-stream", recorded_frames("bedrock_converse")),
    ]


class Case(NamedTuple):
    """What a server sends, and in which portions."""

    api: str
    portions: list[bytes]


# How they are broken.


def mutated_stream(chance: Random) -> Case:
    api, given = chance.choice(samples())
    events = list(given)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        _break(events, chance, framed=api.startswith("bedrock"))
    data = b"".join(events)
    for _ in range(chance.choice([0, 0, 0, 1, 2])):
        if data:
            data = chance.choice(IN_BYTES)(data, chance)
    return Case(api, _cut(data, chance))


def _break(events: list[bytes], chance: Random, *, framed: bool) -> None:
    """Some event lost, said twice, moved, replaced, or with something wrong in its JSON."""
    if not events:
        return
    at, other = chance.randrange(len(events)), chance.randrange(len(events))
    match chance.randrange(10):
        case 0:
            del events[at]
        case 1:
            events.insert(other, events[at])
        case 2:
            events[at], events[other] = events[other], events[at]
        case 3:
            del events[at:]
        case 4:
            events.insert(at, chance.choice(FRAMES if framed else NASTY))
        case _:
            events[at] = (_reshaped_frame if framed else _reshaped)(events[at], chance)


NASTY = [
    *(
        b"data: null\n\n",
        b"data: 5\n\n",
        b'data: "x"\n\n',
        b"data: []\n\n",
        b"data: {}\n\n",
        b"data\n\n",
        b"\n\n",
        b":\n\n",
    ),
    *(b"event: error\ndata: {}\n\n", b'event: error\ndata: {"type":"error","error":5}\n\n', b"retry: x\nid: \0\n\n"),
    *(b"data: [DONE]\n\n", b"data: \xff\xfe\n\n", b"\xef\xbb\xbfdata: {}\r\r", b"event: ping\r\ndata: {}\r\n\r\n"),
    b"data: " + b"[" * DEEP + b"\n\n",
    b'data: {"type":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}\n\n",
    b"data: {" * 500 + b"\n\n",
]
FRAMES = [
    *(aws("messageStart", 5), aws("", {}), aws("contentBlockDelta", []), aws("metadata", None), aws("x" * 300, {})),
    *(aws("throttlingException", {"message": 5}, "exception"), b"\0" * 16, b"\xff" * 40, b"\0\0\0\x10\0\0\0\0"),
]


def _reshaped(event: bytes, chance: Random) -> bytes:
    head, _, text = event.partition(b"data: ")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return event
    if isinstance(value, dict):
        retyped(value, chance)
    name = head.decode().removeprefix("event: ").strip()
    return sse(json.dumps(value), name)


def _reshaped_frame(event: bytes, chance: Random) -> bytes:
    """The same in a frame that is right: its payload is the JSON before the last checksum."""
    size = int.from_bytes(event[:4], "big")
    headers = int.from_bytes(event[4:8], "big")
    if size != len(event) or not 16 <= 12 + headers <= size - 4:
        return event
    try:
        value = json.loads(event[12 + headers : -4])
        name = event[12 : 12 + headers].split(b":event-type\x07")[1]
    except (ValueError, IndexError):
        return event
    if isinstance(value, dict):
        retyped(value, chance)
    return aws(name[2 : 2 + int.from_bytes(name[:2], "big")].decode(errors="replace"), value)


def _cut(data: bytes, chance: Random) -> list[bytes]:
    """As a network may have it: whole, or in portions of any size."""
    size = chance.choice([1, 7, 50, 1_000, len(data) or 1])
    if size < 7 and len(data) > 20_000:
        size = 50
    return [data[at : at + size] for at in range(0, len(data), size)]


# How they are read.


class Wire:
    """A network that brings these portions, and then breaks off with an error if there is one."""

    def __init__(self, portions: Sequence[bytes], error: ModelError | None = None) -> None:
        self._portions = portions
        self._error = error

    async def post(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        for portion in self._portions:
            yield portion
        if self._error is not None:
            raise self._error


async def no_pause(seconds: float) -> None:
    """A clock on which no time passes."""


async def read_stream(case: Case, network: Transport | None = None, url: str = "http://127.0.0.1:9") -> bool:
    """True if it was an answer, False if it was refused. Raises whatever goes wrong."""
    model = replace(MODEL, api=case.api, provider="lab", base_url=url)
    draft = new_draft(model)
    context = ModelContext("Be nice.", for_model([user("hi")], model), [BASH])
    options = CallOptions("some-secret-key", environment=KEYS)
    told: list[Any] = []
    try:
        async with asyncio.timeout(WITHIN):
            world = CallEnvironment(network or Wire(case.portions), no_pause)
            async for facts in llm.stream(model, context, options, draft, world):
                told += facts
    except ModelError as error:
        told.append(draft.fail("error", str(error), transient=error.transient))
    last = told.pop()
    for fact in told:
        assert not isinstance(fact, MessageDone), "something came after the end"
        if isinstance(fact, Update):
            assert as_record(fact.wire_json()) is not None, f"cannot be sent: {fact.wire_json()[:500]!r}"
    record = json.loads(wire_json(last.message))
    assert isinstance(record["content"], list)
    if isinstance(last, MessageDone):
        assert last.message.stop_reason in ("stop", "length", "toolUse"), last.message.stop_reason
        return True
    assert last.message.stop_reason == "error", last.message.stop_reason
    return False


async def read_over_network(cases: Sequence[Case]) -> int:
    """The same over a real connection to a server on this machine: how many were answers."""
    waiting: list[Case] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            case = waiting.pop()
            kind = "application/vnd.amazon.eventstream" if case.api.startswith("bedrock") else "text/event-stream"
            writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode())
            for portion in case.portions:
                writer.write(portion)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    http = Http(SLOW, SLOW)
    try:
        answers = 0
        for case in cases:
            waiting.append(case)
            answers += await read_stream(case, http, url)
        return answers
    finally:
        await http.close()
        server.close()
