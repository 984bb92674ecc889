"""The output of a channel: cursors into streams, and a short queue of its responses.

A response keeps its place: it is queued with the number of the last event at that time, and the events up to that
number are sent before it. So the order of a pipe holds on every transport. Nothing else is queued: events are read
from the ring of their stream when the transport takes them.

    IDLE       nothing is being written
    WRITING    the transport takes batches until there are none
    CLOSED     the connection is closed: output is discarded
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from tau.concurrency.turns import call_in_turn
from tau.records.host_events import SnapshotReason
from tau.runtime.protocol.backlog import SNAPSHOT_BYTES_PER_S
from tau.serve.event_stream import BATCH_BYTES, Envelope, EventStream

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Writer

MAX_WAITING = 1024  # responses
MAX_WAITING_BYTES = 4 * 1024 * 1024


class State(Enum):
    IDLE = auto()
    WRITING = auto()
    CLOSED = auto()


IDLE, WRITING, CLOSED = State


class LargeLine:
    """One line that is too large to be held in memory; its bytes are produced when they are taken."""

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self._pieces = pieces
        self.size = size
        self.begun = False

    def take(self, wanted: int) -> bytes:
        """About `wanted` bytes; empty after the last."""
        self.begun = True
        parts: list[bytes] = []
        size = 0
        for piece in self._pieces:
            parts.append(piece)
            size += len(piece)
            if size >= wanted:
                break
        return b"".join(parts)


class StreamReader:
    """A place in a stream. `snapshot` makes the line that replaces what the ring does not have any more."""

    def __init__(
        self,
        stream: EventStream,
        envelope: Envelope,
        cursor: int,
        snapshot: Callable[[SnapshotReason], bytes],
        wake: Callable[[], None],
        pace_s: float = 0,
    ) -> None:
        self.stream = stream
        self.envelope = envelope
        self.cursor = cursor
        self.wake = wake
        self.sent = 0  # the number up to which the channel was sent records before it was attached again
        self.due: SnapshotReason | None = None  # a snapshot has to be sent first
        self.next_piece = 0.0  # time before which no pieces are sent
        self._snapshot = snapshot
        self._pace_s = pace_s

    def next(self, upto: int, now: float) -> bytes:
        """The next lines; empty if there is nothing up to this number."""
        stream = self.stream
        if self.due is None and not stream.ring.reaches(self.cursor):
            self.due = "slow"
        if self.due is not None:
            self.cursor = stream.last
            line, self.due = self._snapshot(self.due), None
            self._has_read()
            return line + b"\n"
        while self.cursor < upto:
            # Pieces that the client has are not merged with those it does not have, so it can tell them by number.
            end = self.sent if self.cursor < self.sent < upto else upto
            data, self.cursor, pieces = stream.batch(self.cursor, end, self.envelope)
            self._has_read()
            if pieces:
                self.next_piece = now + max(self._pace_s, pieces / SNAPSHOT_BYTES_PER_S)
            if data:
                return data
        return b""

    def _has_read(self) -> None:
        if self.stream.waited_for:
            self.stream.has_read()

    @property
    def has_more(self) -> bool:
        return self.due is not None or self.cursor < self.stream.last

    def should_delay(self, now: float) -> bool:
        """True if only pieces of one block wait, and it is too early for them."""
        return self.due is None and now < self.next_piece and self.stream.ring.last_break <= self.cursor


class Waiting(NamedTuple):
    """A response. The events of `reader` up to `as_of` are sent before it."""

    line: bytes | LargeLine
    reader: StreamReader | None
    as_of: int


class Outgoing:
    """The BatchSource of a channel's transport, which calls `take` in the event loop. `lost` is called at its end."""

    def __init__(self, writer: Writer, lost: Callable[[], None]) -> None:
        self.readers: list[StreamReader] = []
        self.last_take = 0.0  # when the transport took output last
        self._writer = writer
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._state = IDLE
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None  # writes pieces that were too early
        self._urgent: deque[bytes] = deque()
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0  # of both
        self._latest: dict[Hashable, bytes] = {}  # lines that newer ones replace
        self._room = asyncio.Event()  # set when responses were taken, and when everything was
        writer.connect(self)

    # Input of the channel.

    def send(self, line: bytes | LargeLine, reader: StreamReader | None = None) -> None:
        """Queue a response, or an event of the channel itself, after the events that the reader's stream has now."""
        if self._state is CLOSED:
            return
        self._waiting.append(Waiting(line, reader, 0 if reader is None else reader.stream.last))
        self._waiting_bytes += _size(line)
        self.flush_soon()

    def send_first(self, line: bytes) -> None:
        """Send a line before everything that waits."""
        if self._state is CLOSED:
            return
        self._urgent.append(line)
        self._waiting_bytes += len(line)
        self.flush_soon()

    def send_latest(self, key: Hashable, line: bytes, *, instead_of: Sequence[Hashable] = ()) -> None:
        """Send a line after the responses. It replaces the one with its key, and others, that a slow client did not
        take yet: what waits does not grow with the time.
        """
        if self._state is CLOSED:
            return
        for other in instead_of:
            self._latest.pop(other, None)
        self._latest[key] = line
        self.flush_soon()

    def flush_soon(self) -> None:
        if self._state is IDLE and not self._scheduled:
            self._scheduled = True
            call_in_turn(self._loop, self._flush_scheduled)

    def flush(self) -> None:
        """Write what is due, unless the transport is writing already."""
        if self._state is IDLE:
            self._state = WRITING
            self.last_take = self._loop.time()
            self._writer.write()

    @property
    def has_room(self) -> bool:
        waiting = len(self._waiting) + len(self._urgent)
        return waiting <= MAX_WAITING and self._waiting_bytes <= MAX_WAITING_BYTES

    async def wait_for_room(self) -> None:
        await self._wait_until(lambda: self.has_room)

    async def drain(self) -> None:
        """Wait until everything is written, or the connection is closed."""
        for reader in self.readers:
            reader.next_piece = 0.0
        self.flush()
        await self._wait_until(lambda: self._state is IDLE and not self._has_more())

    def close(self) -> None:
        """Discard all output."""
        self._state = CLOSED
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()
        self._urgent.clear()
        self._latest.clear()
        self._room.set()

    @property
    def closed(self) -> bool:
        return self._state is CLOSED

    def stalled_for(self, now: float) -> float:
        """For how many seconds the transport has taken nothing although something is due."""
        return now - self.last_take if self._state is WRITING else 0.0

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition() and self._state is not CLOSED:
            self._room.clear()
            await self._room.wait()

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self.flush()

    def _has_more(self) -> bool:
        return bool(self._urgent or self._waiting or self._latest) or any(reader.has_more for reader in self.readers)

    # Called by the transport.

    def connection_lost(self) -> None:
        if self._state is not CLOSED:
            self.close()
            self._lost()

    def take(self) -> bytes:
        if self._state is CLOSED:
            return b""
        now = self.last_take = self._loop.time()
        parts: list[bytes] = []
        size = 0
        while size < BATCH_BYTES and (part := self._next(now)):
            parts.append(part)
            size += len(part)
        if not parts:
            self._state = IDLE
            self._room.set()
            self._delay(now)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next(self, now: float) -> bytes:
        if self._waiting and isinstance(line := self._waiting[0].line, LargeLine) and line.begun:
            return self._take_response()
        if self._urgent:
            return self._take_urgent()
        if self._waiting:
            reader, as_of = self._waiting[0].reader, self._waiting[0].as_of
            if reader is not None and reader in self.readers and (due := reader.next(as_of, now)):
                return due
            return self._take_response()
        if self._latest:
            return self._latest.pop(next(iter(self._latest))) + b"\n"
        for reader in self.readers:
            if reader.has_more and not reader.should_delay(now) and (due := reader.next(reader.stream.last, now)):
                return due
        return b""

    def _take_urgent(self) -> bytes:
        line = self._urgent.popleft()
        self._taken(len(line))
        return line + b"\n"

    def _take_response(self) -> bytes:
        line = self._waiting[0].line
        if isinstance(line, LargeLine):
            part = line.take(BATCH_BYTES)
            if part:
                return part
            self._pop()
            return b"\n"
        self._pop()
        return line + b"\n"

    def _pop(self) -> None:
        self._taken(_size(self._waiting.popleft().line))

    def _taken(self, size: int) -> None:
        self._waiting_bytes -= size
        if self.has_room:
            self._room.set()

    def _delay(self, now: float) -> None:
        """Write later the pieces that were too early."""
        times = [reader.next_piece for reader in self.readers if reader.has_more]
        if not times:
            return
        due = max(now, min(times))
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()  # it is for another stream, whose pieces have more time
        self._timer = self._loop.call_at(due, self._flush_delayed)

    def _flush_delayed(self) -> None:
        self._timer = None
        self.flush()


def _size(line: bytes | LargeLine) -> int:
    return len(line) if isinstance(line, bytes) else line.size


def with_as_of(pieces: Iterator[bytes], as_of: int) -> Iterator[bytes]:
    """The pieces of a large response, with `asOf` as its last field."""
    held = b""
    for piece in pieces:
        yield held
        held = piece
    yield b'%b,"asOf":%d}' % (held[:-1], as_of)
