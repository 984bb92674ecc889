"""An MCP server in memory: messages go to a function, and its answers come back. For faults that need no process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from tau.mcp.config import ServerConfig, Source
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile
from tau.runtime.mcp.connection import Connection
from tau.runtime.mcp.server import McpServer
from tau.runtime.mcp.transport import Outgoing, Receiver

# Answers a request: the result, or None to say nothing.
Answer = Callable[[str, Mapping[str, Any]], Any]


def configured(name: str = "s", **fields: Any) -> ServerConfig:
    return ServerConfig(name=name, source=Source("mcp.json", "user"), transport="stdio", command="x", **fields)


def tool(name: str, description: str = "d", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **fields}


class MemoryTransport:
    """Implements Transport."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._receiver: Receiver | None = None
        self.sent: list[dict[str, Any]] = []

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def send(self, message: Outgoing) -> None:
        sent = json.loads(message.data)
        self.sent.append(sent)
        if message.id is not None:
            asyncio.get_running_loop().call_soon(self._reply, message.id, sent)

    def _reply(self, id: int, sent: Mapping[str, Any]) -> None:
        result = self._answer(sent["method"], sent.get("params") or {})
        if result is not None:
            self.receive({"id": id, "result": result})

    def receive(self, message: Mapping[str, Any]) -> None:
        """The server sends a message."""
        if self._receiver is not None:
            self._receiver.received(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def cancel(self, id: int) -> bool:
        return False

    async def close(self, grace_s: float) -> None:
        self.kill()

    def kill(self) -> None:
        self._receiver = None


class MemoryEnvironment:
    """Implements Environment. Keeps what it is told."""

    def __init__(self, answer: Answer) -> None:
        self.client = ClientProfile("1")
        self.transports: list[MemoryTransport] = []
        self.saved: list[Listing] = []
        self.changed_names: list[str] = []
        self.logged: list[str] = []
        self._answer = answer

    def connection(self, server: McpServer, *, old: bool) -> Connection:
        self.transports.append(MemoryTransport(self._answer))
        return Connection(self.transports[-1], self.client, "file:///tmp", server)

    async def prepare(self, config: ServerConfig) -> None:
        return

    async def save(self, config: ServerConfig, listing: Listing) -> None:
        self.saved.append(listing)

    async def new_token(self, config: ServerConfig) -> bool:
        return False

    def changed(self, server: McpServer) -> None:
        return

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        self.changed_names += names

    def hide(self, config: ServerConfig, text: str) -> str:
        return text

    def log(self, server: str, text: str) -> None:
        self.logged.append(text)

    def log_message(self, config: ServerConfig, params: Mapping[str, Any]) -> None:
        return

    def now(self) -> float:
        return time.time()


def greeting(method: str, **capabilities: Any) -> Any:
    """The answers of the legacy handshake; None for other methods."""
    if method == "server/discover":
        return {"is": "no answer of a modern server"}
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities or {"tools": {}}}
    return None


def memory_server(answer: Answer, **fields: Any) -> tuple[McpServer, MemoryEnvironment]:
    """A legacy server with tools. `answer` answers what comes after the handshake."""
    environment = MemoryEnvironment(lambda method, params: greeting(method) or answer(method, params))
    return McpServer(configured(**fields), environment, None), environment
