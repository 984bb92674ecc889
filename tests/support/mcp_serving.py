"""A client of `tau mcp serve` on the in-memory transport: raw JSON-RPC messages, both eras."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from tau.mcp_server.features import AGENT_TOOLS, ServedFeatures
from tau.mcp_server.stdio import serve_transport
from tau.records.base import encode
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.app.process import StopRequest
from tau.runtime.protocol.memory import MemoryTransport

Json = dict[str, Any]
WITHIN = 30.0
META = "io.modelcontextprotocol/"


class McpClient:
    """`answer` answers the questions of the server; without it, the client has no elicitation."""

    def __init__(self, transport: MemoryTransport, *, modern: bool, answer: Callable[[Json], Json] | None) -> None:
        self._client = transport.client
        self._modern = modern
        self._answer = answer
        self._count = 0
        self._rest = b""
        self._waiting: dict[int | str, asyncio.Future[Json]] = {}
        self.notifications: list[Json] = []
        self.questions: list[Json] = []
        self.received: list[Json] = []  # answers to nothing
        self.news = asyncio.Condition()

    @property
    def capabilities(self) -> Json:
        return {} if self._answer is None else {"elicitation": {"form": {}}}

    async def read(self) -> None:
        while data := await self._client.read():
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                await self._handle(json.loads(line))

    async def _handle(self, message: Json) -> None:
        async with self.news:
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None)
                if waiting is None:
                    self.received.append(message)
                else:
                    waiting.set_result(message)
            elif "id" in message:
                self.questions.append(message)
                if self._answer is not None and (answer := self._answer(message["params"])):
                    await self.write({"jsonrpc": "2.0", "id": message["id"], "result": answer})
            else:
                self.notifications.append(message)
            self.news.notify_all()

    async def until(self, done: Callable[[], bool]) -> None:
        async with self.news:
            await self.news.wait_for(done)

    async def write(self, message: Any) -> None:
        await self._client.write((message if isinstance(message, bytes) else encode(message)) + b"\n")

    async def send(self, method: str, params: Json | None = None, *, token: str | None = None) -> tuple[int, Any]:
        """Send a request. Returns its id, and the future of its response."""
        self._count += 1
        meta: Json = {}
        if self._modern:
            meta = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": self.capabilities}
            meta |= {f"{META}clientInfo": {"name": "test", "version": "1"}}
        if token is not None:
            meta["progressToken"] = token
        given = {**(params or {}), **({"_meta": meta} if meta else {})}
        future = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        await self.write({"jsonrpc": "2.0", "id": self._count, "method": method, "params": given})
        return self._count, future

    async def request(self, method: str, params: Json | None = None, *, token: str | None = None) -> Json:
        """The whole response."""
        _, future = await self.send(method, params, token=token)
        response: Json = await future
        return response

    async def get(self, method: str, params: Json | None = None, *, token: str | None = None) -> Json:
        response = await self.request(method, params, token=token)
        assert "result" in response, response
        result: Json = response["result"]
        return result

    async def call(self, name: str, *, token: str | None = None, **arguments: Any) -> Json:
        """Call a tool. A modern client answers the questions of interim results, and repeats the call."""
        params: Json = {"name": name, "arguments": arguments}
        result = await self.get("tools/call", params, token=token)
        while result.get("resultType") == "input_required":
            self.questions += result["inputRequests"].values()
            assert self._answer is not None
            answers = {key: self._answer(asked["params"]) for key, asked in result["inputRequests"].items()}
            more = {"inputResponses": answers, "requestState": result["requestState"]}
            result = await self.get("tools/call", {**params, **more}, token=token)
        return result

    def end_input(self) -> None:
        self._client.end_input()

    async def cancel(self, id: int) -> None:
        await self.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    async def initialize(self) -> Json:
        params = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities, "clientInfo": {"name": "test"}}
        result = await self.get("initialize", params)
        await self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result


def served(
    folder: Path,
    story: Callable[[McpClient], Coroutine[Any, Any, None]],
    *answers: Json,
    modern: bool = False,
    answer: Callable[[Json], Json] | None = None,
    tools: tuple[str, ...] = AGENT_TOOLS,
    permissions: str | None = None,
    roots: Sequence[Path] = (),
    sessions: Path | None = None,
) -> None:
    """Serve one client, which has sent `initialize` if it is a legacy one."""
    for name in ("work", "agent", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    script = encode({"answers": list(answers) or [{"text": "ok"}]})
    target = SessionTarget(folder=None if sessions is None else str(sessions))
    options = SessionOptions(model="scripted", script=script, session=target, permissions=permissions)

    def loaded(options: SessionOptions, cwd: str) -> SessionFactory:
        return load(folder / "agent", options, environment, cwd).with_sandbox()

    async def main() -> None:
        transport = MemoryTransport()
        client = McpClient(transport, modern=modern, answer=answer)
        features = ServedFeatures(loaded, options, [str(one) for one in (folder / "work", *roots)], tools)
        async with asyncio.timeout(WITHIN):
            server = asyncio.create_task(serve_transport(transport, features, StopRequest()))
            reading = asyncio.create_task(client.read())
            try:
                if not modern:
                    await client.initialize()
                await story(client)
                transport.client.end_input()
                assert await server == 0
            finally:
                reading.cancel()

    asyncio.run(main())


def tool(name: str, **arguments: Any) -> Json:
    return {"blocks": [{"tool": name, "arguments": arguments}]}


def text(result: Json) -> str:
    return "".join(block["text"] for block in result["content"])
