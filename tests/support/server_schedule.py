"""Schedules of a host: several clients with several sessions, played in a scheduled loop, and the rules they keep.

Beside the rules of server_schedule_peers.py, which hold for each record:

    texts       a message that was acknowledged is in one session once, or waits there, or was cleared
    refused     a message that was refused is nowhere
    keys        a command with a key is carried out once, over lost connections and a restart of the host, and its
                repetitions are answered alike; open_session opens a session again that left no file
    question    a question has one answer, of a client that could give it and was shown it; all are told who gave it
    live        a client is attached only to sessions that are open; a file is open only once
    folds       what the clients made of the events is what the host says at the end; all have all events
    settled     runs of a session do not overlap, and each accepted prompt settles once
    files       each line is JSON, ids are unique, parents come first
    lost        nothing that was acknowledged is missing in the files
    hang, task left, descriptor left, exception, error logged

Limits of the host (ring, buffers, lag) are small here, so that a few events exceed them.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from support.schedule_cases import BASE, SETTINGS, Json
from support.schedule_record import Left, Record
from support.schedule_rules import Sessions
from support.schedule_world import Workshop
from support.server_schedule_cases import PLAIN, case
from support.server_schedule_peers import Connection, Peer, Sent
from support.staged_schedule import Played, Stage, factory_at, numbered
from tau.core.agent.draft import Update
from tau.records.dialogs import Input, UiRequest
from tau.records.events import ToolUpdate
from tau.records.host_events import SessionChanged
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.extensions.dialogs import dialog_id
from tau.runtime.protocol import memory
from tau.serve import channel, event_stream, live_sessions, outgoing
from tau.serve.attachment import Attachment
from tau.serve.event_stream import EventStream
from tau.serve.host import Host
from tau.serve.live_session import LiveSession
from tau.serve.opening import HostConfig, SessionOpener
from tau.wire.dialects import DEFAULT

__all__ = ["PLAIN", "case", "play"]

PATIENCE_S = 70.0  # virtual, for everything to end by itself; then it is aborted
HOST_COMMANDS = ("list_sessions", "who", "ping", "watch_sessions", "detach", "close_session")
TEXTS = ("prompt", "keyed_prompt", "steer", "keyed_steer", "follow_up")


def play(case: Json, workshop: Workshop, *, permute: bool = False) -> Played:
    return ServerStage(case, workshop, permute=permute).perform()


class Opener(SessionOpener):
    """Opens sessions without reading the same configuration again and again."""

    def __init__(self, config: HostConfig, known: SessionFactory) -> None:
        super().__init__(config)
        self._known = known

    def _load(self, options: SessionOptions, cwd: str) -> SessionFactory:
        return factory_at(cwd, self._known, options)

    def _settings(self, cwd: str) -> Any:
        return self._known.settings


@dataclass
class Question:
    """A question of the program. `result` is a list with the answer, when there is one."""

    id: str
    stream: str
    given: list[tuple[Connection, Json]] = field(default_factory=list)
    result: list[Any] = field(default_factory=list)
    resolved: list[Json] = field(default_factory=list)


@dataclass
class Message:
    """A text that was sent, perhaps repeatedly, and all responses."""

    do: str
    line: Json
    answers: list[Json] = field(default_factory=list)


class ServerStage(Stage):
    host: Host

    def __init__(self, case: Json, workshop: Workshop, *, permute: bool = False) -> None:
        super().__init__(case, workshop, permute=permute)
        self.over = False
        self.published: dict[str, list[Any]] = defaultdict(list)  # the events of each stream
        self.questions: dict[str, Question] = {}
        self.messages: dict[str, Message] = {}  # by text
        self.opens: dict[str, list[Json]] = defaultdict(list)  # responses to open_session, by key
        self.cleared: set[str] = set()
        self.sessions: list[str] = []  # ids
        self.streams: dict[str, str] = {}  # by session
        self.lives: list[LiveSession] = []
        self.logs: list[Any] = []
        self.peers = [Peer(self, number) for number in range(case["clients"])]
        self.closing = self.refusing = False  # the host
        self._restarting: asyncio.Task[None] | None = None

    def perform(self) -> Played:
        case, work = self.case, str(self.workshop.folder / "work")
        factory = self.workshop.factory(case)
        options = SessionOptions(
            provider="lab",
            model="large",
            script=factory.script,
            session=SessionTarget(folder=str(self.workshop.sessions)),
            settings={**BASE, **SETTINGS[case["settings"]]},
            only_these_extensions=True,
        )
        self._config = HostConfig(
            agent_dir=self.workshop.agent,
            options=options,
            roots=(work,),
            environment={"HOME": str(self.workshop.folder), "PATH": "/usr/bin"},
            idle_s=case["idle_s"],
            max_live=case["max_live"],
            answer_timeout_s=case["answer_timeout_s"],
        )
        self._factory = factory
        limits: tuple[tuple[Any, str, Any], ...] = (
            (event_stream, "RING_BYTES", case["ring_bytes"]),
            (event_stream, "MAX_LAG_BYTES", case["lag_bytes"]),
            (memory, "MAX_BUFFERED_BYTES", case["buffer_bytes"]),
            (event_stream, "BATCH_BYTES", min(case["buffer_bytes"], 65_536)),
            (outgoing, "BATCH_BYTES", min(case["buffer_bytes"], 65_536)),
            (live_sessions, "LiveSession", self._live_session),
            (channel.Channel, "attach", self._watch_attach(channel.Channel.attach)),
            (EventStream, "add", self._watch_add(EventStream.add)),
        )
        order = numbered(channel.Channel, LiveSession, Attachment, outgoing.StreamReader)
        return self.play(self._main, [*(patch.object(*one) for one in limits), *order])

    def let_go(self) -> None:
        self._check_files()
        self.lives.clear()
        self.logs.clear()
        self.peers.clear()
        self.questions.clear()
        del self.host

    def _new_host(self) -> None:
        self.host = Host(self._config)
        self.host.opener = self.host._live._opener = Opener(self._config, self._factory)
        self.closing = self.refusing = False

    async def _main(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("fuzzer")
        self._new_host()
        for peer in self.peers:
            peer.connect()
        await self.perform_all(self._operation)
        await self._until_quiet()
        self.over = True
        self.stop_performing()
        await self._until_quiet()
        await self._check_folds()
        await self._close()
        self._check_questions()

    # What is seen.

    def _live_session(self, *arguments: Any) -> LiveSession:
        live = LiveSession(*arguments)
        path = live.handle.log.path
        others = [one for one in self.host.sessions if path is not None and one.handle.log.path == path]
        if others:
            self.problem("live", f"{path} is open twice")
        self.lives.append(live)
        self._see(live)
        self.happened("opened")
        self.note(f"opened {live.id} as {live.stream.id}")
        return live

    def _see(self, live: LiveSession) -> None:
        self.logs.append(live.handle.log)
        if live.id not in self.sessions:
            self.sessions.append(live.id)
        self.streams[live.id] = live.stream.id

    def _watch_attach(self, attach: Callable[..., Any]) -> Callable[..., Any]:
        def watched(one: Any, live: LiveSession, *rest: Any) -> Any:
            if live not in self.host.sessions and not self.closing:
                self.problem("live", f"{one.client} was attached to {live.id}, which is closed")
            return attach(one, live, *rest)

        return watched

    def _watch_add(self, add: Callable[..., None]) -> Callable[..., None]:
        def watched(stream: EventStream, event: Any) -> None:
            kind = _kind(event)
            self.published[stream.id].append(event)
            add(stream, event)
            name = "extension_ui_request" if isinstance(event, UiRequest) else kind
            self.happened("message_update" if kind == "piece" else name)
            if kind == "session_changed":
                self._see(next(live for live in self.lives if live.stream is stream))
            elif kind == "extension_ui_resolved" and event.id in self.questions:
                self.questions[event.id].resolved.append({"outcome": event.outcome, "by": event.by})

        return watched

    def published_kind(self, stream: str, seq: int) -> str:
        """The kind of an event: "piece" and "progress" can be merged, "silent" is not on the wire."""
        event = self.published[stream][seq - 1]
        kind = _kind(event)
        mergeable = kind in ("piece", "progress") or isinstance(event, UiRequest)
        return kind if mergeable or DEFAULT.event_lines(event) else "silent"

    def answered(self, peer: Peer, sent: Sent, record: Json) -> None:
        """A response has come."""
        if sent.text:
            self.messages[sent.text].answers.append(record)
        if sent.line["type"] == "clear_queue" and record["success"]:
            self.cleared.update([*record["data"]["steering"], *record["data"]["followUp"]])
        if sent.line["type"] == "open_session" and sent.line.get("key"):
            key = f"{sent.line['key']} of host {self.host.id}"  # a host forgets them at its end
            self.opens[key].append(record)
            if len(live := [id for id in self._opened(key) if self.host.live(id) is not None]) > 1:
                self.problem("keys", f"{key} opened {live}, which are all live")

    # What is done.

    def _operation(self, operation: Json) -> None:
        if self.over:
            return
        do, pick = operation["do"], operation["pick"]
        peer = self.peers[operation["client"] % len(self.peers)]
        match do:
            case "connect" | "bind":
                if not self.refusing:
                    peer.connect(self._hello(peer, do, pick))
            case "cut" | "leave" | "stall" | "resume":
                self._change_connection(peer, do)
            case "revoke":
                self.host.revoke(peer.access.credential or "")
            case "restart":
                if self._restarting is None or self._restarting.done():
                    self.happened("ask restart")
                    self._restarting = self.loop.create_task(self._restart(pick), name="fuzzer")
            case "question":
                self._ask(pick)
            case "answer":
                if peer.seen and (connection := peer.connected()) is not None:
                    peer.answer(connection, [*peer.seen][pick % len(peer.seen)])
            case _:
                self._command(peer, operation)

    def _hello(self, peer: Peer, do: str, pick: int) -> Json:
        hello: Json = {"client": peer.name}
        if pick % 4 == 1:
            hello["flow"] = "wait"
        if pick % 3 == 1:
            hello["pace"] = 20
        if do == "bind" and self.sessions:
            hello["session"] = self.sessions[pick % len(self.sessions)]
            after = peer.after(self.streams.get(hello["session"]))
            if after is not None and pick % 5:
                hello["after"] = after
        return hello

    def _change_connection(self, peer: Peer, do: str) -> None:
        connection = peer.connection
        if connection is None:
            return
        if do == "cut":
            connection.cut()
        elif do == "leave" and connection.usable:
            connection.leave()
        else:
            connection.stall(stalled=do == "stall")

    async def _restart(self, pick: int) -> None:
        host = self.host
        self.note("restart")
        self.refusing = True
        if pick % 2:
            await host.drain((0.0, 0.5, 10.0)[pick % 3])
        self.closing = True
        await host.close()
        while host.channels:
            await asyncio.sleep(0.1)
        self._new_host()

    def _ask(self, pick: int) -> None:
        lives = sorted(self.host.sessions, key=lambda live: live.stream.id)
        if not lives or self.closing:
            return
        live = lives[pick % len(lives)]
        question = self.questions[id] = Question(id := dialog_id(), live.stream.id)
        timeout: Json = {"timeout": (50, 3000)[pick % 2]} if pick % 3 == 0 else {}

        async def ask() -> None:
            answer = await live.handle.dialogs.ask(Input(id, "Which?", **timeout))
            question.result.append(answer)
            self.note(f"question {id[:4]}: {answer!r}")

        self.note(f"question {id[:4]} in {live.id}")
        self.loop.create_task(ask(), name="question")

    def _command(self, peer: Peer, operation: Json) -> None:
        do, n, pick = operation["do"], operation["n"], operation["pick"]
        if do in ("repeat_prompt", "repeat_open"):
            self._repeat(peer, do, pick)
            return
        if (connection := peer.connected()) is None:
            return
        line: Json = {"type": do.removeprefix("keyed_")}
        if do in ("open_session", "reopen", "fork_session"):
            line = self._open_line(do, n, pick)
        elif do not in ("list_sessions", "ping", "watch_sessions"):
            if (session := self._session(connection, do, pick)) is None:
                return
            line["session"] = session
            if do == "attach" and pick % 3 and (after := peer.after(self.streams.get(session))) is not None:
                line["after"] = after
        line |= self._fields(do, n, pick)
        text = line["message"] if do in TEXTS else ""
        if do.startswith("keyed_"):
            line["key"] = f"key {n}"
        if text:
            self.messages[text] = Message(do, line)
        connection.send(do, n, line, text)

    def _session(self, connection: Connection, do: str, pick: int) -> str | None:
        own = [*connection.streams]
        if own and do != "attach" and pick % 10:
            return own[pick % len(own)]
        return self.sessions[pick % len(self.sessions)] if self.sessions else None

    def _open_line(self, do: str, n: int, pick: int) -> Json:
        line: Json = {"type": "open_session"}
        if do == "reopen" and self.sessions:
            line["session"] = self.sessions[pick % len(self.sessions)]
        elif do == "fork_session" and self.sessions:
            line["forkOf"] = self.sessions[pick % len(self.sessions)]
        elif pick % 3 == 0:
            line["key"] = f"open {n}"
        if "session" not in line and pick % 7 == 0:
            line["memory"] = True
        if pick % 5 == 0:
            line["attach"] = False
        if "session" not in line and pick % 4 == 0:
            line["permissions"] = "ask"
        return line

    def _fields(self, do: str, n: int, pick: int) -> Json:
        text = f"text-{n}."
        match do:
            case "prompt" | "keyed_prompt":
                behavior = (None, None, "steer", "followUp")[pick % 4]
                return {"message": text, **({"streamingBehavior": behavior} if behavior else {})}
            case "steer" | "keyed_steer" | "follow_up":
                return {"message": text}
            case "bash":
                return {"command": f"work {(0.0, 0.05, 0.3, 2.0)[pick % 4]} {text}"}
            case "set_session_name":
                return {"name": text}
            case "switch_session":
                files = sorted(self.workshop.sessions.glob("*.jsonl"))
                return {"sessionPath": str(files[pick % len(files)]) if files else "none"}
            case "watch_sessions":
                return {"enabled": pick % 3 > 0}
            case "close_session":
                return {"abort": True} if pick % 2 else {}
            case "list_sessions":
                return {"live": True} if pick % 2 else {}
        return {}

    def _repeat(self, peer: Peer, do: str, pick: int) -> None:
        """Send a command with a key again, as it was."""
        if (connection := peer.connected()) is None:
            return
        if do == "repeat_open":
            lines = [one.line for peer in self.peers for made in peer.all for one in made.sent.values()]
            known = [line for line in lines if line["type"] == "open_session" and "key" in line]
            if known:
                connection.send(do, -1, known[pick % len(known)])
            return
        keyed = [(text, one) for text, one in self.messages.items() if "key" in one.line]
        if keyed:
            text, message = keyed[pick % len(keyed)]
            if message.line["session"] not in connection.streams:
                if connection.bound:
                    return  # all its commands are for another session
                connection.send("attach", -1, {"type": "attach", "session": message.line["session"]})
            connection.send(message.do, -1, message.line, text)

    # The end.

    async def _until_quiet(self) -> None:
        """Wait until everything has ended by itself; abort what takes too long."""
        for attempt in range(8):
            deadline = self.loop.time() + PATIENCE_S
            while self.loop.time() < deadline and self._busy():
                await asyncio.sleep(0.5)
            if not self._busy():
                return
            for peer in self.peers:
                if attempt and peer.connection is not None:
                    peer.connection.stall(stalled=False)
            for live in self.host.sessions:
                live.handle.dialogs.cancel()
                await live.handle.abort()
        self.problem("hang", f"busy after every abort: {self._busy()}")

    def _busy(self) -> list[str]:
        busy = [f"session {live.id}" for live in self.host.sessions if live.streaming or live.running_bash()]
        if self._restarting is not None and not self._restarting.done():
            busy.append("restart")
        for peer in self.peers:
            connection = peer.connection
            if connection is not None and connection.usable and connection._resume.is_set():
                busy += [f"{peer.name}: {one.line}" for one in connection.sent.values() if not one.answers]
        return busy

    async def _check_folds(self) -> None:
        """Let all clients read to the end, and compare what they know with a snapshot."""
        for peer in self.peers:
            for one in peer.all:
                one.stall(stalled=False)
        await self._until_quiet()  # what a client waits for that was stalled, too
        await asyncio.sleep(20.0)
        for live in self.host.sessions:
            if live.streaming:  # a message that waited for an abort
                await live.handle.abort()
        await asyncio.sleep(5.0)
        for peer in self.peers:
            connection = peer.connection
            if connection is None or connection.lost or connection.ended or connection.left:
                continue
            for sent in connection.sent.values():
                if len(sent.answers) != 1:
                    self.problem("answered", f"{peer.name}: {sent.line} has {len(sent.answers)} responses")
            for live in self.host.sessions:
                if live.stream.id in connection.attached:
                    self._check_fold(peer, connection, live)

    def _check_fold(self, peer: Peer, connection: Connection, live: LiveSession) -> None:
        attached, fold = connection.attached[live.stream.id], peer.folds[live.stream.id]
        if attached.last is None or not connection.has_all(attached, live.stream.last):
            self.problem("folds", f"{peer.name} has {attached.last} of {live.stream.last} events")
            return
        view, mine = live.stream.view, fold.state()
        theirs = {
            "seq": fold.seq,
            "messages": [],
            "partial": None if view.partial is None else "a partial message",
            "tools": [*view.tools],
            "queue": {"steering": view.queue.steering, "followUp": view.queue.follow_up},
            "dialogs": sorted(view.dialogs),
            "statuses": dict(view.statuses),
        }
        mine["tools"] = [*mine["tools"]]
        if not fold.moved:
            theirs["messages"] = [*_told_messages(live)]
            mine["messages"] = [one for one in mine["messages"] if one[0] in ("user", "assistant", "toolResult")]
        else:
            mine["messages"] = []
        if mine != theirs:
            different = {name: (mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]}
            self.problem("folds", f"{peer.name} and the host differ in {different}")

    async def _close(self) -> None:
        self.closing = True
        if self.case["seed"] % 2:
            await self.host.drain(1.0)
        await self.host.close()
        await asyncio.sleep(10.0)
        if self.host.channels or self.host.sessions:
            self.problem("hang", f"after close: {self.host.channels} {self.host.sessions}")
        for peer in self.peers:
            if peer.connection is not None and not peer.connection.ended:
                self.problem("hang", f"{peer.name} was not ended")
        await asyncio.sleep(30.0)
        for peer in self.peers:
            for one in peer.all:
                one.reading.cancel()

    def _check_questions(self) -> None:
        for question in self.questions.values():
            if len(question.result) != 1:
                self.problem("question", f"{question.id} has the answers {question.result}")
                continue
            if len(question.resolved) > 1:
                self.problem("question", f"{question.id} was resolved more than once: {question.resolved}")
            result = question.result[0]
            by = next((one.get("by") for one in question.resolved if one["outcome"] == "answered"), None)
            if result is None:
                if isinstance(by, str):
                    self.problem("question", f"{question.id}: {by} answered, but the program has nothing")
                continue
            given = [(one, line) for one, line in question.given if line.get("value") == result]
            if not given:
                self.problem("question", f"{question.id}: nothing sent {result!r}")
                continue
            connection = given[0][0]
            if connection.peer.scope == "watch" or question.id not in connection.peer.seen:
                self.problem("question", f"{question.id} was answered by {connection.peer.name}, which may not")
            if question.resolved and by != connection.client:
                self.problem("question", f"{question.id}: {connection.client} answered, and all were told {by}")

    # The files.

    def _check_files(self) -> None:
        record = Record(sessions=[*self._left()])
        sessions = Sessions(record)
        self.played.problems += sessions.problems
        places, waiting = sessions.places(), sessions.waiting()
        for text, message in self.messages.items():
            place = places.get(text)
            entries = {} if place is None else place.messages
            if len(entries) > 1 or (place is not None and place.twice):
                self.problem("keys" if "key" in message.line else "texts", f"{text} is there twice: {dict(entries)}")
            succeeded = [one for one in message.answers if one["success"]]
            if len({json.dumps(one.get("data")) for one in succeeded}) > 1:
                self.problem("keys", f"{text} was answered differently: {message.answers}")
            kept = entries or text in self.cleared or waiting.get(text) or self._cleared_silently(place)
            if succeeded and not kept and not self._may_vanish(text, place):
                self.problem("texts", f"{text} was acknowledged ({succeeded[0].get('data')}) and is lost")
            if message.answers and not succeeded and entries and len(message.answers) == self._sent_times(text):
                self.problem("refused", f"{text} was refused ({message.answers[0]['error']}), but is there")
        for key in self.opens:
            files = {log.id for log in self.logs if log.path is not None and log.path.exists()}
            if len(kept := self._opened(key) & files) > 1:  # what left no file can be opened again
                self.problem("keys", f"{key} opened {kept}")

    def _opened(self, key: str) -> set[str]:
        """The sessions that open_session with a key has opened."""
        return {one["data"]["session"] for one in self.opens[key] if one["success"]}

    def _left(self) -> Iterator[Left]:
        seen: set[str] = set()
        for log in self.logs:
            lines = [] if log.path is not None and log.path.exists() else [bytes(one) for one in log.tree.after(None)]
            if log.path is not None and not log.path.exists() and any(b'"role":"user"' in line for line in lines):
                self.problem("lost", f"{log.id} has messages, but no file")
            if log.path is None or str(log.path) not in seen:
                seen.add(str(log.path))
                yield Left(0, log.id, log.path, lines)

    def _may_vanish(self, text: str, place: Any) -> bool:
        """A queued message is dropped when its session is left for another."""
        return (
            place is not None
            and bool(place.queued)
            and any(isinstance(event, SessionChanged) for events in self.published.values() for event in events)
        )

    def _cleared_silently(self, place: Any) -> bool:
        """The queue may have been cleared by a client that did not get the response."""
        made = [one for peer in self.peers for connection in peer.all for one in connection.sent.values()]
        cleared = any(one.line["type"] == "clear_queue" and not one.answers for one in made)
        return cleared and place is not None and bool(place.queued)

    def _sent_times(self, text: str) -> int:
        return sum(one.text == text for peer in self.peers for made in peer.all for one in made.sent.values())


def _kind(event: Any) -> str:
    if isinstance(event, Update):
        return "piece"
    return "progress" if isinstance(event, ToolUpdate) else str(event.__struct_config__.tag)


def _told_messages(live: LiveSession) -> Iterator[tuple[str, str]]:
    for line in live.handle.tree.after(None):
        entry = json.loads(bytes(line))
        if entry["type"] == "message" and entry["message"]["role"] in ("user", "assistant", "toolResult"):
            content = entry["message"]["content"]
            text = (
                content
                if isinstance(content, str)
                else "".join(b.get("text", "") for b in content if b["type"] == "text")
            )
            yield entry["message"]["role"], text
