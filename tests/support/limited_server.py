"""A model on loopback that serves some requests at once and answers 429 to the others; answers may cost money."""

from __future__ import annotations

import asyncio
import json

from support.anthropic_server import Json, ModelServer, events


class LimitedServer(ModelServer):
    """`limit` requests at once, each for `seconds`; `price` is what an answer costs in dollars."""

    def __init__(self, limit: int, seconds: float, price: float = 0.0, answer: str = "ok") -> None:
        super().__init__(answer)
        self._limit = limit
        self._seconds = seconds
        self._price = price
        self.active = self.most = self.served = self.refused = 0

    @property
    def models(self) -> Json:
        given = super().models
        given["providers"]["mock"]["models"][0]["cost"]["output"] = self._price / 5 * 1_000_000  # five tokens
        return given

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        await reader.readexactly(length)
        if self.active >= self._limit:
            self.refused += 1
            body = json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests"}})
            status = f"HTTP/1.1 429 Too Many Requests\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write((status + body).encode())
        else:
            self.active += 1
            self.most = max(self.most, self.active)
            await asyncio.sleep(self._seconds)
            self.served += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for event in events(self._answers[0], self.served):
                writer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.active -= 1
        await writer.drain()
        writer.close()
