"""What a client missed, as events: for clients that know events but no snapshots. Pure.

`Heard` follows the lines that a client is told. When a snapshot arrives because the host could not continue the stream,
`missed` makes the events that lead from what the client has heard to what the snapshot says: the messages that were
added, the rest of the text, the end of the turn and of the run, and exactly one `agent_settled` for a run that ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from tau.client.partial_message import PartialMessage
from tau.records.base import BadRecord, Record, decode, encode
from tau.records.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    Outcome,
    QueueUpdate,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from tau.records.host_events import Snapshot
from tau.records.lines import read_message
from tau.records.messages import Assistant, ToolResult

MAX_TOLD = 4096  # messages that are remembered
RUN_ROLES = ("user", "assistant", "toolResult", "custom")  # of messages that a run adds

Identity = tuple[Any, ...]


class EventLine(Record):
    """The fields of an event that are followed."""

    type: str
    message: Any = None
    id: Any = None
    steering: list[str] = []
    follow_up: list[str] = []
    tool_call_id: str = ""
    session_id: str = ""


def identity(message: Any) -> Identity:
    """What tells a message from others, in every dialect."""
    return message.get("role"), message.get("timestamp"), message.get("toolCallId")


class Heard:
    """What one client was told. `snapshots`: its dialect has the message so far in every update."""

    def __init__(self, *, snapshots: bool) -> None:
        self._snapshots = snapshots
        self._told: deque[Identity] = deque(maxlen=MAX_TOLD)
        self._session: str | None = None
        self._in_run = self._in_turn = self._unsettled = False
        self._message: PartialMessage | None = None  # whose end was not told
        self._begun: Identity | None = None  # the message whose start was told last
        self._run: list[Any] = []  # messages of the run
        self._turn: list[Any] = []  # messages of the turn after the assistant's, with it
        self._tools: set[str] = set()
        self._dialogs: set[str] = set()
        self._queued = False
        self._repairing = False  # after a snapshot, until the run has ended
        self._told_early: set[str] = set()  # ends that were told because of a snapshot, before they came

    def start(self, snapshot: Snapshot) -> None:
        """Take a snapshot as known: the client asks for what it wants to know."""
        self.know(snapshot)
        self._in_run = self._unsettled = snapshot.state.is_streaming
        self._in_turn = self._in_run

    def know(self, snapshot: Snapshot) -> None:
        """Take the messages of a snapshot as told, but not what is in progress."""
        self._session = snapshot.session
        self._told.extend(identity(message) for message in _messages(snapshot))

    def on_line(self, line: bytes) -> None:
        """Follow an event that the client is told."""
        if line.startswith(b'{"type":"message_update"'):
            if self._message is not None:
                self._message.on_update(line)
            return
        try:
            event = decode(EventLine, line, nesting=None)
        except BadRecord:
            return
        self._on_event(event)

    def _on_event(self, event: EventLine) -> None:
        match event.type:
            case "agent_start":
                self._repairing = False
                self._told_early.clear()
                self._in_run = self._unsettled = True
                self._run = []
            case "agent_end":
                self._in_run = self._in_turn = False
                self._message = None
                self._tools.clear()
            case "agent_settled":
                self._unsettled = False
            case "turn_start":
                self._in_turn, self._turn = True, []
            case "turn_end":
                self._in_turn, self._turn = False, []
            case "message_start" if isinstance(event.message, dict):
                self._begun = identity(event.message)
                if event.message.get("role") == "assistant":
                    self._message = PartialMessage(event.message)
            case "message_end" if isinstance(event.message, dict):
                self._note(event.message)
            case "tool_execution_start":
                self._tools.add(event.tool_call_id)
            case "tool_execution_end":
                self._tools.discard(event.tool_call_id)
            case "extension_ui_request":
                self._dialogs.add(str(event.id))
            case "session_changed":
                self._session = event.session_id
            case "queue_update":
                self._queued = bool(event.steering or event.follow_up)

    def _note(self, message: Any) -> None:
        self._begun = None
        self._told.append(identity(message))
        self._run.append(message)
        self._turn.append(message)
        if message.get("role") == "assistant":
            self._message = None

    # After a snapshot.

    def repairs(self, line: bytes) -> list[Event] | None:
        """What to tell before an event that follows a snapshot; None if the client must not hear the event.

        A snapshot does not say whether a turn has ended, nor whether the end of a run was announced.
        """
        if not self._repairing:
            return []
        try:
            event = decode(EventLine, line, nesting=None)
        except BadRecord:
            return []
        if event.type in self._told_early:
            self._told_early.discard(event.type)
            return None
        answered = any(message.get("role") == "assistant" for message in self._turn)
        begins = event.type == "message_start" and isinstance(event.message, dict)
        if begins and event.message.get("role") == "assistant":
            missing = [*(self._end_turn() if answered else ())]
            return missing if self._in_turn else [*missing, *self._begin_turn()]
        if event.type in ("turn_start", "agent_end") and self._in_turn:
            return [*self._end_turn()]
        return []

    def missed(self, snapshot: Snapshot) -> Iterator[Event]:
        """The events that the client missed. Its state is then that of the snapshot."""
        active = snapshot.state.is_streaming
        self._repairing = True
        new = self._new_messages(snapshot)
        if (new or active) and not self._in_run:
            yield from self._begin_run()
        for message in new:
            yield from self._add(message)
        if active:
            yield from self._continue(snapshot)
        else:
            yield from self._end(snapshot)
        queue = snapshot.queue
        if self._queued or queue.steering or queue.follow_up:
            self._queued = bool(queue.steering or queue.follow_up)
            yield QueueUpdate(queue.steering, queue.follow_up)

    def new_dialogs(self, snapshot: Snapshot) -> list[bytes]:
        """Dialogs that are open and were not told, as lines."""
        new = [dialog for dialog in snapshot.dialogs if str(dialog.get("id")) not in self._dialogs]
        self._dialogs.update(str(dialog.get("id")) for dialog in new)
        return [encode(dialog) for dialog in new]

    def _new_messages(self, snapshot: Snapshot) -> list[Any]:
        messages = _messages(snapshot)
        moved = self._session not in (None, snapshot.session)
        self._session = snapshot.session
        if moved:  # another conversation: the client asks for it
            self._told.extend(identity(message) for message in messages)
            return []
        told = set(self._told)
        last = max((index for index, message in enumerate(messages) if identity(message) in told), default=-1)
        return [message for message in messages[last + 1 :] if message.get("role") in RUN_ROLES]

    def _begin_run(self) -> Iterator[Event]:
        self._in_run = self._unsettled = True
        self._run = []
        yield AgentStart()
        yield from self._begin_turn()

    def _begin_turn(self) -> Iterator[Event]:
        self._in_turn, self._turn = True, []
        yield TurnStart()

    def _end_turn(self) -> Iterator[Event]:
        turn, self._turn = self._turn, []
        self._in_turn = False
        answers = [message for message in turn if message.get("role") == "assistant"]
        if answers:
            answer: Any = read_message(encode(answers[-1]))
            results: list[Any] = [
                read_message(encode(message)) for message in turn if message.get("role") == "toolResult"
            ]
            if isinstance(answer, Assistant):
                yield TurnEnd(answer, [result for result in results if isinstance(result, ToolResult)])

    def _add(self, message: Any) -> Iterator[Event]:
        """Tell a message that is complete."""
        assistant = message.get("role") == "assistant"
        if assistant and any(other.get("role") == "assistant" for other in self._turn):
            yield from self._end_turn()
        if not self._in_turn:
            yield from self._begin_turn()
        record: Any = read_message(encode(message))
        if assistant and self._message is not None and isinstance(record, Assistant):
            yield from self._message.rest(record, complete=True, snapshots=self._snapshots)
        else:
            if isinstance(record, ToolResult) and record.tool_call_id in self._tools:
                self._tools.remove(record.tool_call_id)
                outcome = Outcome(record.content, record.details)
                yield ToolEnd(record.tool_call_id, record.tool_name, outcome, record.is_error)
            if identity(message) != self._begun:
                yield MessageStart(record)
        self._note(message)
        yield MessageEnd(record)

    def _continue(self, snapshot: Snapshot) -> Iterator[Event]:
        """The run goes on: tell the part of the message that is streamed, and the tools that run."""
        if isinstance(snapshot.partial, dict):
            partial = read_message(encode(snapshot.partial))
            if isinstance(partial, Assistant):
                if self._message is None:
                    if any(other.get("role") == "assistant" for other in self._turn):
                        yield from self._end_turn()
                        yield from self._begin_turn()
                    begun = {**snapshot.partial, "content": []}
                    self._message = PartialMessage(begun)
                    start: Any = read_message(encode(begun))
                    yield MessageStart(start)
                yield from self._message.rest(partial, complete=False, snapshots=self._snapshots)
        for tool in snapshot.tools:
            if tool.tool_call_id not in self._tools:
                self._tools.add(tool.tool_call_id)
                yield ToolStart(tool.tool_call_id, tool.tool_name, tool.args)

    def _end(self, snapshot: Snapshot) -> Iterator[Event]:
        """No run is active: end what the client believes to be active."""
        if self._in_run:
            if self._message is not None:
                aborted = self._message.broken_off()
                self._note(decode(dict, encode(aborted)))
                yield MessageEnd(aborted)
            if self._in_turn:
                yield from self._end_turn()
            messages: list[Any] = [read_message(encode(message)) for message in self._run]
            self._in_run, self._message = False, None
            self._tools.clear()
            self._told_early |= {"turn_end", "agent_end"}
            yield AgentEnd(messages)
        if self._unsettled:
            self._unsettled = False
            self._told_early.add("agent_settled")
            settled = snapshot.settled
            died = snapshot.interrupted is not None or (snapshot.reason == "stream" and settled is None)
            yield AgentSettled(died or (settled is not None and settled.aborted))


def _messages(snapshot: Snapshot) -> list[Any]:
    """The messages in the entries of a snapshot."""
    entries = (entry for entry in snapshot.entries if isinstance(entry, dict) and entry.get("type") == "message")
    return [entry["message"] for entry in entries if isinstance(entry.get("message"), dict)]
