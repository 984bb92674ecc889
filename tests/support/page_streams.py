"""Streams of sessions, recorded for the page: records as it gets them, and what a snapshot says at some of them.

The page folds records in JavaScript (state.js), the host in Python (SessionView). Both must agree: the state of the
page after n records is what the host's snapshot says at that place.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tau.core.agent.draft import Draft
from tau.records import dialogs as d
from tau.records import events as e
from tau.records.base import UNSET, Raw, parse, replace
from tau.records.dialogs import ui_json
from tau.records.events import event_json
from tau.records.host_events import DialogResolved, SessionChanged, Snapshot, SnapshotReason
from tau.records.messages import BashExecution, Custom, Image, Text, ToolResult, Usage, User
from tau.records.replies import SessionState
from tau.runtime.runs.model_client import UNKNOWN_MODEL
from tau.serve.event_stream import Envelope, EventStream
from tau.wire import dialects
from tau.wire.unfinished import PartialJson

Json = dict[str, Any]
TEXTS = (
    "",
    "word ",
    "two\nlines",
    "ä€\U0001f600",
    '"quoted\\"',
    "<b>&amp;</b>",
    "\u2028\u2029",
    "x" * 300,
    "__proto__",
)
KEYS = ("status", "__proto__", "constructor", "7", "ü")
ENVELOPE = Envelope(dialects.find("1.5"), True, True)


class Check(NamedTuple):
    """After `position` records the page must know what `snapshot` says."""

    position: int
    snapshot: Json


class Recording:
    """The records that one client of a stream gets, with checks at random places.

    `snapshot` makes the line of a snapshot at this moment. The client loses its connection now and then: it gets some
    records twice, or a snapshot instead of records.
    """

    def __init__(
        self, stream: EventStream, snapshot: Callable[[SnapshotReason], bytes], chance: random.Random, *, lose: bool
    ) -> None:
        self.records: list[Json] = []
        self.checks: list[Check] = []
        self._stream, self._snapshot, self._chance, self._lose = stream, snapshot, chance, lose
        self._cursor = 0
        self.of_run = False  # recorded from a run: see same_state
        self._take_snapshot("new")

    def read(self) -> None:
        """Read everything that was published; sometimes after a lost connection."""
        way = self._chance.random() if self._lose else 1.0
        if way < 0.05:
            self._take_snapshot("slow")
        elif way < 0.1 and self.records:  # some records arrive again
            self.records += [record for record in self.records[-5:] if "seq" in record and record["type"] != "snapshot"]
        self._take_records()
        if self._chance.random() < 0.3:
            self.check()

    def check(self) -> None:
        self.checks.append(Check(len(self.records), parse(self._snapshot("new"))))

    def _take_records(self) -> None:
        while self._cursor < self._stream.last:
            batch = self._stream.batch(self._cursor, self._stream.last, ENVELOPE)
            self._cursor = batch.cursor
            self.records += [parse(line) for line in batch.data.split(b"\n") if line]

    def _take_snapshot(self, reason: SnapshotReason) -> None:
        self.records.append(parse(self._snapshot(reason)))
        self._cursor = self._stream.last


# Streams that no run makes: all kinds of events, in any order.


class Generator:
    """Publishes random events to a stream. Must run in an event loop."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stream = EventStream()
        self.stream.name_session("session")
        self._draft: Draft | None = None
        self._open: list[int] = []
        self._drafts = 0
        self._tools: list[str] = []
        self._dialogs: list[str] = []
        self._ids = 0
        self._state = STATE

    def recording(self, events: int) -> Recording:
        recording = Recording(self.stream, self.snapshot, self.chance, lose=True)
        for _ in range(events):
            self._publish_one()
            if self.chance.random() < 0.4:
                recording.read()
        recording.read()
        recording.check()
        return recording

    def snapshot(self, reason: SnapshotReason) -> bytes:
        view = self.stream.view
        return event_json(
            Snapshot(
                session="session",
                stream=self.stream.id,
                seq=self.stream.last,
                reason=reason,
                state=self._state,
                leaf_id=None,
                entries=[],
                more=False,
                partial=view.partial_json(),
                tools=view.running_tools(),
                queue=view.queue,
                dialogs=[Raw(ui_json(one)) for one in view.dialogs.values()],
                ui=view.ui(),
                bash=[],
                settled=view.settled,
                interrupted=None,
                partial_arguments=view.partial_arguments(),
            )
        )

    def _publish_one(self) -> None:
        chance = self.chance
        if self._draft is not None and chance.random() < 0.6:
            self._continue_message(self._draft)
        else:
            chance.choice((self._message, self._tool, self._dialog, self._shown, self._other, self._message))()

    def _text(self) -> str:
        return self.chance.choice(TEXTS)

    def _id(self, kind: str) -> str:
        self._ids += 1
        return f"{kind}{self._ids}"

    def _publish(self, event: Any) -> None:
        self._state = replace(self._state, **_state_change(event))
        self.stream.publish(event)

    def _message(self) -> None:
        if self._draft is None:
            self._drafts += 1
            self._draft, self._open = Draft(UNKNOWN_MODEL, self._drafts, PartialJson, provider_details=True), []
            self._publish(e.MessageStart(self._draft.begin().message))
            return
        draft, self._draft = self._draft, None
        for index in self._open:
            self._publish(draft.close(index))
        reason: Any = self.chance.choice(("stop", "error", "aborted", "length"))
        self._publish(e.MessageEnd(draft.message(reason)))

    def _continue_message(self, draft: Draft) -> None:
        chance = self.chance
        if not self._open or (chance.random() < 0.15 and draft.block_count < 5):
            self._open.append(draft.block_count)
            way = chance.randrange(4)
            if way == 3:
                self._open.pop()
                for update in draft.add_redacted("payload"):
                    self._publish(update)
            elif way == 2:
                self._publish(draft.open_call(self._id("call"), chance.choice(("bash", "read", "__proto__"))))
            else:
                self._publish(draft.open("text" if way == 0 else "thinking", "signed" if way == 1 else ""))
        elif chance.random() < 0.1:
            self._publish(draft.close(self._open.pop(chance.randrange(len(self._open)))))
        else:
            if chance.random() < 0.1:
                draft.set_usage(usage=Usage(chance.randrange(100), chance.randrange(100)))
            pieces = chance.choice((TEXTS, ('{"pa', 'th":"a', '","b":[1,', "2]}", "tru", "not json")))
            self._publish(draft.add(chance.choice(self._open), chance.choice(pieces)))

    def _tool(self) -> None:
        chance = self.chance
        if not self._tools or chance.random() < 0.4:
            self._tools.append(self._id("tool") if chance.random() < 0.9 else chance.choice(KEYS))
            self._publish(e.ToolStart(self._tools[-1], self._text(), {"command": self._text()}))
            return
        tool = chance.choice(self._tools)
        outcome = e.Outcome(self._content(), chance.choice((UNSET, {"diff": self._text()}, None)))
        if chance.random() < 0.6:
            self._publish(e.ToolUpdate(tool, "bash", {"command": self._text()}, outcome))
            return
        self._tools.remove(tool)
        self._publish(e.ToolEnd(tool, "bash", outcome, chance.random() < 0.5, 12))
        self._publish(e.MessageEnd(ToolResult(tool, "bash", outcome.content)))

    def _content(self) -> list[Text | Image]:
        blocks: list[Text | Image] = [Text(self._text()) for _ in range(self.chance.randrange(3))]
        if self.chance.random() < 0.2:
            blocks.append(Image("aGk=", "image/png"))
        return blocks

    def _dialog(self) -> None:
        chance = self.chance
        if self._dialogs and chance.random() < 0.5:
            ended = self._dialogs.pop(chance.randrange(len(self._dialogs)))
            self._publish(DialogResolved(ended, chance.choice(("answered", "cancelled", "late")), "c1"))
            return
        id, text = self._id("dialog"), self._text()
        self._dialogs.append(id)
        kinds: list[d.UiRequest] = [
            d.Select(id, text, [text, "b"], 30_000),
            d.Confirm(id, text, text),
            d.Input(id, text, text, 1000),
            d.Editor(id, text, text),
        ]
        self._publish(chance.choice(kinds))

    def _shown(self) -> None:
        text, key, id = self._text(), self.chance.choice(KEYS), self._id("ui")
        shown: list[d.UiRequest] = [
            d.SetTitle(id, text),
            d.SetStatus(id, key, text),
            d.SetStatus(id, key),
            d.SetWidget(id, key, [text, "line"], "belowEditor"),
            d.SetWidget(id, key, [text]),
            d.SetWidget(id, key),
            d.Notify(id, text, "warning"),
            d.SetEditorText(id, text),
        ]
        self._publish(self.chance.choice(shown))

    def _other(self) -> None:
        chance, text = self.chance, self._text()
        settles = [e.AgentEnd([], False), e.AgentSettled(chance.random() < 0.3)]
        others: list[list[Any]] = [
            [e.AgentStart()],
            settles,
            [SessionChanged("session", "/f", None, "navigate")],
            [e.TurnStart()],
            [e.QueueUpdate([text, "a"], [text])],
            [e.QueueUpdate([], [])],
            [e.CompactionStart("threshold"), e.CompactionEnd("threshold", None, False, False, text)],
            [e.AutoRetryStart(1, 3, 100, text)],
            [e.AutoRetryEnd(False, 3, text)],
            [e.EntryAppended({"type": "custom", "id": "x"})],
            [e.SessionInfoChanged(text)],
            [e.ThinkingLevelChanged("high")],
            [e.BashUpdate(text, "b1"), e.BashUpdate(text, "b1"), e.MessageEnd(BashExecution("ls", text))],
            [e.BudgetExceeded("cost", 2.0, 1.0)],
            [e.StructuredOutput(error=text)],
            [e.SessionDamaged(text, [text])],
            [e.SessionWriteFailed(text, text, 1)],
            [e.SessionWriteRecovered(text)],
            [e.ExtensionError(text, text, text)],
            [e.McpServerUpdate(text, "failed", error=text)],
            [e.MessageStart(User(text, 1)), e.MessageEnd(User(text, 1))],
            [e.MessageEnd(Custom("kind", text, True))],
        ]
        events = chance.choice(others)
        if events is settles:
            self._tools.clear()
            self._draft = None
        for event in events:
            if isinstance(event, SessionChanged):
                self._tools.clear()
                self._draft = None
            self._publish(event)


def _state_change(event: Any) -> Json:
    match event:
        case e.AgentStart() | e.AgentSettled():
            return {"is_streaming": isinstance(event, e.AgentStart)}
        case e.CompactionStart() | e.CompactionEnd():
            return {"is_compacting": isinstance(event, e.CompactionStart)}
        case e.SessionInfoChanged():
            return {"session_name": event.name}
        case e.ThinkingLevelChanged():
            return {"thinking_level": event.level}
    return {}


STATE_FIELDS = ("thinkingLevel", "sessionName", "isStreaming", "isCompacting", "sessionId")
STATE = SessionState(
    model=None,
    thinking_level="off",
    is_streaming=False,
    is_compacting=False,
    steering_mode="all",
    follow_up_mode="all",
    session_file="/f",
    session_id="session",
    session_name=UNSET,
    auto_compaction_enabled=True,
    message_count=0,
    pending_message_count=0,
)


# What both sides know, in one form.


def of_snapshot(snapshot: Json) -> Json:
    """What a snapshot says, in the words of state.js."""
    partial = snapshot["partial"]
    texts = snapshot.get("partialArguments", {})
    return {
        "seq": snapshot["seq"],
        "stream": snapshot["stream"],
        "partial": None if partial is None else _partial(partial, texts),
        "tools": {tool["toolCallId"]: _tool(tool) for tool in snapshot["tools"]},
        "queue": snapshot["queue"],
        "dialogs": [_without(dialog, "type", "timeout") for dialog in snapshot["dialogs"]],
        "title": snapshot["ui"].get("title"),
        "statuses": snapshot["ui"]["statuses"],
        "widgets": snapshot["ui"]["widgets"],
        "settled": snapshot["settled"] and _without(snapshot["settled"], "key"),
        "state": _present(snapshot["state"], *STATE_FIELDS),
    }


def of_state(state: Json) -> Json:
    """The same of a state of state.js."""
    partial = state["partial"]
    return {
        "seq": state["seq"],
        "stream": state["stream"],
        "partial": partial
        and {
            **_present(partial, "model", "provider", "timestamp", "usage", "errorMessage"),
            "blocks": [_block(block) for block in partial["blocks"]],
        },
        "tools": {
            id: _present(tool, "name", "args", "output", "images", "details")
            for id, tool in state["tools"].items()
            if tool["status"] == "running"
        },
        "queue": state["queue"],
        "dialogs": [_without(dialog, "timeout", "deadline") for dialog in state["dialogs"]],
        "title": state["ui"]["title"],
        "statuses": state["ui"]["statuses"],
        "widgets": state["ui"]["widgets"],
        "settled": state["settled"] and _without(state["settled"], "key"),
        "state": _present(state["state"], *STATE_FIELDS),
    }


def same_state(expected: Json, actual: Json) -> bool:
    """For runs. `isStreaming` of a host changes when a prompt is accepted and, in some dialects, when its run ends;
    that of the page, when it hears of the start and of the end.

    The name of a session to which another one moved is not in the event; the page asks for it.
    """
    known = expected if "sessionName" in actual else _without(expected, "sessionName")
    return {**known, "isStreaming": actual["isStreaming"]} == actual


def _partial(message: Json, texts: dict[str, str]) -> Json:
    blocks: list[Json] = []
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            blocks.append({"kind": "text", "text": block["text"]})
        elif block["type"] == "thinking":
            redacted = block.get("redacted", False)
            blocks.append({"kind": "thinking", "text": block["thinking"], "redacted": redacted})
        else:
            text = texts.get(str(index))
            arguments = {"arguments": block["arguments"]} if text is None else {"argumentText": text}
            blocks.append({"kind": "call", "id": block["id"], "name": block["name"], **arguments})
    return {**_present(message, "model", "provider", "timestamp", "usage", "errorMessage"), "blocks": blocks}


def _block(block: Json) -> Json:
    if block["kind"] != "call":
        return _without(block, "done")
    return _without(block, "done", "argumentText") if block["done"] else _without(block, "done", "arguments")


def _tool(tool: Json) -> Json:
    result = tool.get("partialResult") or {}
    content = result.get("content", [])
    return {
        "name": tool["toolName"],
        "args": tool["args"],
        "output": "\n".join(block["text"] for block in content if block["type"] == "text"),
        "images": [_without(block, "type") for block in content if block["type"] == "image"],
        "details": result.get("details"),
    }


def _present(record: Json, *names: str) -> Json:
    return {name: record[name] for name in names if name in record}


def _without(record: Json, *names: str) -> Json:
    return {name: value for name, value in record.items() if name not in names}
