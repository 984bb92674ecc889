"""An MCP server without a process, for schedules: it answers late, asks, changes its lists, and dies.

What is written to it, and what it says, arrives after a latency that the seed draws, in order.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from support.schedule_cases import Json
from support.schedule_extension import Pipe
from tau.mcp.messages import LEGACY_VERSION, MODERN_VERSIONS, McpError
from tau.runtime.mcp.transport import Outgoing, Receiver
from tau.wire.jsonrpc import METHOD_NOT_FOUND

if TYPE_CHECKING:
    from support.mcp_schedule import McpStage

DELAYS_S = (0.0, 0.0, 0.01, 0.1, 1.0)


class Process:
    """One life of the server. `calls` are the tool calls that it has received, by the id of their requests."""

    def __init__(self, stage: McpStage, transport: ProcessTransport) -> None:
        self.stage = stage
        self.number = len(stage.processes)
        self.alive = True
        self.calls: dict[int, str] = {}
        self.cancelled: list[int] = []
        self.asked: dict[str, list[Json]] = {}  # answers to the questions of the server
        self._transport = transport
        self._input, self._output = Pipe(stage.loop), Pipe(stage.loop)
        self._input.receive = self._received
        self._output.receive = transport.deliver
        self._initialized = False
        self._questions = 0

    def write(self, data: bytes) -> None:
        self._input.write(data)

    def end(self, code: int = 0) -> None:
        """It exits: what it has said arrives, then the end of its output."""
        if self.alive:
            self.alive = False
            self.stage.note(f"process {self.number} ends with {code}")
            self._output.write(b"")

    def kill(self) -> None:
        self.alive = False

    def _say(self, message: Json) -> None:
        if self.alive:
            self.stage.note(f"process {self.number} > {json.dumps(message)}"[:200])
            self._output.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def list_changed(self) -> None:
        if self._initialized:
            self._say({"method": "notifications/tools/list_changed"})

    # What it hears.

    def _received(self, data: bytes) -> None:
        if not self.alive:
            return
        message = json.loads(data)
        self.stage.note(f"process {self.number} < {json.dumps(message)}"[:200])
        method, id = message.get("method"), message.get("id")
        if method is None:
            self.asked.setdefault(id, []).append(message)
        elif id is None:
            if method == "notifications/cancelled":
                self.cancelled.append(message["params"]["requestId"])
        else:
            delay = self.stage.random.choice(DELAYS_S)
            self.stage.loop.call_later(delay, self._answer, method, id, message.get("params") or {})

    def _answer(self, method: str, id: int, params: Json) -> None:
        case, capabilities = self.stage.case, {"tools": {"listChanged": True}}
        if not self.alive:
            return
        self.stage.happened(f"server {method}")
        if method == "server/discover" and case["era"] == "modern":
            self._initialized = True
            self._say({"id": id, "result": {"supportedVersions": [MODERN_VERSIONS[-1]], "capabilities": capabilities}})
        elif method == "server/discover" and case["era"] == "exits":
            self.end(1)
        elif method == "server/discover" and case["era"] == "silent":
            pass
        elif method == "initialize":
            self._initialized = True
            info = {"name": "fake", "version": "1"}
            result = {"protocolVersion": LEGACY_VERSION, "capabilities": capabilities, "serverInfo": info}
            self._say({"id": id, "result": result})
        elif method == "tools/list":
            self._say({"id": id, "result": {"tools": self.stage.tools()}})
        elif method == "tools/call":
            self._call(id, params)
        elif method == "subscriptions/listen":
            pass
        else:
            self._say({"id": id, "error": {"code": METHOD_NOT_FOUND, "message": "no such method"}})

    def _call(self, id: int, params: Json) -> None:
        text, does = params["arguments"]["text"], params["arguments"]["does"]
        self.calls[id] = text
        self.stage.executed(self, text)
        if does == "dies":
            self.end(1)
        elif does == "asks":
            self._questions += 1
            question = f"q{self.number}.{self._questions}"
            self.asked[question] = []
            form = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}}
            self._say({"id": question, "method": "elicitation/create", "params": form})
            self.stage.loop.call_later(0.5, self._result, id, text)
        elif does == "progress":
            token = (params.get("_meta") or {}).get("progressToken")
            for at in range(3):
                progress = {"progressToken": token, "progress": at}
                self.stage.loop.call_later(0.4 * at, self._progress, progress)
            self.stage.loop.call_later(1.5, self._result, id, text)
        elif does == "twice":
            self._result(id, text)
            self._result(id, "again")
        elif does == "fails":
            self._say({"id": id, "error": {"code": -32000, "message": f"no {text}"}})
        elif does != "never":
            self.stage.loop.call_later(self.stage.random.choice(DELAYS_S), self._result, id, text)

    def _progress(self, progress: Json) -> None:
        self._say({"method": "notifications/progress", "params": progress})

    def _result(self, id: int, text: str) -> None:
        self._say({"id": id, "result": {"content": [{"type": "text", "text": text}]}})


class ProcessTransport:
    """As StdioTransport: starts a process, and ends it."""

    def __init__(self, stage: McpStage) -> None:
        self._stage = stage
        self._receiver: Receiver | None = None
        self._process: Process | None = None
        self._closed = False

    async def start(self, receiver: Receiver) -> None:
        await asyncio.sleep(self._stage.random.choice((0.0, 0.0, 0.02, 0.3)))
        if self._closed:
            raise McpError("The server was stopped.", sent=False)
        if self._stage.random.random() < self._stage.case["start_fails"]:
            raise McpError("It could not be started.", sent=False)
        self._receiver = receiver
        self._process = Process(self._stage, self)
        self._stage.processes.append(self._process)
        self._stage.note(f"process {self._process.number} starts")
        self._stage.happened("started")
        self._stage.check_processes()

    async def send(self, message: Outgoing) -> None:
        await asyncio.sleep(0)
        if self._closed or self._process is None:
            raise McpError("The server was stopped.", sent=False)
        self._process.write(message.data)

    def cancel(self, id: int) -> bool:
        return False

    async def close(self, grace_s: float) -> None:
        self._closed = True
        if self._process is not None:
            await asyncio.sleep(min(grace_s, self._stage.random.choice((0.0, 0.05, 5.0))))
            self._process.kill()

    def kill(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.kill()

    def deliver(self, data: bytes) -> None:
        if self._closed or self._receiver is None:
            return
        if data:
            self._receiver.received(data)
        else:
            self._closed = True
            self._stage.happened("died")
            self._receiver.closed(McpError("The server has exited."))
