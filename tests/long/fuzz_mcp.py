"""Feeds mutated messages of MCP servers to a connection: it lives, and no request gets an answer that is not its own.

PYTHONPATH=tests python -m long.mcp_fuzz [COUNT] [SEED]
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

from tau.mcp.definitions import parse_prompts, parse_tools
from tau.mcp.elicitation import parse_form
from tau.mcp.messages import ClientProfile, McpError, parse_discovered, parse_initialized, progress_text
from tau.mcp.results import parse_call_result
from tau.runtime.mcp.connection import Connection, RequestOptions
from tau.runtime.mcp.transport import Outgoing, Receiver

CLIENT = ClientProfile("1", asks=True)
MAX_GROWTH_KIB = 64 * 1024
PENDING = 4
VALUES: list[Any] = [None, True, 0, -1, 1.5, 2**70, "", "x", "\u202e\ud800", [], {}, [[]], {"a": {}}, "x" * 5000]
TOOL = {"name": "t", "description": "d", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
RESULT = {"content": [{"type": "text", "text": "hi"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
FORM = {"message": "m", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
RESULTS: list[Any] = [
    {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "n"}},
    {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"},
    {"tools": [TOOL, TOOL], "nextCursor": "c", "ttlMs": 5},
    {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]},
    {**RESULT, "structuredContent": {"a": 1}, "isError": False, "_meta": {}},
    {"resultType": "input_required", "inputRequests": {"q": {"method": "elicitation/create", "params": FORM}}},
]
MESSAGES: list[Any] = [
    *({"jsonrpc": "2.0", "id": 1, "result": result} for result in RESULTS),
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "m", "data": {}}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1, "total": 2}},
    {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}},
    {"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": FORM},
    {"jsonrpc": "2.0", "id": "s", "method": "roots/list"},
    {"jsonrpc": "2.0", "id": 6, "method": "ping"},
]


class Wire:
    """A transport that goes nowhere."""

    async def start(self, receiver: Receiver) -> None:
        return

    async def send(self, message: Outgoing) -> None:
        json.loads(message.data)

    def cancel(self, id: int) -> bool:
        return False

    async def close(self, grace_s: float) -> None:
        return

    def kill(self) -> None:
        return


class Ignored:
    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        return

    def noted(self, text: str) -> None:
        assert len(text) < 1000

    def disconnected(self, error: McpError) -> None:
        return


class Answers:
    """The user of the session, who says no."""

    session = None

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        parse_form(params)
        return {"action": "decline"}


def mutated(chance: Random, value: Any, depth: int = 0) -> Any:
    """The value with one or more places changed."""
    if chance.random() < 0.15 or depth > 6:
        return chance.choice(VALUES)
    if isinstance(value, dict) and value:
        changed = dict(value)
        for key in chance.sample(list(changed), chance.randint(1, min(2, len(changed)))):
            if chance.random() < 0.2:
                del changed[key]
            else:
                changed[key] = mutated(chance, changed[key], depth + 1)
        return changed
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [*value[:at], mutated(chance, value[at], depth + 1), *value[at + 1 :]]
    return chance.choice(VALUES)


def as_bytes(chance: Random, message: Any) -> bytes:
    data = json.dumps(message).encode()
    if chance.random() < 0.2 and data:  # broken on the way
        at = chance.randrange(len(data))
        data = data[:at] + bytes([chance.randrange(256)]) * chance.randint(0, 3) + data[at + chance.randint(0, 5) :]
    return data


def interpreted(result: Any) -> None:
    """All that reads results of servers: none of it may fail on content."""
    for read in (parse_initialized, parse_discovered):
        with suppress(McpError):
            read(result)
    fields = result if isinstance(result, Mapping) else {}
    tools, _ = parse_tools(fields.get("tools") if isinstance(fields.get("tools"), list) else [])
    assert all(tool.input_schema.get("type") == "object" for tool in tools)
    parse_prompts(fields.get("prompts") if isinstance(fields.get("prompts"), list) else [])
    parse_call_result(result, "s", "t", {"type": "object"})
    parse_form(fields)
    progress_text(fields)


async def fuzz(count: int, seed: int) -> int:
    """Returns how many requests were answered."""
    chance = Random(seed)
    answered = 0
    connection = Connection(Wire(), CLIENT, "file:///tmp", Ignored())
    waiting: dict[int, asyncio.Task[Any]] = {}
    sent = 0
    for at in range(count):
        while len(waiting) < PENDING:
            connection.era = chance.choice(["legacy", "modern"])
            options = RequestOptions(1000, asker=Answers(), progress=progress_text)
            sent += 1
            waiting[sent] = asyncio.create_task(connection.request("tools/call", {}, options))
            await asyncio.sleep(0)
        message = mutated(chance, chance.choice(MESSAGES)) if chance.random() < 0.9 else chance.choice(MESSAGES)
        if isinstance(message, dict) and "id" in message and "method" not in message and chance.random() < 0.7:
            message = {**message, "id": chance.choice([*connection._pending, sent + 1000])}
        connection.received(as_bytes(chance, message))
        if at % 8 == 0:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for key in [key for key, task in waiting.items() if task.done()]:
                task = waiting.pop(key)
                answered += 1
                if task.exception() is None:
                    interpreted(task.result())
                else:
                    assert isinstance(task.exception(), McpError), task.exception()
    for task in waiting.values():
        task.cancel()
    await asyncio.gather(*waiting.values(), return_exceptions=True)
    connection.kill()
    await asyncio.sleep(0)
    return answered


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answered = asyncio.run(fuzz(count, seed))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{count} messages, seed {seed}: {answered} requests answered, {grown} KiB more")
    assert grown < MAX_GROWTH_KIB


if __name__ == "__main__":
    main()
