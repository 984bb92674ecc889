"""A client that calls a tool of an MCP server and does nothing else: what a call takes without any client.

With `modern` it speaks the version of 2026-07-28, which tau prefers: for some servers such a call is more work.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bare", "version": "1"}}
CALL = {"name": "echo", "arguments": {"message": "hi"}}
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": HELLO["clientInfo"],
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN_HEADERS = f"mcp-protocol-version: {VERSION}\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n"


def stdio_calls(words: Sequence[str], calls: int, *, modern: bool) -> list[float]:
    """Seconds of each call."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None

        def send(message: dict[str, Any]) -> None:
            assert process.stdin is not None
            process.stdin.write(_line(message))
            process.stdin.flush()

        def ask(id: int, method: str, params: dict[str, Any]) -> None:
            assert process.stdout is not None
            send({"id": id, "method": method, "params": params})
            marks = b'"id":%d,' % id, b'"id":%d}' % id
            while line := process.stdout.readline().replace(b" ", b""):
                if any(mark in line for mark in marks):
                    return
            raise EOFError("the server has ended")

        if not modern:
            ask(1, "initialize", HELLO)
            send({"method": "notifications/initialized"})
        call, took = _call(modern), []
        for id in range(2, calls + 2):
            began = time.perf_counter()
            ask(id, "tools/call", call)
            took.append(time.perf_counter() - began)
        process.kill()
    return took


def http_calls(url: str, calls: int, *, modern: bool) -> list[float]:
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname or "", address.port or 80))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        session = MODERN_HEADERS if modern else ""

        def post(message: dict[str, Any]) -> bytes:
            body = _line(message)
            head = (
                f"POST {address.path} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
                f"accept: application/json, text/event-stream\r\ncontent-length: {len(body)}\r\n{session}\r\n"
            )
            connection.sendall(head.encode() + body)
            return _response(connection)

        if not modern:
            head = post({"id": 1, "method": "initialize", "params": HELLO}).partition(b"\r\n\r\n")[0]
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"mcp-session-id:"):
                    session = f"{line.decode()}\r\nmcp-protocol-version: {HELLO['protocolVersion']}\r\n"
            post({"method": "notifications/initialized"})
        call, took = _call(modern), []
        for id in range(2, calls + 2):
            began = time.perf_counter()
            post({"id": id, "method": "tools/call", "params": call})
            took.append(time.perf_counter() - began)
    return took


def _call(modern: bool) -> dict[str, Any]:
    return {**CALL, "_meta": META} if modern else CALL


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _response(connection: socket.socket) -> bytes:
    """A whole response: with a length, or in chunks."""
    data = b""
    while True:
        received = connection.recv(65536)
        if not received:
            raise SystemExit(f"the server closed the connection: {data[:200]!r}")
        data += received
        head, found, body = data.partition(b"\r\n\r\n")
        if not found:
            continue
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            if body.endswith(b"0\r\n\r\n"):
                return data
        elif len(body) >= int(lowered.partition(b"content-length:")[2].split(b"\r\n")[0] or 0):
            return data
