"""The clients of a host in a schedule: their connections, what they sent, what they received, and what they make of it.

Each record that arrives is checked at once:

    answered    a command has one response
    order       within an attachment the numbers of events grow, and none is missing that cannot have been merged
    place       the events up to `asOf` come before a response, and none of them after it
    text        the pieces of an answer add up to it
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.schedule_cases import Json
from support.schedule_extension import Pipe
from support.stream_fold import Fold
from tau.runtime.protocol.memory import MemoryTransport
from tau.serve.access import Access

if TYPE_CHECKING:
    from support.server_schedule import ServerStage

SLOW_S = (0.0, 0.01, 0.2)
ANSWER_S = (0.0, 0.0, 0.05, 1.0, 20.0)
MOVES = ("attach", "detach", "open_session", "close_session")
DIALOGS = ("select", "confirm", "input", "editor")


class ClientFold(Fold):
    """A fold that also follows a move to another session."""

    moved = False  # since then, the messages of a snapshot are not those of the events

    def _apply(self, record: Json) -> None:
        super()._apply(record)
        match record["type"]:
            case "agent_end":
                self.partial = None
            case "agent_settled":
                self.tools.clear()
            case "session_changed":
                self.partial = None
                self.tools.clear()
                self.moved = True

    def _snapshot(self, record: Json) -> None:
        super()._snapshot(record)
        self.moved = record["more"]


@dataclass
class Sent:
    """A command. `text` is unique to it; `stream` is that of its session at this time."""

    do: str
    n: int
    line: Json
    text: str = ""
    attached: Attached | None = None
    answers: list[Json] = field(default_factory=list)


@dataclass
class Attached:
    """What a connection has received since it was attached to a stream. `last` is None until a snapshot has come."""

    stream: str
    last: int | None
    answered: int = 0  # the highest `asOf`


class Connection:
    def __init__(self, peer: Peer, hello: Json) -> None:
        self.peer = peer
        self.stage = stage = peer.stage
        self.transport = MemoryTransport()
        self.sent: dict[str, Sent] = {}
        self.lost = False  # the client has cut it
        self.left = False  # the client has ended its input
        self.ended = False
        self.attached: dict[str, Attached] = {}  # by stream
        self.streams: dict[str, str] = {}  # by session
        self._names: dict[str, str] = {}  # the same, with ids that a session had before
        self.client = ""  # its name in the host
        self._bound = ""
        self._rest = b""
        self._pipe = Pipe(stage.loop)
        self._pipe.receive = self._deliver
        self._resume = asyncio.Event()
        self._resume.set()
        self.host = stage.host
        self._serving = stage.loop.create_task(self._serve(), name="connection")
        self.reading = stage.loop.create_task(self._read(), name="fuzzer")
        self.send("hello", -1, {"type": "hello", "version": 1, **hello})

    async def _serve(self) -> None:
        ending = await self.host.serve(self.transport, self.peer.access, "memory")  # type: ignore[arg-type]
        self.stage.note(f"{self.peer.name} ended: {ending.code}")
        self.ended = True
        self.transport.client.end_output()
        self.stage.happened("lost")
        if self.left and not self.lost and ending.code == 1000:
            await self.reading
            missing = [one for one in self.sent.values() if not one.answers and one.do != "answer"]
            if missing and not self.lost:
                self.stage.problem("answered", f"left politely, but unanswered: {[one.line for one in missing]}")

    # Output of the client.

    def send(self, do: str, n: int, line: Json, text: str = "") -> Sent:
        id = f"{self.peer.number}.{len(self.sent)}"
        stream = self._bound or self.streams.get(line.get("session", ""), "")
        self.sent[id] = sent = Sent(do, n, line, text, self.attached.get(stream))
        self.stage.note(f"{self.peer.name} > {json.dumps({'id': id, **line})}")
        self.stage.happened(f"ask {line['type']}")
        self._pipe.write(json.dumps({"id": id, **line}).encode() + b"\n")
        return sent

    def send_raw(self, line: Json) -> None:
        """Send a line that has no response."""
        self.stage.note(f"{self.peer.name} > {json.dumps(line)}")
        self._pipe.write(json.dumps(line).encode() + b"\n")

    def leave(self) -> None:
        self.left = True
        self._pipe.write(b"")

    def cut(self) -> None:
        if not self.lost and not self.ended:
            self.lost = True
            if not hasattr(self.transport, "_source"):  # it is not served yet
                self._serving.cancel()
                self.ended = True
                return
            self.stage.note(f"{self.peer.name} cut")
            self.transport.client.disconnect()
            self.stage.happened("lost")

    def stall(self, *, stalled: bool) -> None:
        if stalled:
            self._resume.clear()
        else:
            self._resume.set()

    @property
    def usable(self) -> bool:
        return not (self.lost or self.left or self.ended)

    @property
    def bound(self) -> bool:
        return "session" in self.sent[f"{self.peer.number}.0"].line

    def _deliver(self, data: bytes) -> None:
        if self.lost or self.ended:
            return
        if data:
            self.transport.feed(data)
        else:
            self.transport.client.end_input()

    # Input of the client.

    async def _read(self) -> None:
        stage = self.stage
        while data := await self.transport.client.read():
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                if not self.lost:
                    self._received(json.loads(line))
            if self.peer.slow:
                await asyncio.sleep(stage.random.choice(SLOW_S))
            await self._resume.wait()

    def _received(self, record: Json) -> None:
        kind = record["type"]
        if kind != "message_update":
            self.stage.note(f"{self.peer.name} < {json.dumps(record)}"[:400])
        if kind == "response":
            self._response(record)
        elif kind == "snapshot":
            self._snapshot(record)
        elif "seq" in record:
            self._event(record)

    def _response(self, record: Json) -> None:
        sent = self.sent.get(record.get("id", ""))
        if record["command"] == "extension_ui_response":
            return  # the session is not attached any more
        if sent is None:
            self.stage.problem("answered", f"a response to nothing: {record}")
            return
        sent.answers.append(record)
        if len(sent.answers) > 1:
            self.stage.problem("answered", f"more than once: {sent.answers}")
        if record["success"]:
            self._succeeded(sent, record)
        self.stage.answered(self.peer, sent, record)
        attached = sent.attached
        if "asOf" in record and attached is not None and attached is self.attached.get(attached.stream):
            moves = any(not one.answers and one.line["type"] in MOVES for one in self.sent.values())
            if moves:
                return  # it may have left its place in the stream, so nothing has to come before the response
            if attached.last is None:
                self.stage.problem("place", f"a response before the snapshot: {record}")
            else:
                self._check_missing(attached, record["asOf"] + 1, f"a response with asOf {record['asOf']}", ends=True)
            attached.answered = max(attached.answered, record["asOf"])

    def _succeeded(self, sent: Sent, record: Json) -> None:
        data = record.get("data") or {}
        if sent.line["type"] == "hello":
            self.stage.happened("hello")
            self.client = data["client"]
            if "attached" in data:
                self._bound = data["attached"]["stream"]
                self._attach(data["attached"], sent.line.get("after"))
        elif sent.line["type"] == "attach":
            self._attach(data, sent.line.get("after"))
        elif sent.line["type"] == "open_session" and not self._bound and sent.line.get("attach") is not False:
            self._attach({**data, "resumed": False}, None)
        elif sent.line["type"] in ("detach", "close_session"):
            for session, stream in [*self.streams.items()]:
                if session == sent.line["session"]:
                    self.attached.pop(stream, None)
                    del self.streams[session]

    def _attach(self, told: Json, after: Json | None) -> None:
        stream = told["stream"]
        self.streams = {session: known for session, known in self.streams.items() if known != stream}
        self.streams[told["session"]] = self._names[told["session"]] = stream
        self.attached[stream] = Attached(stream, after["seq"] if told["resumed"] and after is not None else None)
        fold = self.peer.folds.setdefault(stream, ClientFold())
        if told["resumed"] and after is not None and after["seq"] > fold.seq:
            self.stage.problem("order", f"resumed after {after}, which was not received")

    def _stream_of(self, record: Json) -> Attached | None:
        stream = self._bound or self._names.get(record.get("session", ""), "")
        return self.attached.get(stream)

    def _snapshot(self, record: Json) -> None:
        self.stage.happened("snapshot")
        attached = self.attached.get(record["stream"])
        if attached is None:
            self.stage.problem("order", f"a snapshot of a stream that is not attached: {record['stream']}")
            return
        if attached.last is not None and record["seq"] < attached.last:
            self.stage.problem("order", f"a snapshot of the past: {record['seq']} after {attached.last}")
        attached.last = record["seq"]
        self.streams = {session: known for session, known in self.streams.items() if known != attached.stream}
        self.streams[record["session"]] = self._names[record["session"]] = attached.stream
        if self is self.peer.connection:  # a client does not look at what an earlier connection still brings
            self.peer.folds[attached.stream].apply(record)
        for dialog in record["dialogs"]:
            self.peer.shown(self, attached.stream, dialog)

    def _event(self, record: Json) -> None:
        attached = self._stream_of(record)
        if attached is None:
            self.stage.problem("order", f"an event of a session that is not attached: {str(record)[:200]}")
            return
        seq = record["seq"]
        if attached.last is None:
            self.stage.problem("order", f"event {seq} before the snapshot")
        elif seq <= attached.last or seq <= attached.answered:
            self.stage.problem("order", f"event {seq} after {attached.last}, asOf {attached.answered}")
        else:
            self._check_missing(attached, seq, f"event {seq}")
        attached.last = seq
        if record["type"] == "session_changed":
            self.streams = {session: known for session, known in self.streams.items() if known != attached.stream}
            self.streams[record["sessionId"]] = self._names[record["sessionId"]] = attached.stream
        fold = self.peer.folds[attached.stream]
        if self is self.peer.connection:
            fold.apply(record)
        if fold.gaps:
            self.stage.problem("text", fold.gaps.pop())
        if record["type"] == "extension_ui_request" and record["method"] in DIALOGS:
            self.peer.shown(self, attached.stream, record)

    def _check_missing(self, attached: Attached, seq: int, what: str, *, ends: bool = False) -> None:
        """No event between the last and this one is missing, unless it can be a part of this one."""
        assert attached.last is not None
        for missing in range(attached.last + 1, seq):
            kind = self.stage.published_kind(attached.stream, missing)
            replaced = kind in ("silent", "progress") or (kind == "piece" and not ends)
            if not replaced:
                self.stage.problem("place" if ends else "order", f"{what}, but {missing} ({kind}) did not come")
                return

    def has_all(self, attached: Attached, last: int) -> bool:
        assert attached.last is not None
        missing = range(attached.last + 1, last + 1)
        return all(self.stage.published_kind(attached.stream, seq) == "silent" for seq in missing)


class Peer:
    """A client, which may connect again. It remembers what it has received of each stream."""

    def __init__(self, stage: ServerStage, number: int) -> None:
        self.stage = stage
        self.number = number
        self.name = f"client {number}"
        self.scope = stage.case["scopes"][number] if number < len(stage.case["scopes"]) else "admin"
        self.access = Access(self.name, self.scope, f"credential {number}")
        self.slow = number in stage.case["slow"]
        self.folds: dict[str, ClientFold] = {}
        self.connection: Connection | None = None
        self.all: list[Connection] = []
        self.seen: dict[str, tuple[str, Json]] = {}  # dialogs, with their streams
        self._answers = 0

    def connect(self, hello: Json | None = None) -> Connection:
        if self.connection is not None:
            self.connection.cut()
        self.connection = Connection(self, hello or {})
        self.all.append(self.connection)
        return self.connection

    def connected(self) -> Connection | None:
        """The connection, or another one; None while the host accepts none."""
        if self.connection is not None and self.connection.usable:
            return self.connection
        return None if self.stage.refusing else self.connect()

    def after(self, stream: str | None) -> Json | None:
        fold = self.folds.get(stream or "")
        return None if fold is None else {"stream": stream, "seq": fold.seq}

    def shown(self, connection: Connection, stream: str, dialog: Json) -> None:
        """The user sees a question, and answers it at once, later, or never."""
        self.seen[dialog["id"]] = stream, dialog
        random = self.stage.random
        if random.random() < 0.6 and not self.stage.over:
            self.stage.loop.call_later(random.choice(ANSWER_S), self._answer_if_connected, connection, dialog["id"])

    def _answer_if_connected(self, connection: Connection, id: str) -> None:
        if connection.usable and not self.stage.over:
            self.answer(connection, id)

    def answer(self, connection: Connection, id: str) -> None:
        """Answer a question that was shown, on the same connection or a later one."""
        stream, dialog = self.seen[id]
        session = next((session for session, known in connection.streams.items() if known == stream), "none")
        self._answers += 1
        line: Json = {"type": "extension_ui_response", "id": id}
        random = self.stage.random
        if random.random() < 0.15:
            line["cancelled"] = True
        elif dialog["method"] == "confirm":
            line["confirmed"] = random.random() < 0.5
        elif dialog["method"] == "select":
            line["value"] = random.choice(dialog["options"])
        else:
            line["value"] = f"answer {self.number}.{self._answers}"
        if id in self.stage.questions:
            self.stage.questions[id].given.append((connection, line))
        connection.send_raw(line if connection.bound else {**line, "session": session})
