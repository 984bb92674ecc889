"""An MCP server that answers as fast as Python can, so that the time of a call is that of the client.

python mcp_fast_server.py          over stdio
python mcp_fast_server.py http     over HTTP on a free port, which it prints

Only the standard library, legacy era, one tool: `echo`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

VERSION = "2025-11-25"
TOOL = {
    "name": "echo",
    "description": "Return the text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": VERSION,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "fast", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "hi"}], "isError": False},
    "ping": {},
}
ANSWERS = {method: json.dumps(result) for method, result in RESULTS.items()}
UNKNOWN = '"error":{"code":-32601,"message":"Method not found"}'


def answer(line: bytes) -> bytes:
    """The answer to a message; empty for a notification."""
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        return b""
    found = ANSWERS.get(message["method"])
    content = UNKNOWN if found is None else f'"result":{found}'
    return f'{{"jsonrpc":"2.0","id":{json.dumps(message["id"])},{content}}}\n'.encode()


def serve_stdio() -> None:
    for line in sys.stdin.buffer:
        if reply := answer(line):
            os.write(1, reply)


class Http(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, as far as clients of MCP need it."""

    def __init__(self) -> None:
        self._data = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._data) < end + 4 + length:
                return
            body, self._data = self._data[end + 4 : end + 4 + length], self._data[end + 4 + length :]
            self._transport.write(_response(head, body))


def _response(head: bytes, body: bytes) -> bytes:
    if not head.startswith(b"post "):
        return b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
    reply = answer(body)
    if not reply:
        return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(reply), reply)


async def serve_http() -> None:
    server = await asyncio.get_running_loop().create_server(Http, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve_http()) if sys.argv[1:] == ["http"] else serve_stdio()
