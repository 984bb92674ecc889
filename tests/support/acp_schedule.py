"""Schedules of the ACP server: an editor with several sessions, played in a scheduled loop, and the rules they keep.

answered    each request has one response, also when the input ends
order       no update of a session comes before the request that opens it, nor after the response that closes it
late        when all prompts of a session are answered, no piece of an answer and no tool call follows
text        the pieces of an answer add up to the message in the file
texts       a prompt that ended is in one session once; one that was cancelled, at most once
cancel      a prompt that was cancelled ends as cancelled, or had ended by itself
question    a question to the user is answered or withdrawn; none is withdrawn twice, or after its answer
slow        a session closes in time
files       each line is JSON, ids are unique, parents come first
hang, task left, descriptor left, exception, error logged
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from support.schedule_cases import Json, _answer
from support.schedule_extension import Pipe
from support.schedule_record import Left, Record
from support.schedule_rules import Sessions as Files
from support.schedule_world import Workshop
from support.staged_schedule import Played, Stage, factory_at, timed
from tau.acp import sessions as acp_sessions
from tau.acp.server import Server
from tau.acp.session import AcpSession
from tau.records.base import replace
from tau.runtime.app import handle as session_handle
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.options import SessionTarget
from tau.runtime.app.process import GarbageCollector
from tau.runtime.app.stored_sessions import StoredSessions
from tau.runtime.protocol import memory
from tau.runtime.protocol.memory import MemoryTransport
from tau.store.empty_sessions import EmptySessions

EVENTS = (
    *("ask session/new", "ask session/load", "ask session/load", "ask session/prompt", "ask session/prompt"),
    *("ask session/close", "ask session/close", "ask session/delete", "ask cancel", "ask cancel", "answered"),
    *("session/request_permission", "session/request_permission", "$/cancel_request", "agent_message_chunk"),
    *("agent_message_chunk", "tool_call", "tool_call_update", "user_message_chunk", "opened", "opened"),
)
OPERATIONS = {
    "new": 3,
    "load": 8,
    "resume": 4,
    "list": 2,
    "close": 7,
    "delete": 3,
    "prompt": 22,
    "steer": 5,
    "cancel": 9,
    "cancel_request": 7,
    "set_mode": 5,
    "set_option": 4,
    "authenticate": 1,
    "answer": 3,  # a question, late
    "stall": 4,
    "resume_reading": 3,
    "end": 1,
}
PLAIN: Json = {"stall": 0.0, "asks": False, "slow": False, "form": True}
ANSWER_S = (0.0, 0.0, 0.05, 1.0, 20.0)
PATIENCE_S = 60.0


def case(seed: int) -> Json:
    random = Random(seed)
    kinds = random.choices(list(OPERATIONS), list(OPERATIONS.values()), k=random.randint(3, 14))
    operations = timed(random, [{"do": "new"}, {"do": "prompt"}, *({"do": do} for do in kinds)], EVENTS)
    operations[0]["at"], operations[1]["at"] = 0.0, random.choice((0.15, 0.2, 0.5))
    operations[1].pop("on", None)
    answers = [_tool_call(random, at) if random.random() < 0.3 else _answer(random, at) for at in range(3)]
    return {
        "seed": seed,
        "stall": random.choice((0.0, 0.02, 0.2)),
        "settings": random.randrange(3),
        "extensions": "none",
        "asks": random.random() < 0.6,
        "form": random.random() < 0.5,
        "slow": random.random() < 0.2,
        "buffer_bytes": random.choice((500, 65_536)),
        "answers": [*answers, {"text": "ok"}],
        "operations": operations,
    }


def _tool_call(random: Random, turn: int) -> Json:
    command = f"work {random.choice((0.0, 0.4))} t{turn}"
    return {"blocks": [{"text": "so"}, {"tool": "bash", "arguments": {"command": command}}]}


def play(case: Json, workshop: Workshop, *, permute: bool = False) -> Played:
    return AcpStage(case, workshop, permute=permute).perform()


class Loader:
    """As the FlagLoader of the command line, without reading the same configuration again and again."""

    def __init__(self, stage: AcpStage, known: SessionFactory) -> None:
        self._stage = stage
        self._known = known
        self.asks = stage.case["asks"]

    def load(self, cwd: str, target: SessionTarget, mcp_servers: Mapping[str, Any]) -> SessionFactory:
        target = replace(target, folder=str(self._stage.workshop.sessions))
        options = replace(self._known.options, session=target)
        return factory_at(cwd, self._known, options)

    def stored_sessions(self, cwd: str) -> StoredSessions:
        return StoredSessions(self._stage.workshop.sessions, cwd, per_project=False)

    @property
    def empty_sessions(self) -> EmptySessions:
        return EmptySessions(self._stage.workshop.agent)

    def has_key(self) -> bool:
        return True


@dataclass
class Asked:
    id: int
    do: str
    method: str
    params: Json
    text: str = ""
    cancelled: bool = False
    answers: list[Json] = field(default_factory=list)

    @property
    def session(self) -> str:
        return str(self.params.get("sessionId", ""))

    @property
    def succeeded(self) -> bool:
        return bool(self.answers) and "result" in self.answers[0]


class AcpStage(Stage):
    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        super().__init__(case, workshop, permute=permute)
        self.asked: dict[int, Asked] = {}
        self.over = False
        self._sessions: list[str] = []
        self._questions: dict[str, Json] = {}  # that the user sees
        self._withdrawn: set[str] = set()
        self._answered: set[str] = set()
        self._chunks: dict[str, list[str]] = defaultdict(list)  # of answers, by message id
        self._loaded: set[str] = set()
        self._logs: list[Any] = []
        self._ended = False

    def perform(self) -> Played:
        case = self.case
        self._factory = self.workshop.factory(case)
        patches: tuple[tuple[Any, str, Any], ...] = (
            (memory, "MAX_BUFFERED_BYTES", case["buffer_bytes"]),
            (acp_sessions, "gc", SimpleNamespace(collect=lambda: 0)),
            (GarbageCollector, "settled", lambda self, name: None),
            (acp_sessions, "AcpSession", self._watch_session),
            (session_handle.logger, "warning", lambda text, *more: self.problem("slow", text % more)),
        )
        return self.play(self._main, [patch.object(*one) for one in patches])

    def _watch_session(self, *arguments: Any) -> AcpSession:
        session = AcpSession(*arguments)
        log = session.handle.log
        self._logs.append(log)
        self.note(f"opened {log.id}")
        self.happened("opened")
        return session

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fuzzer")
        self.transport = MemoryTransport()
        self._server = Server(self.transport, lambda: Loader(self, self._factory))
        self._pipe = Pipe(self.loop)
        self._pipe.receive = self._deliver
        self._reading_on = asyncio.Event()
        self._reading_on.set()
        serving = self.loop.create_task(self._server.serve(), name="serve")
        reading = self.loop.create_task(self._read(), name="fuzzer")
        capabilities: Json = {"elicitation": {"form": {}}} if self.case["form"] else {}
        self._request("initialize", "initialize", protocolVersion=1, clientCapabilities=capabilities)
        await self.perform_all(self._operation)
        await asyncio.sleep(1.0)
        await self._until_quiet()
        self.over = True
        self.stop_performing()
        await self._until_quiet()
        self._reading_on.set()
        if not self._ended:
            await asyncio.sleep(5.0)
            self._check_answered("at rest")
            self._check_questions()
        self._end()
        await serving
        await self._server.close()
        self._server.kill()
        await asyncio.sleep(10.0)
        self._check_answered("after the end")
        self.transport.client.disconnect()
        await asyncio.sleep(20.0)
        reading.cancel()

    def _deliver(self, data: bytes) -> None:
        if data:
            self.transport.feed(data)
        else:
            self.transport.client.end_input()

    async def _until_quiet(self) -> None:
        for attempt in range(6):
            deadline = self.loop.time() + PATIENCE_S
            while self.loop.time() < deadline and self._pending():
                await asyncio.sleep(0.5)
            if not self._pending():
                await asyncio.sleep(1.0)
                return
            readable = self._reading_on.is_set() and not self.case["slow"]
            if not attempt and readable and not self._runs() and not self._waits_for_the_user():
                await asyncio.sleep(5.0)  # the last response may be on its way
            if not attempt and readable and self._pending() and not self._runs() and not self._waits_for_the_user():
                self.problem("hang", f"nothing runs, and these wait: {[one.method for one in self._pending()]}")
            self._reading_on.set()
            for session in self._sessions:
                self._notify("session/cancel", sessionId=session)
            if attempt:
                self._cancel_all()
        self.problem("hang", f"after every cancel: {[one.method for one in self._pending()]}")

    def _pending(self) -> list[Asked]:
        return [one for one in self.asked.values() if not one.answers and not self._ended]

    def _runs(self) -> bool:
        found = self._server._sessions
        return found is not None and any(session.handle.runs.busy for session in found._open.values())

    def _waits_for_the_user(self) -> bool:
        return bool(self._questions.keys() - self._answered - self._withdrawn)

    def _cancel_all(self) -> None:
        for one in self.asked.values():
            one.cancelled = one.cancelled or not one.answers

    # What is done.

    def _request(self, do: str, method: str, text: str = "", **params: Any) -> Asked:
        id = len(self.asked) + 1
        self.asked[id] = asked = Asked(id, do, method, params, text)
        self.happened(f"ask {method}")
        self._send({"id": id, "method": method, "params": params})
        if do == "load":
            self._loaded.add(asked.session)
        return asked

    def _notify(self, method: str, **params: Any) -> None:
        self.happened("ask cancel")
        self._send({"method": method, "params": params})
        if method == "session/cancel":
            for one in self.asked.values():
                if one.session == params["sessionId"] and one.method == "session/prompt" and not one.answers:
                    one.cancelled = True

    def _send(self, message: Json) -> None:
        self.note(f"> {json.dumps(message)}")
        self._pipe.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self.note("> end of the input")
            self._cancel_all()
            self._pipe.write(b"")

    def _operation(self, operation: Json) -> None:
        if self.over or self._ended:
            return
        do, pick, n = operation["do"], operation["pick"], operation["n"]
        cwd = str(self.workshop.folder / "work")
        session = self._sessions[0 if pick % 4 else pick % len(self._sessions)] if self._sessions else "none"
        text = f"text-{n}."
        match do:
            case "new":
                self._request(do, "session/new", cwd=cwd, mcpServers=[])
            case "load" | "resume":
                self._request(do, f"session/{do}", sessionId=session, cwd=cwd, mcpServers=[])
            case "list":
                self._request(do, "session/list", cwd=cwd)
            case "close" | "delete":
                for one in self.asked.values():
                    if one.session == session and not one.answers:
                        one.cancelled = True
                self._request(do, f"session/{do}", sessionId=session)
            case "prompt" | "steer":
                meta: Json = {} if do == "prompt" else {"_meta": {"tau": {"streamingBehavior": "steer"}}}
                blocks = [{"type": "text", "text": text}]
                self._request(do, "session/prompt", text, sessionId=session, prompt=blocks, **meta)
            case "cancel":
                self._notify("session/cancel", sessionId=session)
            case "cancel_request":
                if pending := self._pending():
                    one = pending[pick % len(pending)]
                    for other in pending:  # a message that joined a run is cancelled with it, and it with the message
                        same = other.method == one.method == "session/prompt" and other.session == one.session
                        other.cancelled = other.cancelled or same or other is one
                    self._notify("$/cancel_request", requestId=one.id)
            case "set_mode":
                self._request(do, "session/set_mode", sessionId=session, modeId=("ask", "auto")[pick % 2])
            case "set_option":
                value = ("lab/large", "lab/other", "lab/none")[pick % 3]
                self._request(do, "session/set_config_option", sessionId=session, configId="model", value=value)
            case "authenticate":
                self._request(do, "authenticate", methodId="none")
            case "answer":
                if self._questions:
                    self._answer([*self._questions.values()][pick % len(self._questions)])
            case "stall":
                self._reading_on.clear()
            case "resume_reading":
                self._reading_on.set()
            case "end":
                self._end()

    # What is seen.

    async def _read(self) -> None:
        rest = b""
        while data := await self.transport.client.read():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._received(json.loads(line))
            if self.case["slow"]:
                await asyncio.sleep(self.random.choice((0.0, 0.01, 0.2)))
            await self._reading_on.wait()

    def _received(self, message: Json) -> None:
        self.note(re.sub(r'"updatedAt": "[^"]*"', "", f"< {json.dumps(message)}")[:400])  # the time of a real file
        method = message.get("method")
        if method is None:
            self._response(message)
        elif method == "session/update":
            self._update(message["params"]["sessionId"], message["params"]["update"])
        elif method == "$/cancel_request":
            self.happened(method)
            id = message["params"]["requestId"]
            if id not in self._questions or id in self._withdrawn:
                self.problem("question", f"{id} is withdrawn, but was not asked, or twice")
            self._withdrawn.add(id)
        else:
            self.happened(method)
            self._questions[message["id"]] = message
            if self.random.random() < 0.7:
                self.loop.call_later(self.random.choice(ANSWER_S), self._answer, message)

    def _response(self, message: Json) -> None:
        asked = self.asked.get(message["id"])
        if asked is None:
            self.problem("answered", f"a response to nothing: {message}")
            return
        asked.answers.append(message)
        if len(asked.answers) > 1:
            self.problem("answered", f"more than once: {asked.answers}")
        self.happened("answered")
        if not asked.succeeded:
            return
        if asked.method == "session/new":
            self._sessions.append(message["result"]["sessionId"])
        is_cancelled = asked.method == "session/prompt" and message["result"]["stopReason"] == "cancelled"
        if is_cancelled and not asked.cancelled and asked.do != "steer":  # that may join a run that was cancelled
            self.problem("cancel", f"{asked.text} ended as cancelled, and was not")

    def _update(self, session: str, update: Json) -> None:
        kind = update["sessionUpdate"]
        self.happened(kind)
        opens = [one for one in self.asked.values() if one.session == session and one.do in ("load", "resume")]
        if session not in self._sessions and not opens:
            self.problem("order", f"an update of {session} before the response that opens it: {kind}")
        closed = [one for one in self.asked.values() if one.session == session and one.do in ("close", "delete")]
        if closed and not opens and all(one.succeeded for one in closed):
            self.problem("order", f"an update of {session} after it was closed: {kind}")
        if session in self._loaded:
            return  # pieces that were sent before come again
        if kind == "agent_message_chunk":
            self._chunks[update["messageId"]].append(update["content"]["text"])
        prompts = [one for one in self.asked.values() if one.session == session and one.method == "session/prompt"]
        if kind in ("agent_message_chunk", "tool_call") and all(one.answers for one in prompts):
            self.problem("late", f"{kind} after all prompts of {session} were answered")

    def _answer(self, request: Json) -> None:
        """The user answers a question: with an option, with nothing, or not at all."""
        if self._ended or request["id"] in self._answered:
            return
        self._answered.add(request["id"])
        random, params = self.random, request["params"]
        result: Json = {"outcome": {"outcome": "cancelled"}}
        if request["method"] == "session/request_permission" and random.random() < 0.85:
            option = random.choice(params["options"])["optionId"]
            result = {"outcome": {"outcome": "selected", "optionId": option}}
        if random.random() < 0.1:
            self._send({"id": request["id"], "error": {"code": -32000, "message": "no"}})
        else:
            self._send({"id": request["id"], "result": result})

    # What must hold.

    def _check_answered(self, when: str) -> None:
        for one in self.asked.values():
            if len(one.answers) != 1:
                self.problem("answered", f"{when}: {one.method} {one.id} has {len(one.answers)} responses")

    def _check_questions(self) -> None:
        for id in sorted(self._questions.keys() - self._answered - self._withdrawn):
            self.problem("question", f"{id} was neither answered nor withdrawn")

    def let_go(self) -> None:
        files = Files(Record(sessions=[*self._left()]))
        self.played.problems += files.problems
        deleted = any(one.do == "delete" for one in self.asked.values())
        places, waiting = files.places(), files.waiting()
        for one in self.asked.values():
            if not one.text or not one.answers:
                continue
            place = places.get(one.text)
            entries = {} if place is None else place.messages
            if len(entries) > 1 or (place is not None and place.twice):
                self.problem("texts", f"{one.text} is there twice: {dict(entries)}")
            ended = one.succeeded and one.answers[0]["result"]["stopReason"] != "cancelled"
            if ended and not entries and not waiting.get(one.text) and not deleted:
                self.problem("texts", f"{one.text} ended ({one.answers[0]['result']}), and is lost")
        if self.case["buffer_bytes"] and not deleted:
            self._check_texts(files)
        self._logs.clear()
        for name in ("transport", "_server", "_factory"):
            self.__dict__.pop(name, None)

    def _check_texts(self, files: Files) -> None:
        for session, entries in files.entries.items():
            for entry in entries if session not in self._loaded else ():
                if entry["type"] == "message" and entry["id"] in self._chunks:
                    told = "".join(self._chunks[entry["id"]])
                    text = "".join(block.get("text", "") for block in entry["message"]["content"])
                    if told != text:
                        self.problem("text", f"{entry['id']}: {told!r} was sent, {text!r} is in the file")

    def _left(self) -> Iterator[Left]:
        seen: set[str] = set()
        for log in self._logs:
            there = log.path is not None and log.path.exists()
            if there and str(log.path) in seen:
                continue
            seen.add(str(log.path))
            yield Left(0, log.id, log.path, [] if there else [bytes(line) for line in log.tree.after(None)])
