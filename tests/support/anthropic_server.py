"""A model on loopback that speaks Anthropic's protocol and says what it was told to say.

    with ModelServer("Hello.", "$ ls", "Done.") as server:
        server.models                       # for models.json: the provider "mock" with one model, "m1"
        server.asked                        # the bodies of the requests so far

An answer that begins with "$ " is a call of the tool bash with that command. When
the answers are used up, the last is said again.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]


class ModelServer:
    def __init__(self, *answers: str) -> None:
        self.asked: list[Json] = []
        self._answers = answers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        begun = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, "127.0.0.1", 0), self._loop)
        self._server = begun.result()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def models(self) -> Json:
        port = self._server.sockets[0].getsockname()[1]
        model = {"id": "m1", "name": "Mock", "reasoning": False, "input": ["text"]}
        sizes = {"contextWindow": 200_000, "maxTokens": 8_000}
        free = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        provider = {
            "baseUrl": f"http://127.0.0.1:{port}",
            "api": "anthropic-messages",
            "apiKey": "no-secret",
            "models": [{**model, **sizes, "cost": free}],
        }
        return {"providers": {"mock": provider}}

    async def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        self.asked.append(json.loads(await reader.readexactly(length)))
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for event in events(answer, len(self.asked)):
            writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await writer.drain()
        writer.close()


def events(answer: str, number: int) -> Iterator[Json]:
    """One answer as the protocol tells it."""
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m1", "content": []}
    usage = {"input_tokens": 10, "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    command = answer.removeprefix("$ ") if answer.startswith("$ ") else None
    if command is None:
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": answer}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "bash", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": command})}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if command is None else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}
