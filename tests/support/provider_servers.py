"""How each API tells an answer, a real server that tells it in any way, right or wrong, and a call to that server."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from support.loop_kit import for_model, new_draft, user
from support.recorded_streams import frame
from support.recorded_streams import sse as plain_sse
from tau import llm
from tau.core.agent.draft import Done, Draft, Failed
from tau.errors import ModelError
from tau.llm.http import Http
from tau.llm.types import Context, Options, World
from tau.records.base import encode, parse
from tau.records.messages import AnyMessage, Assistant, Text
from tau.records.models import Model

KEY = "sk-very-secret-key"
SECONDS = 30
PIECES = ["Hel", "lo, ", "wör", "ld 😀"]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Asked = tuple[str, str, Any]  # id, name and arguments of a call; the arguments as text


HALF = "HALF-OF-A-PAIR"  # in a text: half a surrogate pair, which Python would refuse to encode


# How each API tells an answer.


def sse(data: Any, event: str = "") -> bytes:
    return plain_sse(data, event).replace(HALF.encode(), b"\\ud83d")


def anthropic(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    def event(type: str, **fields: Any) -> bytes:
        return sse({"type": type, **fields}, type)

    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
        return [
            event("content_block_start", index=index, content_block=start),
            *(event("content_block_delta", index=index, delta=delta) for delta in deltas),
            event("content_block_stop", index=index),
        ]

    events = [event("message_start", message={"id": "m", "usage": {"input_tokens": 1, "output_tokens": 1}})]
    if texts:
        events += block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in texts))
    for at, (id, name, arguments) in enumerate(calls, start=1):
        given = {"type": "tool_use", "id": id, "name": name, "input": {}}
        events += block(at, given, {"type": "input_json_delta", "partial_json": arguments})
    reason = {"stop": "end_turn", "calls": "tool_use"}.get(finish, finish)
    return [*events, event("message_delta", delta={"stop_reason": reason}, usage={}), event("message_stop")]


def chat(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return sse({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": text}) for text in texts)]
    for at, (id, name, arguments) in enumerate(calls):
        given = {"index": at, "id": id, "function": {"name": name, "arguments": ""}}
        events.append(chunk({"tool_calls": [given]}))
        events.append(chunk({"tool_calls": [{"index": at, "function": {"arguments": arguments}}]}))
    events.append(chunk({}, {"calls": "tool_calls"}.get(finish, finish)))
    return [*events, sse({"choices": [], "usage": {"prompt_tokens": 1}}), sse("[DONE]")]


def responses(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    def event(type: str, **fields: Any) -> bytes:
        return sse({"type": f"response.{type}", **fields}, f"response.{type}")

    events = [event("created", response={"id": "r"})]
    if texts:
        item = {"type": "message", "id": "msg"}
        events.append(event("output_item.added", output_index=0, item=item))
        events += [event("output_text.delta", output_index=0, delta=text) for text in texts]
        whole = {**item, "content": [{"type": "output_text", "text": "".join(texts)}]}
        events.append(event("output_item.done", output_index=0, item=whole))
    for at, (id, name, arguments) in enumerate(calls, start=1):
        item = {"type": "function_call", "id": f"fc_{at}", "call_id": id, "name": name, "arguments": ""}
        events.append(event("output_item.added", output_index=at, item=item))
        events.append(event("function_call_arguments.delta", output_index=at, delta=arguments))
        events.append(event("output_item.done", output_index=at, item={**item, "arguments": arguments}))
    if finish in ("stop", "calls"):
        return [*events, event("completed", response={"id": "r", "status": "completed"})]
    details = {"reason": finish}
    return [*events, event("incomplete", response={"status": "incomplete", "incomplete_details": details})]


def google(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    def chunk(*parts: Any, reason: str | None = None) -> bytes:
        candidate = {"content": {"parts": list(parts)}, "finishReason": reason}
        return sse({"responseId": "g", "candidates": [candidate]})

    events = [chunk({"text": text}) for text in texts]
    events += [chunk({"functionCall": {"id": id, "name": name, "args": _value(given)}}) for id, name, given in calls]
    return [*events, chunk(reason={"stop": "STOP", "calls": "STOP"}.get(finish, finish))]


def _value(arguments: str) -> Any:
    """Arguments are values here; what is no JSON can only come as text."""
    try:
        return parse(arguments.encode())
    except ValueError:
        return arguments


def converse(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    def block(index: int, start: Any, *deltas: Any) -> list[bytes]:
        return [
            *([event("contentBlockStart", contentBlockIndex=index, start=start)] if start else []),
            *(event("contentBlockDelta", contentBlockIndex=index, delta=delta) for delta in deltas),
            event("contentBlockStop", contentBlockIndex=index),
        ]

    def event(type: str, **fields: Any) -> bytes:
        return _frame(fields, event_type=type)

    events = [event("messageStart", role="assistant")]
    if texts:
        events += block(0, None, *({"text": text} for text in texts))
    for at, (id, name, arguments) in enumerate(calls, start=1):
        given = {"toolUse": {"toolUseId": id, "name": name}}
        events += block(at, given, {"toolUse": {"input": arguments}})
    reason = {"stop": "end_turn", "calls": "tool_use"}.get(finish, finish)
    return [*events, event("messageStop", stopReason=reason), event("metadata", usage={"inputTokens": 1})]


def bedrock_messages(texts: Sequence[str], calls: Sequence[Asked], finish: str) -> list[bytes]:
    """Anthropic's events, each packed into a frame."""
    told = [event.partition(b"data: ")[2].rstrip() for event in anthropic(texts, calls, finish)]
    return [_frame({"bytes": b64encode(data).decode()}, event_type="chunk") for data in told]


def _frame(data: Any, **headers: str) -> bytes:
    return frame(encode(data).replace(HALF.encode(), b"\\ud83d"), message_type="event", **headers)


def _readable(event: bytes) -> bytes:
    inside = re.search(rb'"bytes":"([^"]+)"', event)
    return b64decode(inside[1]) if inside else event


def packed(type: str) -> Callable[[bytes], bytes]:
    return lambda data: frame(data, event_type=type, message_type="event")


def _frame_head(size: int) -> bytes:
    head = struct.pack(">II", size, 0)
    return head + struct.pack(">I", zlib.crc32(head))


FLOOD_OF_AWS = _frame_head(40_000_016)


class Speaker(NamedTuple):
    """`pack` makes an event of any bytes; `flood` is how an event of forty megabytes begins.

    `last` is how many events at the end belong to it: without them all an answer is
    not whole. With its reason to stop it is, though usage and last words are missing.
    """

    api: str
    tell: Callable[[Sequence[str], Sequence[Asked], str], list[bytes]]
    pack: Callable[[bytes], bytes] = lambda data: b"data: " + data + b"\n\n"
    flood: bytes = b"data: "
    last: int = 1

    @property
    def frames(self) -> bool:
        """Whether it speaks in frames of AWS, and not in lines."""
        return self.flood == FLOOD_OF_AWS

    def model(self, url: str = "") -> Model:
        return Model("m", "M", self.api, "lab", url)

    def error(self, message: str) -> bytes:
        """An error in the middle of a stream."""
        if self.frames:
            said = encode({"message": message})
            return frame(said, exception_type="modelStreamErrorException", message_type="exception")
        return sse({"type": "error", "error": {"type": "overloaded_error", "message": message}}, "error")

    def up_to(self, piece: bytes, events: Sequence[bytes]) -> list[bytes]:
        """The events until the one that has this piece of text in it."""
        at = next(at for at, event in enumerate(events) if piece in _readable(event))
        return list(events[: at + 1])

    def says(self, *texts: str, calls: Sequence[Asked] = (), finish: str | None = None) -> list[bytes]:
        return self.tell(texts, calls, finish or ("calls" if calls else "stop"))


SPEAKERS = [
    Speaker("anthropic-messages", anthropic),
    Speaker("openai-completions", chat, last=3),
    Speaker("mistral-conversations", chat, last=3),
    Speaker("openai-responses", responses),
    Speaker("azure-openai-responses", responses),
    Speaker("google-generative-ai", google),
    Speaker("google-vertex", google),
    Speaker("bedrock-converse-stream", converse, packed("contentBlockDelta"), FLOOD_OF_AWS, last=2),
    Speaker("bedrock-anthropic-messages", bedrock_messages, packed("chunk"), FLOOD_OF_AWS),
]


# A real server, and a call to it.

CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def heard(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)


def sends(*portions: bytes, reset: bool = False, stall: bool = False) -> Serve:
    """Answer with `portions`, then close the connection, reset it, or leave it open and silent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard(reader)
        for portion in portions:
            writer.write(portion)
            await writer.drain()
        if stall:
            await reader.read()  # until the other side is gone
        if reset:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    return serve


def streams(*events: bytes, **how: bool) -> Serve:
    return sends(CHUNKED, *map(chunk, events), **how)


def whole(events: Sequence[bytes]) -> Serve:
    return streams(*events, b"")


def refuses(status: int, body: bytes = b"no", *headers: str) -> Serve:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", "connection: close", *headers]
    return sends("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


@dataclass
class Ending:
    """How a call ended: what was told on the way, and the fact that a run is told in the end."""

    told: list[Any]
    last: Done | Failed
    seconds: float

    @property
    def message(self) -> Assistant:
        return self.last.message

    @property
    def failure(self) -> Failed:
        assert isinstance(self.last, Failed), self.last
        assert self.message.stop_reason == "error"
        assert not any(isinstance(fact, Done) for fact in self.told)
        return self.last

    @property
    def why(self) -> str:
        return self.failure.message.error_message or ""


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    visits: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        visits[task] = writer
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client had heard enough
        finally:
            writer.close()
            del visits[task]

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in visits.values():
            writer.transport.abort()  # whoever still waits for the client hears its end
        if visits:
            await asyncio.wait(visits)


@contextmanager
def served(serve: Serve) -> Iterator[str]:
    """The same for a program that is not ours to await: in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = serving(serve)
    url = asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class Calls:
    """Calls to one server by one client."""

    speaker: Speaker
    url: str
    http: Http
    history: list[AnyMessage] = field(default_factory=lambda: [user("hi")])

    def draft(self) -> Draft:
        return new_draft(self.speaker.model(self.url))

    async def facts(self, draft: Draft) -> AsyncIterator[Sequence[Any]]:
        context = Context("", for_model(self.history, draft.model), [])
        async for facts in llm.stream(draft.model, context, Options(KEY), draft, World(self.http, asyncio.sleep)):
            yield facts

    async def ask(self) -> Ending:
        draft, began = self.draft(), time.monotonic()
        told: list[Any] = []
        last: Done | Failed
        try:
            async with asyncio.timeout(SECONDS):
                async for facts in self.facts(draft):
                    told += facts
        except ModelError as error:
            last = draft.failed("error", str(error), transient=error.transient, retry_after_ms=error.retry_after_ms)
        else:
            last = told.pop()
        assert KEY not in encode(last.message).decode()
        return Ending(told, last, time.monotonic() - began)


@asynccontextmanager
async def calling(speaker: Speaker, serve: Serve, idle: float = 20) -> AsyncIterator[Calls]:
    async with serving(serve) as url:
        http = Http(idle, 20)
        try:
            yield Calls(speaker, url, http)
        finally:
            await http.close()


def ask(speaker: Speaker, serve: Serve, idle: float = 20) -> Ending:
    async def main() -> Ending:
        async with calling(speaker, serve, idle) as calls:
            return await calls.ask()

    return asyncio.run(main())


def text_of(message: Assistant) -> str:
    assert all(isinstance(block, Text) for block in message.content)
    return message.text
