"""The floor of `get_state`: the least that a Python program with an event loop does to answer a command.

    python benchmarks/answerer.py < commands > responses

A callback of asyncio reads lines, msgspec decodes the command and encodes the state, and one write sends the response.
There are no sessions, no checks, no other commands, and a slow reader blocks it. The response is that of tau in the
same job, to the byte but for the id of the session.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import msgspec

READ_BYTES = 8 * 1024
DATA = {
    "model": {
        "id": "m",
        "name": "M",
        "api": "anthropic-messages",
        "provider": "bench",
        "baseUrl": "http://127.0.0.1:40000",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0},
        "contextWindow": 2_000_000_000,
        "maxTokens": 4_096,
    },
    "thinkingLevel": "off",
    "isStreaming": False,
    "isCompacting": False,
    "steeringMode": "one-at-a-time",
    "followUpMode": "one-at-a-time",
    "sessionId": "0199e4a2-0000-7000-8000-000000000000",
    "autoCompactionEnabled": False,
    "messageCount": 0,
    "pendingMessageCount": 0,
}


class Command(msgspec.Struct):
    type: str
    id: Any = msgspec.UNSET


class Response(msgspec.Struct):
    id: Any
    type: str
    command: str
    success: bool
    data: dict[str, Any]


async def main() -> None:
    decode, encode = msgspec.json.Decoder(Command).decode, msgspec.json.Encoder().encode
    ended = asyncio.Event()
    rest = b""

    def read() -> None:
        nonlocal rest
        data = os.read(0, READ_BYTES)
        if not data:
            ended.set()
            return
        *lines, rest = (rest + data).split(b"\n")
        responses = []
        for line in lines:
            command = decode(line)
            responses += (encode(Response(command.id, "response", command.type, True, DATA)), b"\n")
        os.write(1, b"".join(responses))

    asyncio.get_running_loop().add_reader(0, read)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(0)


if __name__ == "__main__":
    asyncio.run(main())
