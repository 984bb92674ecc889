"""Mutated messages to `tau mcp serve`, of both eras: it lives, and answers each request once, with JSON-RPC.

    python tests/long/fuzz_mcp_serve.py [MESSAGES] [SEED]        (make fuzz)

tests/mcp_server/test_fuzz.py sends some.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.mcp_serving import META, Json, McpClient, served

VALUES: list[Any] = [None, True, 0, -1, 1.5, 2**63, "", "x", "\0", "a" * 3000, [], {}, [1, [None]], {"a": {"b": []}}]
MODERN = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {"elicitation": {"form": {}}}}
CORPUS: list[Json] = [
    {"method": "ping"},
    {
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "f"}},
    },
    {"method": "server/discover", "params": {"_meta": MODERN}},
    {"method": "tools/list", "params": {"cursor": None}},
    {"method": "tools/list", "params": {"_meta": MODERN}},
    {"method": "tools/call", "params": {"name": "tau", "arguments": {"prompt": "hi"}, "_meta": {"progressToken": 1}}},
    {"method": "tools/call", "params": {"name": "tau", "arguments": {"prompt": "hi", "model": "no", "cwd": "x"}}},
    {"method": "tools/call", "params": {"name": "tau_reply", "arguments": {"sessionId": "x", "prompt": "hi"}}},
    {"method": "tools/call", "params": {"name": "ls", "arguments": {"path": "."}, "_meta": MODERN}},
    {
        "method": "tools/call",
        "params": {"name": "ls", "requestState": "x", "inputResponses": {"question": {}}, "_meta": MODERN},
    },
    {"method": "resources/list", "params": {"cursor": "0"}},
    {"method": "resources/read", "params": {"uri": "tau://session/x"}},
    {"method": "resources/templates/list"},
]
NOTIFICATIONS: list[Json] = [
    {"method": "notifications/initialized"},
    {"method": "notifications/cancelled", "params": {"requestId": 1}},
    {"id": "tau-1", "result": {"action": "accept", "content": {"answer": "x"}}},
    {"id": "tau-1", "error": {"code": 1, "message": "no"}},
]


def mutated(chance: Random, id: Any) -> bytes:
    """A message: often valid, sometimes with other values, sometimes with other bytes."""
    if chance.random() < 0.2:
        message = {"jsonrpc": "2.0", **json.loads(json.dumps(chance.choice(NOTIFICATIONS)))}
    else:
        message = {"jsonrpc": "2.0", "id": id, **json.loads(json.dumps(chance.choice(CORPUS)))}
    for _ in range(chance.choice([0, 0, 1, 2])):
        place, key = chance.choice(list(places(message)))
        if chance.random() < 0.3:
            del place[key]
        else:
            place[key] = deepcopy(chance.choice(VALUES))
    data = json.dumps(message).encode()
    if chance.random() < 0.1:
        at = chance.randrange(len(data))
        data = (
            data[:at]
            + bytes(chance.choices(b'{}[]",:0\\x\xff', k=chance.randrange(4)))
            + data[at + chance.randrange(4) :]
        )
    return data.replace(b"\n", b" ")


def places(value: Any) -> Any:
    """All places in a message that can be changed."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from places(item)


def id_of(line: bytes) -> str:
    """The id of a message, as a text."""
    try:
        message = json.loads(line.decode(errors="replace"))
    except ValueError:
        return ""
    return str(message.get("id")) if isinstance(message, dict) else ""


def run(folder: Path, count: int, seed: int) -> None:
    """Send them in bursts. Raises AssertionError if the server does not do what it has to."""
    chance, sent = Random(seed), Counter[str]()  # a mutated id may be that of another message

    async def story(client: McpClient) -> None:
        for start in range(0, count, 50):
            lines = [mutated(chance, f"f{at}") for at in range(start, min(start + 50, count))]
            for line in lines:
                await client.write(line)
            sent.update(map(id_of, lines))
            assert await client.get("ping") == {}
        for message in client.received:
            assert message["jsonrpc"] == "2.0" and ("result" in message) != ("error" in message), message
            if "error" in message:
                assert message["error"]["code"] != -32603, message  # a bug of the server
        answered = Counter(message["id"] for message in client.received if isinstance(message["id"], str))
        twice = {id for id, times in answered.items() if id.startswith("f") and times > sent[id]}
        assert not twice, twice

    served(folder, story, {"text": "ok"}, answer=lambda form: {"action": "decline"}, tools=("tau", "tau_reply", "ls"))


def main() -> int:
    count, seed = (*map(int, sys.argv[1:3]), *(100_000, 0)[len(sys.argv) - 1 :])[:2]
    portion = 1000
    for at in range(0, count, portion):
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), min(portion, count - at), seed + at)
    print(f"{count} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
