"""A model on loopback that works for its living, and fails in every way that a model server can.

    with Provider(seed) as provider:
        provider.models                # for models.json: "mock" with m1, which has room, and m2, which has little
        provider.fault("reset")        # of the next request; see FAULTS
        provider.tool("setsid")        # what the next answer does; see NASTY
        provider.calm()                # whatever waits, or hangs, does so no longer

It speaks Anthropic's protocol. A question is answered with a tool call or with
words, a tool's result with words or with one more call, and whoever offers no
tools wants a summary. What it counts as tokens grows with the conversation, so a
conversation with m2 has to be compacted now and then.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]

FILES = 12  # that its tools work on
LARGE_EVENT = 17 << 20
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing is a reset


def call(tool: str, **arguments: Any) -> Json:
    return {"name": tool, "input": arguments}


# What its tools do on an ordinary day. %d is a number below FILES.
TOOLS = (
    call("bash", command="echo one; echo two >&2"),
    call("bash", command="seq 1 3000"),
    call("bash", command="printf '\\033[31mred\\000\\377\\n'; exit 3"),
    call("bash", command="sleep 0.2; echo slept"),
    call("write", path="file%d.txt", content="alpha\nbeta\ngamma\n" + "delta\n" * 60),
    call("edit", path="file%d.txt", oldText="beta\ngamma", newText="gamma\nbeta"),
    call("read", path="file%d.txt"),
    call("read", path="file%d.txt", offset=3, limit=5),
    call("read", path="dot.png"),
    call("grep", pattern="gam+a", path="."),
    call("find", pattern="*.txt"),
    call("ls"),
    call("count_words", text="one two three"),
    call("no_such_tool", text="x"),
)

# And on the other days.
NASTY = {
    "ignores TERM": call("bash", command="trap '' TERM INT HUP; while :; do sleep 0.5; done", timeout=1),
    "setsid daemon": call("bash", command="setsid sleep 3600 >/dev/null 2>&1 & (setsid sleep 3600 &) ; echo begun"),
    "holds its output": call("bash", command="sleep 3600 & echo begun", timeout=1),
    "huge output": call("bash", command="head -c 30000000 /dev/zero | tr '\\0' x; echo", timeout=3),
    "many lines": call("bash", command="yes abcdefghij | head -n 400000", timeout=3),
    "many children": call("bash", command="for i in $(seq 40); do sleep 3600 & done; wait", timeout=1),
    "kills itself": call("bash", command="kill -9 $$"),
    "reads for ever": call("read", path="/dev/zero"),
}


class Provider:
    def __init__(self, seed: int) -> None:
        self.asked = 0
        self.did = Counter[str]()
        self._dice = random.Random(seed)
        self._faults: list[str] = []
        self._tools: list[str] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._calm = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        begun = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(begun, self._loop).result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def models(self) -> Json:
        port = self._server.sockets[0].getsockname()[1]
        model = {"reasoning": True, "input": ["text", "image"], "maxTokens": 4_000}
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        models = [
            {**model, "id": id, "contextWindow": room, "cost": free} for id, room in (("m1", 200_000), ("m2", 14_000))
        ]
        return {
            "providers": {
                "mock": {
                    "baseUrl": f"http://127.0.0.1:{port}",
                    "api": "anthropic-messages",
                    "apiKey": "no-secret",
                    "models": models,
                }
            }
        }

    # From any thread.

    def fault(self, kind: str) -> None:
        self._faults.append(kind)

    def tool(self, kind: str) -> None:
        self._tools.append(kind)

    def calm(self) -> None:
        """No faults any more; requests that hang are hung up on, and so are connections that are kept."""
        self._faults.clear()
        self._tools.clear()
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result()

    # In the loop.

    async def _hang_up(self) -> None:
        self._calm.set()
        self._calm = asyncio.Event()
        for writer in [*self._writers]:
            writer.close()

    async def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, EOFError):
            while await self._one(reader, writer):
                pass
        self._writers.discard(writer)
        with suppress(OSError):
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; False if the connection is of no use any more."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        body = await reader.readexactly(length)
        self.asked += 1
        answer = _sse(self._answer(json.loads(body), length))
        if not self._faults:
            writer.write(_HEAD + _chunk(b"".join(answer)) + _chunk(b""))
            await writer.drain()
            return True
        kind = self._faults.pop(0)
        self.did[kind] += 1
        await FAULTS[kind](self, writer, answer)
        return False

    def _answer(self, body: Json, length: int) -> Iterator[Json]:
        message = {"id": f"msg_{self.asked}", "type": "message", "role": "assistant", "model": "m1", "content": []}
        usage = {"input_tokens": length // 4, "output_tokens": 1}
        yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
        blocks = [*self._blocks(body)]
        for at, (block, deltas) in enumerate(blocks):
            yield {"type": "content_block_start", "index": at, "content_block": block}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": at, "delta": delta}
            yield {"type": "content_block_stop", "index": at}
        reason = "tool_use" if blocks[-1][0]["type"] == "tool_use" else "end_turn"
        yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}}
        yield {"type": "message_stop"}

    def _blocks(self, body: Json) -> Iterator[tuple[Json, list[Json]]]:
        dice = self._dice
        if not body.get("tools"):
            yield _text("## Goal\n", "a summary of what was said")
            return
        if dice.random() < 0.2:
            words = [{"type": "thinking_delta", "thinking": part} for part in ("Hm, ", "let me think.")]
            yield {"type": "thinking", "thinking": ""}, [*words, {"type": "signature_delta", "signature": "c2ln"}]
        told = body["messages"][-1]["content"]
        result = isinstance(told, list) and any(block.get("type") == "tool_result" for block in told)
        if self._tools or dice.random() < (0.3 if result else 0.7):
            for number in range(1 if self._tools else dice.choice((1, 1, 1, 2))):
                yield self._call(number)
        else:
            yield _text(*(f"word {number} " for number in range(dice.choice((1, 5, 5, 200)))))

    def _call(self, number: int) -> tuple[Json, list[Json]]:
        dice = self._dice
        if self._tools:
            kind = self._tools.pop(0)
            self.did[kind] += 1
            tool = NASTY[kind]
        else:
            tool = dice.choice(TOOLS)
        text = json.dumps(tool["input"]).replace("%d", str(dice.randrange(FILES)))
        cut = dice.randrange(len(text))
        block = {"type": "tool_use", "id": f"toolu_{self.asked}_{number}", "name": tool["name"], "input": {}}
        return block, [{"type": "input_json_delta", "partial_json": part} for part in (text[:cut], text[cut:])]


def _text(*parts: str) -> tuple[Json, list[Json]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in parts]


# The wire.

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _sse(events: Iterator[Json]) -> list[bytes]:
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# Its faults.

Fault = Callable[[Provider, asyncio.StreamWriter, list[bytes]], Awaitable[None]]


def _some(provider: Provider, answer: list[bytes]) -> bytes:
    """The beginning of an answer, but never the whole."""
    return b"".join(answer[: provider._dice.randrange(len(answer))])


def _status(line: str, *headers: str, body: str = "{}") -> Fault:
    async def refuse(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
        head = [f"HTTP/1.1 {line}", f"Content-Length: {len(body)}", "Connection: close", *headers]
        writer.write(("\r\n".join(head) + "\r\n\r\n" + body).encode())
        await writer.drain()

    return refuse


async def _reset(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    if begun := _some(provider, answer):
        writer.write(_HEAD + _chunk(begun))
        await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def _cut(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    writer.write(_HEAD + _chunk(_some(provider, answer)))
    await writer.drain()


async def _ends_early(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    writer.write(_HEAD + _chunk(_some(provider, answer) or b": nothing\n\n") + _chunk(b""))
    await writer.drain()


async def _stall(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    if provider._dice.random() < 0.7:
        writer.write(_HEAD + _chunk(_some(provider, answer) or b": nothing\n\n"))
        await writer.drain()
    await provider._calm.wait()


async def _slow(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    writer.write(_HEAD)
    for event in answer:
        writer.write(_chunk(event))
        await writer.drain()
        await asyncio.sleep(min(0.1, 1.5 / len(answer)))
    writer.write(_chunk(b""))
    await writer.drain()


async def _byte_by_byte(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
    writer.write(_HEAD)
    for byte in b"".join(answer)[:3000]:
        writer.write(_chunk(bytes([byte])))
        await writer.drain()
    await asyncio.sleep(0)


def _says(event: bytes) -> Fault:
    async def say(provider: Provider, writer: asyncio.StreamWriter, answer: list[bytes]) -> None:
        writer.write(_HEAD + _chunk(_some(provider, answer) + event) + _chunk(b""))
        await writer.drain()

    return say


OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
FAULTS: dict[str, Fault] = {
    "reset": _reset,
    "cut": _cut,
    "ends early": _ends_early,
    "stall": _stall,
    "slow": _slow,
    "byte by byte": _byte_by_byte,
    "429": _status("429 Too Many Requests", "retry-after: 1", body='{"error":{"message":"rate limit"}}'),
    "429 for a day": _status("429 Too Many Requests", "retry-after: 86400"),
    "500": _status("500 Internal Server Error", body="<b>oh</b>"),
    "529": _status("529 Overloaded"),
    "400": _status("400 Bad Request", body="x" * 100_000),
    "html": _status("200 OK", "Content-Type: text/html", body="<html>log in</html>"),
    "no bytes": _status("200 OK", "Content-Type: text/event-stream", body=""),
    "bad JSON": _says(b'event: content_block_delta\ndata: {"type": "content_bl\n\n'),
    "bad UTF-8": _says(b"event: content_block_delta\ndata: {\xff\xfe}\n\n"),
    "overloaded": _says(OVERLOADED),
    "large event": _says(b"data: " + b"x" * LARGE_EVENT + b"\n\n"),
}
