"""A client of `tau acp` for tests: over pipes to the real program, or in memory. Every message it reads is validated.

Every wait has a deadline; a failure shows what was received last.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema  # type: ignore[import-untyped]

from support.rpc_process import Json, surroundings

WITHIN = 60.0  # seconds; only a failure takes them all
SCHEMA = Path(__file__).parent.parent / "acp" / "schema.json"
RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/prompt": "PromptResponse",
}
PARAMS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "$/cancel_request": "CancelRequestNotification",
}
EVERYTHING: Json = {
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
    "auth": {"terminal": True},
}


@cache
def validator(name: str) -> Callable[[Any], Any]:
    definitions = json.loads(SCHEMA.read_text())["$defs"]
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": f"#/$defs/{name}", "$defs": definitions}
    compiled: Callable[[Any], Any] = fastjsonschema.compile(schema)
    return compiled


def check_message(message: Any, methods: dict[Any, str]) -> None:
    """Raise if a message of the agent is not valid by the schema. `methods`: by the id of a request, its method."""
    assert isinstance(message, dict) and message.get("jsonrpc") == "2.0", message
    if "method" in message:
        validator(PARAMS[message["method"]])(message["params"])
        assert set(message) <= {"jsonrpc", "id", "method", "params"}, message
    elif "error" in message:
        validator("Error")(message["error"])
        assert set(message) == {"jsonrpc", "id", "error"}, message
    else:
        assert set(message) == {"jsonrpc", "id", "result"}, message
        validator(RESULTS[methods[message["id"]]])(message["result"])


class Failure(Exception):
    """The error of a response."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data = error.get("data")


class Peer:
    """`write` sends bytes. Received bytes go to `feed`. Requests of the agent go to `answers`, by method."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self.write = write
        self.received: list[Json] = []
        self.answers: dict[str, Callable[[Json], Any]] = {}
        self.ended = False
        self._ids = 0
        self._methods: dict[Any, str] = {}
        self._open: set[Any] = set()
        self._rest = b""
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.error: BaseException | None = None

    # Receiving.

    def feed(self, data: bytes) -> None:
        if not data:
            self.ended = True
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                self._take(json.loads(line))
            except BaseException as error:
                self.error = self.error or AssertionError(f"{error!r} for {line[:500]!r}")
        self._news.set()

    def _take(self, message: Json) -> None:
        check_message(message, self._methods)
        if "method" not in message and message["id"] is not None:
            assert message["id"] in self._open, f"answered twice, or never asked: {message}"
            self._open.discard(message["id"])
        self.received.append(message)
        if "method" in message and "id" in message and message["method"] in self.answers:
            task = asyncio.ensure_future(self._answer(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Json) -> None:
        result = self.answers[request["method"]](request["params"])
        if isinstance(result, Awaitable):
            result = await result
        if result is not None:
            await self.reply(request, result)

    async def reply(self, request: Json, result: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def until(self, found: Callable[[Json], bool], start: int = 0) -> Json:
        """The first message from `start` on for which `found` is true."""
        at = start
        async with asyncio.timeout(WITHIN):
            while True:
                if self.error is not None:
                    raise self.error
                while at < len(self.received):
                    at += 1
                    if found(self.received[at - 1]):
                        return self.received[at - 1]
                if self.ended:
                    raise AssertionError(f"the agent ended; last: {self.received[-3:]}")
                self._news.clear()
                await self._news.wait()

    # Sending.

    async def send(self, *messages: Json) -> None:
        """All messages in one write."""
        await self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def request(self, method: str, **params: Any) -> Json:
        """A request, to be sent."""
        self._ids += 1
        self._methods[self._ids] = method
        self._open.add(self._ids)
        return {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}

    async def response(self, request: Json) -> Any:
        """The result of a request that was sent. Raises Failure."""
        answer = await self.until(lambda one: "method" not in one and one["id"] == request["id"])
        if "error" in answer:
            raise Failure(answer["error"])
        return answer["result"]

    async def start(self, method: str, **params: Any) -> Json:
        request = self.request(method, **params)
        await self.send(request)
        return request

    async def call(self, method: str, **params: Any) -> Any:
        return await self.response(await self.start(method, **params))

    async def notify(self, method: str, **params: Any) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    # What clients do.

    async def initialize(self, capabilities: Json | None = None) -> Any:
        wanted = EVERYTHING if capabilities is None else capabilities
        return await self.call("initialize", protocolVersion=1, clientCapabilities=wanted)

    async def new(self, cwd: Path | str, **more: Any) -> str:
        result = await self.call("session/new", cwd=str(cwd), mcpServers=[], **more)
        id: str = result["sessionId"]
        return id

    def prompt_request(self, session: str, text: str = "go", **more: Any) -> Json:
        return self.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}], **more)

    async def prompt(self, session: str, text: str = "go", **more: Any) -> str:
        """Returns the stop reason."""
        request = self.prompt_request(session, text, **more)
        await self.send(request)
        reason: str = (await self.response(request))["stopReason"]
        return reason

    def updates(self, kind: str | None = None, session: str | None = None, start: int = 0) -> list[Json]:
        found = [one["params"] for one in self.received[start:] if one.get("method") == "session/update"]
        return [
            one["update"]
            for one in found
            if session in (None, one["sessionId"]) and kind in (None, one["update"]["sessionUpdate"])
        ]

    async def update(self, kind: str, start: int = 0, **fields: Any) -> Json:
        """The first update of a kind with these fields."""

        def fits(one: Json) -> bool:
            update = one["params"]["update"] if one.get("method") == "session/update" else {}
            return update.get("sessionUpdate") == kind and fields.items() <= update.items()

        found: Json = (await self.until(fits, start))["params"]["update"]
        return found

    def text(self, start: int = 0) -> str:
        return "".join(one["content"]["text"] for one in self.updates("agent_message_chunk", start=start))

    def calls(self, start: int = 0) -> dict[str, Json]:
        """The tool calls, each with the fields that the last update gave them."""
        found: dict[str, Json] = {}
        for update in self.updates(start=start):
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                found.setdefault(update["toolCallId"], {}).update(update)
        return found


def script_file(folder: Path, answers: Sequence[Json]) -> Path:
    file = folder / "script.json"
    file.write_text(json.dumps({"answers": answers or [{"text": "ok"}]}))
    return file


@contextlib.asynccontextmanager
async def memory_peer(
    folder: Path, *answers: Json, args: Sequence[str] = (), settings: Json | None = None, model: str = "scripted"
) -> AsyncIterator[Peer]:
    """A client in this process, with the real server and real sessions."""
    from tau.acp.server import Server
    from tau.cli.acp_sessions import FlagLoader
    from tau.cli.flags import parse
    from tau.runtime.protocol.memory import MemoryTransport

    environment = surroundings(folder, settings)
    with contextlib.ExitStack() as stack:
        patched = stack.enter_context(_environment(environment))
        assert patched
        argv = ["--model", model, "--script", str(script_file(folder, answers)), *args]
        transport = MemoryTransport()
        server = Server(transport, lambda: FlagLoader(parse(argv)))
        peer = Peer(transport.client.write)

        async def read() -> None:
            while data := await transport.client.read():
                peer.feed(data)

        reading, serving = asyncio.create_task(read()), asyncio.create_task(server.serve())
        try:
            yield peer
        finally:
            transport.client.end_input()
            await serving
            await server.close()
            server.kill()
            transport.client.disconnect()
            reading.cancel()
        if peer.error is not None:
            raise peer.error


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Any:
    import os

    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield True
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.asynccontextmanager
async def process_peer(
    folder: Path,
    *answers: Json,
    args: Sequence[str] = (),
    settings: Json | None = None,
    models: Json | None = None,
    model: str = "scripted",
    environment: dict[str, str] | None = None,
) -> AsyncIterator[tuple[Peer, asyncio.subprocess.Process]]:
    """The real program over pipes. Its stderr must be without a traceback."""
    stderr = folder / "stderr"
    argv = ["acp", "--model", model, "--script", str(script_file(folder, answers)), *args]
    with stderr.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tau",
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**surroundings(folder, settings, models), **(environment or {})},
            cwd=folder / "work",
        )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def write(data: bytes) -> None:
        stdin.write(data)
        await stdin.drain()

    peer = Peer(write)

    async def read() -> None:
        while data := await stdout.read(1 << 16):
            peer.feed(data)
        peer.feed(b"")

    reading = asyncio.create_task(read())
    try:
        yield peer, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(WITHIN):
            await process.wait()
            await reading
        stdin.close()
    if peer.error is not None:
        raise peer.error
    assert b"Traceback" not in stderr.read_bytes(), stderr.read_text()
