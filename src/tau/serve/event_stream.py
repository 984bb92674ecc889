"""The stream of a live session: everything it publishes, numbered, kept in a ring, and handed to its clients.

A session does not know who listens. It publishes to its stream; the stream wakes the channels of its clients, and they
read from the ring when their connections take output. The session waits only for clients that asked for it
(`flow: wait`), and for those at most WAIT_TIMEOUT_S.
"""

from __future__ import annotations

import asyncio
import os
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from tau.concurrency.turns import call_in_turn
from tau.core.agent.draft import Update
from tau.records.base import encode
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import AgentEnd, AgentSettled, Event, MessageEnd, MessageStart, ToolEnd, ToolUpdate, TurnEnd
from tau.records.host_events import HOST_STREAM_EVENTS
from tau.records.messages import Text, ToolResult, User
from tau.serve.event_ring import EventRing
from tau.serve.session_view import SessionView
from tau.wire.dialect import Dialect

RING_BYTES = 8 * 1024 * 1024
BATCH_BYTES = 64 * 1024  # with the limit of a transport's buffer, less than 256 KiB wait outside the ring
MAX_LAG_BYTES = 4 * 1024 * 1024  # of a client with `flow: wait`, before the session waits for it
WAIT_TIMEOUT_S = 30.0
RECORD_BYTES = 300  # about what a small record costs
PIECE_BYTES = 500

Published = Event | Update | UiRequest


class Envelope(NamedTuple):
    """How the records of a stream look on a channel: its dialect, `seq`, and `session` on a free channel."""

    dialect: Dialect
    numbers: bool
    free: bool

    @property
    def key(self) -> tuple[str, bool, bool]:
        return self.dialect.name, self.numbers, self.free


class Batch(NamedTuple):
    """Lines of a stream. `cursor`: the number of the last record in them. `piece_bytes`: what pieces contribute."""

    data: bytes
    cursor: int
    piece_bytes: int


class Listener(Protocol):
    """A client's place in the stream."""

    @property
    def cursor(self) -> int: ...

    def wake(self) -> None:
        """There are new records."""


class EventStream:
    def __init__(self) -> None:
        self.id = urlsafe_b64encode(os.urandom(12)).decode()
        self.ring: EventRing[Published] = EventRing(Update)
        self.view = SessionView()
        self.on_event: Callable[[Published], None] = lambda event: None
        self.listeners: set[Listener] = set()
        self.waited_for: set[Listener] = set()  # the clients with `flow: wait`
        self.merged = 0  # pieces that were merged into others, for metrics
        self._loop = asyncio.get_running_loop()
        self._sessions: list[tuple[int, bytes]] = []  # the numbers of the first records of sessions, and their ids
        self._waking = False
        self._batches: dict[tuple[object, ...], Batch] = {}  # made in this turn of the loop
        self._progress = asyncio.Event()  # a client with `flow: wait` has read

    @property
    def last(self) -> int:
        return self.ring.last

    def publish(self, event: Published) -> Awaitable[None] | None:
        """Number and keep an event. The session awaits the result, if there is one, before it publishes more."""
        self.add(event)
        return self._wait() if self.waited_for and self._is_behind() else None

    def add(self, event: Published) -> None:
        """Number and keep an event that nothing waits for."""
        if isinstance(event, Update):
            seq = self.ring.append(event, PIECE_BYTES + event.weight)
        elif isinstance(event, ToolUpdate):
            seq = self.ring.append(event, weight_of(event), event.tool_call_id)
        else:
            seq = self.ring.append(event, weight_of(event))
            if isinstance(event, ToolEnd):
                self.ring.end_progress(event.tool_call_id)
        self.view.apply(event, seq)
        self.on_event(event)
        if self.ring.size > RING_BYTES:
            self.ring.trim(RING_BYTES, min((one.cursor for one in self.waited_for), default=None))
        if self.listeners and not self._waking:
            self._waking = True
            call_in_turn(self._loop, self._wake)

    def name_session(self, id: str) -> None:
        """The records from now on belong to this session; at first, all records."""
        self._sessions.append((self.last + 1 if self._sessions else 0, encode(id)))

    def batch(self, after: int, upto: int, envelope: Envelope) -> Batch:
        """The next lines after a number. Their bytes are made once for all clients with the same place and envelope."""
        key = after, upto, *envelope.key
        found = self._batches.get(key)
        if found is None:
            if not self._batches:
                self._loop.call_soon(self._batches.clear)
            found = self._batches[key] = self._make_batch(after, upto, envelope)
        return found

    def shrink(self, keep_last: int = 0) -> None:
        """Keep only the last records."""
        self.ring.trim(0, min((one.cursor for one in self.waited_for), default=None), keep_last)

    def has_read(self) -> None:
        """A client with `flow: wait` has read, or left."""
        self._progress.set()

    def _wake(self) -> None:
        self._waking = False
        for listener in [*self.listeners]:
            listener.wake()

    def _make_batch(self, after: int, upto: int, envelope: Envelope) -> Batch:
        lines: list[bytes] = []
        size, pieces, cursor = 0, 0, upto
        # A record with snapshots has the size of its message; the others must not fill the buffer of a transport.
        largest = None if envelope.dialect.snapshots else BATCH_BYTES
        for seq, item in self.ring.read(after, upto, largest):
            made = self._lines(item, envelope)
            if made:
                if envelope.free:
                    named = b',"session":%b}' % self._session_at(seq)
                    made = [line[:-1] + named for line in made]
                if envelope.numbers:
                    made[-1] = b'%b,"seq":%d}' % (made[-1][:-1], seq)
                grown = sum(map(len, made)) + len(made)
                size += grown
                if isinstance(item, Update):
                    pieces += grown
                lines += made
            if size >= BATCH_BYTES:
                cursor = seq
                break
        lines.append(b"")
        return Batch(b"\n".join(lines), cursor, pieces)

    def _lines(self, item: Published, envelope: Envelope) -> list[bytes]:
        dialect = envelope.dialect
        if isinstance(item, Update):
            return [item.wire_json(**dialect.update_options)]
        if isinstance(item, UiRequest):
            return [ui_json(item)] if dialect.dialogs else []
        if isinstance(item, HOST_STREAM_EVENTS) and not envelope.numbers:
            return []
        return dialect.event_lines(item)

    def _session_at(self, seq: int) -> bytes:
        """The id of the session that a record belongs to, as JSON."""
        return next(id for since, id in reversed(self._sessions) if since <= seq)

    def _is_behind(self) -> bool:
        if self.ring.size <= MAX_LAG_BYTES:
            return False
        return any(self.ring.weight_after(one.cursor) > MAX_LAG_BYTES for one in self.waited_for)

    async def _wait(self) -> None:
        """Wait for the clients that asked for it; those that take too long are not waited for any more."""
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while self._is_behind():
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            late = {one for one in self.waited_for if self.ring.weight_after(one.cursor) > MAX_LAG_BYTES}
            self.waited_for -= late


def weight_of(event: Event | UiRequest) -> int:
    """About how many bytes an event holds. Messages are in the conversation anyway, but may leave it."""
    match event:
        case ToolUpdate():
            return RECORD_BYTES + _content(event.partial_result.content)
        case ToolEnd():
            return RECORD_BYTES + _content(event.result.content)
        case MessageStart() | MessageEnd() | TurnEnd():
            return RECORD_BYTES + _message(event.message)
        case AgentEnd():
            return RECORD_BYTES + sum(_message(message) for message in event.messages)
        case AgentSettled():
            return RECORD_BYTES
    return RECORD_BYTES


def _message(message: object) -> int:
    if isinstance(message, User | ToolResult):
        return RECORD_BYTES + (len(message.content) if isinstance(message.content, str) else _content(message.content))
    return RECORD_BYTES + _content(getattr(message, "content", ()))


def _content(blocks: object) -> int:
    if not isinstance(blocks, list):
        return 0
    return sum(
        len(block.text) if isinstance(block, Text) else len(getattr(block, "data", "")) + 100 for block in blocks
    )
