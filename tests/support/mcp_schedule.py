"""Schedules of an MCP server and its callers, played in a scheduled loop, and the rules they keep.

answered    each call ends once: with the result of its own arguments, or with an error
cancelled   only a call that its caller cancelled ends as cancelled
once        the server carries a call out at most once
told        a server whose call was cancelled is told so, unless it has answered or ended
processes   there is at most one process, and none when the server is closed
listing     the list of tools is that of the server, when everything is quiet
question    a question of the server has one answer, unless it has ended
hang, task left, exception, error logged
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from support.mcp_schedule_server import Process, ProcessTransport
from support.schedule_cases import Json
from support.schedule_world import Workshop
from support.staged_schedule import Played, Stage, timed
from tau.mcp.config import ServerConfig, Source
from tau.mcp.definitions import Listing
from tau.mcp.messages import ClientProfile, McpError
from tau.runtime.mcp.connection import Connection, RequestOptions
from tau.runtime.mcp.server import McpServer

EVENTS = (
    *("started", "started", "died", "died", "server tools/call", "server tools/call", "server tools/list"),
    *("server initialize", "server server/discover", "changed", "state starting", "state starting", "state ready"),
    *("state stopped", "ended", "ended", "asked", "ask restart", "ask stop", "ask call"),
)
OPERATIONS = {
    "call": 30,
    "cancel": 10,
    "read": 4,
    "start": 4,
    "restart": 5,
    "stop": 5,
    "die": 7,
    "list_changed": 8,
    "terminate": 1,
    "kill": 1,
    "close": 1,
}
DOES = ("answers", "answers", "answers", "dies", "asks", "progress", "twice", "fails", "never")
PLAIN: Json = {"stall": 0.0, "era": "legacy", "start_fails": 0.0, "idle_s": 600.0, "timeout_s": 60.0}


def case(seed: int) -> Json:
    random = Random(seed)
    kinds = random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=random.randint(2, 14))
    return {
        "seed": seed,
        "stall": random.choice((0.0, 0.02, 0.2)),
        "era": random.choice(("legacy", "legacy", "modern", "modern", "exits", "silent")),
        "start_fails": random.choice((0.0, 0.0, 0.2)),
        "idle_s": random.choice((0.0, 0.5, 600.0)),
        "timeout_s": random.choice((0.3, 5.0, 60.0)),
        "startup_s": random.choice((0.5, 30.0)),
        "operations": timed(random, [{"do": "call"}, *({"do": do} for do in kinds)], EVENTS),
    }


def play(case: Json, workshop: Workshop, *, permute: bool = False) -> Played:
    return McpStage(case, workshop, permute=permute).perform()


class Asker:
    """The user, who takes some time to answer a question."""

    def __init__(self, stage: McpStage) -> None:
        self._stage = stage
        self.session = stage  # a server may ask if all who wait for it are of one session

    async def elicit(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._stage.happened("asked")
        await asyncio.sleep(self._stage.random.choice((0.0, 0.1, 3.0)))
        return {"action": "accept", "content": {}}


class McpStage(Stage):
    """Also the Environment of the server."""

    client = ClientProfile("1", asks=True)

    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        super().__init__(case, workshop, permute=permute)
        self.processes: list[Process] = []
        self._calls: dict[str, asyncio.Task[None]] = {}
        self._cancelled: set[str] = set()
        self._ends: Counter[str] = Counter()
        self._executed: Counter[str] = Counter()
        self._version = 0  # of the list of tools
        self._closed = self._over = False

    def perform(self) -> Played:
        return self.play(self._main)

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fuzzer")
        case = self.case
        config = ServerConfig(
            "fake",
            Source("mcp.json", "user"),
            "stdio",
            "fake",
            timeout=case["timeout_s"],
            max_timeout=120.0,
            startup_timeout=case["startup_s"],
            idle_timeout=case["idle_s"],
        )
        self._server = McpServer(config, self, None)
        await self.perform_all(self._operation)
        for _ in range(200):
            if not self._calls:
                break
            await asyncio.sleep(1.0)
        else:
            self.problem("hang", f"these calls do not end: {sorted(self._calls)}")
        self.stop_performing()
        await asyncio.sleep(3.0)
        self._check_listing()
        await self._server.close(2.0)
        self._closed = True
        await asyncio.sleep(10.0)
        self._over = True
        self._check_end()
        for call in self._calls.values():
            call.cancel()
        await asyncio.sleep(1.0)

    # What is done.

    def _operation(self, operation: Json) -> None:
        if self._over:
            return
        do, n, pick = operation["do"], operation["n"], operation["pick"]
        self.happened(f"ask {do}")
        self.note(f"{do} {n}")
        match do:
            case "call" | "read" | "start" | "restart" | "stop":
                self._start(do, f"{do} {n}", pick)
            case "cancel":
                if self._calls:
                    name = [*self._calls][pick % len(self._calls)]
                    self._cancelled.add(name)
                    self._calls[name].cancel()
            case "die":
                for process in self.processes:
                    process.end(9)
            case "list_changed":
                self._version += 1
                for process in self.processes:
                    process.list_changed()
            case "terminate":
                self._closed = True
                self._server.terminate()
            case "kill":
                self._closed = True
                self._server.terminate()
                self._server.kill()
            case "close":
                self._closed = True
                self._start(do, f"{do} {n}", pick)

    def _start(self, do: str, name: str, pick: int) -> None:
        task = self._calls[name] = self.loop.create_task(self._run(do, name, pick), name=name)
        task.add_done_callback(lambda done: self._ended(name))

    def _ended(self, name: str) -> None:
        self._ends[name] += 1
        self.happened("ended")
        del self._calls[name]

    async def _run(self, do: str, name: str, pick: int) -> None:
        try:
            text = await self._do(do, name, pick)
            self.note(f"{name} ended: {text}")
            if do == "call" and text != name:
                self.problem("answered", f"{name} has the answer {text!r}")
        except McpError as error:
            self.note(f"{name} failed: {error}")
        except asyncio.CancelledError:
            self.note(f"{name} was cancelled")
            if name not in self._cancelled and not self._over:
                self.problem("cancelled", f"{name} ended as cancelled")

    async def _do(self, do: str, name: str, pick: int) -> str:
        server, timeout = self._server, self.case["timeout_s"]
        match do:
            case "call":
                options = RequestOptions(timeout, 120.0, lambda params: None, Asker(self))
                arguments = {"text": name, "does": DOES[pick % len(DOES)]}
                result = await server.call("tools/call", {"name": "tool", "arguments": arguments}, options)
                return str(result["content"][0]["text"])
            case "read":
                await server.read("tools/list", {}, timeout)
            case "start":
                await server.start()
            case "restart":
                await server.restart()
            case "stop":
                await server.stop()
            case "close":
                await server.close(2.0)
        return name

    # What the server does.

    def tools(self) -> list[Json]:
        return [{"name": "tool", "description": f"version {self._version}", "inputSchema": {"type": "object"}}]

    def executed(self, process: Process, text: str) -> None:
        self._executed[text] += 1
        if self._executed[text] > 1:
            self.problem("once", f"{text} was carried out {self._executed[text]} times")

    def check_processes(self) -> None:
        alive = [process.number for process in self.processes if process.alive]
        if len(alive) > 1:
            self.problem("processes", f"{alive} run at the same time")

    # Environment of the server.

    def connection(self, server: McpServer, *, old: bool) -> Connection:
        return Connection(ProcessTransport(self), self.client, "file:///work", server)

    async def prepare(self, config: ServerConfig) -> None:
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.1)))

    async def save(self, config: ServerConfig, listing: Listing) -> None:
        await asyncio.sleep(self.random.choice((0.0, 0.01)))

    async def new_token(self, config: ServerConfig) -> bool:
        return False

    def changed(self, server: McpServer) -> None:
        self.note(f"state {server.state} {server.error}")
        self.happened("changed")
        self.happened(f"state {server.state}")

    def names_changed(self, server: McpServer, names: list[str]) -> None:
        pass

    def hide(self, config: ServerConfig, text: str) -> str:
        return text

    def log(self, server: str, text: str) -> None:
        pass

    def log_message(self, config: ServerConfig, params: Mapping[str, Any]) -> None:
        pass

    def now(self) -> float:
        return self.loop.time()

    # What must hold.

    def _check_listing(self) -> None:
        listing, alive = self._server.listing, [process for process in self.processes if process.alive]
        too_slow = self.case["startup_s"] < 2  # then a list may not be fetched again in time
        if listing is None or self._server.state != "ready" or not alive or self._closed or too_slow:
            return
        told = [tool.description for tool in listing.tools]
        if told != [f"version {self._version}"]:
            self.problem("listing", f"{told}, but the server is at version {self._version}")

    def _check_end(self) -> None:
        for process in self.processes:
            if process.alive:
                self.problem("processes", f"process {process.number} is left")
            for question, answers in process.asked.items():
                if len(answers) > 1:
                    self.problem("question", f"{question} has {len(answers)} answers")
            for id, count in Counter(process.cancelled).items():
                if count > 1:
                    self.problem("told", f"{id} was cancelled {count} times")
        for name, count in self._ends.items():
            if count != 1:
                self.problem("answered", f"{name} ended {count} times")
