"""Output to the client, in order and with backpressure.

Records wait in the backlog until the transport takes them. When the backlog is too large, `wait_for_room` makes
producers wait too.

    IDLE       nothing is being written
    SCHEDULED  the writer will be started: at the end of this callback (`hold`) or turn, in the next iteration of the
               loop, or later to coalesce large snapshots
    WRITING    the writer takes batches until there are none
    CLOSED     the client or this side has closed the connection: output is discarded
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal

from tau.concurrency.turns import call_in_turn
from tau.core.agent.draft import Update
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import Event, ToolUpdate
from tau.runtime.protocol.backlog import Backlog
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Writer

logger = logging.getLogger(__name__)
DIRECT_BYTES = 64 * 1024  # the event loop writes this much itself, if the transport can; the buffer of a pipe on Linux
HIGH_WATER_BYTES = 4 * 1024 * 1024
LOW_WATER_BYTES = HIGH_WATER_BYTES // 2


State = Literal["idle", "scheduled", "writing", "closed"]  # an Enum takes longer to create than to load this module
IDLE: Final = "idle"
SCHEDULED: Final = "scheduled"
WRITING: Final = "writing"
CLOSED: Final = "closed"


class Outbox:
    """Owned by the event loop, which calls `on_closed` when the client has closed its end.

    The writer may call `take` in a thread, but only while the state is WRITING. The lock guards backlog and state then.
    """

    def __init__(self, writer: Writer, on_closed: Callable[[], None], dialect: Dialect = DEFAULT) -> None:
        self._writer = writer
        self._write_now = writer.write_now
        self._on_closed = on_closed
        self._dialect = dialect
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._backlog = Backlog(dialect, self._loop.time)
        self._state: State = IDLE
        self._written: asyncio.Event | None = (
            None  # set when the backlog is below LOW_WATER_BYTES, and when it is empty
        )
        writer.connect(self)

    def send(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        """Queue an event. Await the result, if there is one, before sending the next event."""
        if self._state == CLOSED:
            return None
        if isinstance(event, Update):
            with self._lock:
                self._backlog.add_update(event)
        elif isinstance(event, ToolUpdate):
            for progress in self._dialect.event_records(event):
                with self._lock:
                    self._backlog.add_progress(progress)
        elif isinstance(event, UiRequest):
            self.send_line(ui_json(event))
        else:
            for line in self._dialect.event_lines(event):
                self.send_line(line)
        self._flush_soon()
        return self.wait_for_room()

    def send_at_once(self, event: Event) -> None:
        """Queue an event and start the writer, even if it is waiting to coalesce snapshots."""
        for line in self._dialect.event_lines(event):
            self.send_line(line)
        self.flush()

    def add_update(self, update: Update) -> None:
        """Queue an update, for a producer that asks for room itself (`wait_for_room`)."""
        if self._state == CLOSED:
            return
        with self._lock:
            self._backlog.add_update(update)
        self._flush_soon()

    def send_line(self, line: bytes) -> None:
        state = self._state
        if state == SCHEDULED:  # no thread uses the backlog, and the write that takes this line is scheduled
            self._backlog.add(line)
        elif state != CLOSED:
            with self._lock:
                self._backlog.add(line)
            self._flush_soon()

    def send_large(self, pieces: Iterator[bytes], size: int) -> None:
        """Queue one record as an iterator of pieces, which must satisfy the contract of SplicedList."""
        if self._state == CLOSED:
            return
        with self._lock:
            self._backlog.add_large(pieces, size)
        self._flush_soon()

    def hold(self) -> bool:
        """Start a batch: what is sent in this callback waits for `flush`. Returns False if a write is scheduled or
        active, which takes it anyway; then `flush` need not be called.
        """
        if self._state != IDLE:
            return False
        self._state = SCHEDULED
        return True

    @property
    def size(self) -> int:
        """About how many bytes are not taken by the writer yet."""
        return self._backlog.size

    @property
    def has_room(self) -> bool:
        """False while producers have to wait."""
        return self._backlog.size <= HIGH_WATER_BYTES

    def wait_for_room(self) -> Awaitable[None] | None:
        if self.has_room:
            return None
        return self._wait_until(lambda: self._backlog.size <= LOW_WATER_BYTES)

    @property
    def busy(self) -> bool:
        """True while there is unwritten output."""
        return bool(self._backlog.items) or self._state == WRITING

    async def drain(self) -> None:
        """Wait until everything is written or the connection is closed."""
        self._backlog.next_update = 0.0
        self.flush()
        await self._wait_until(lambda: not self.busy)

    async def close(self) -> None:
        """Close the writer. Output that is not written yet is discarded."""
        self._end()
        await self._writer.close()

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while True:
            # Created before the condition is checked, so that the writer's wake-up is not missed.
            if self._written is None or self._written.is_set():
                self._written = asyncio.Event()
            if condition() or self._state == CLOSED:
                return
            await self._written.wait()

    def _flush_soon(self) -> None:
        """Schedule one write at the end of the turn, or one per iteration of the loop, however many records it adds.

        A writer that is active needs no call: it takes batches until it finds the backlog empty under the lock.
        """
        if self._state == IDLE:
            self._state = SCHEDULED
            call_in_turn(self._loop, self.flush)

    def flush(self) -> None:
        """Write what is queued, or let the writer do it."""
        if self._state == WRITING or self._state == CLOSED:
            return
        backlog = self._backlog
        if not backlog.items:
            self._state = IDLE
            return
        if backlog.next_update and backlog.should_delay():
            self._state = SCHEDULED
            self._loop.call_at(backlog.next_update, self.flush)
            return
        try:
            is_written = (
                backlog.size <= DIRECT_BYTES
                and self._write_now is not None
                and self._write_now(backlog.take())
                and not backlog.items
            )
        except Exception:  # a record that cannot be encoded: without its line, nothing after it can be sent either
            logger.exception("the output could not be written")
            self.connection_lost()
            return
        if is_written:
            self._state = IDLE
            if self._written is not None:
                self._written.set()
            return
        self._state = WRITING
        self._writer.write()

    def _end(self) -> None:
        with self._lock:
            self._state = CLOSED
            self._backlog = Backlog(self._dialect, self._loop.time)
        if self._written is not None:
            self._written.set()

    # Called by the writer.

    def connection_lost(self) -> None:
        if self._state != CLOSED:
            self._end()
            self._on_closed()

    def take(self) -> bytes:
        if self._written is not None and self._backlog.size <= LOW_WATER_BYTES:  # the previous batch is written
            self._wake_waiters()
        with self._lock:
            if self._state == CLOSED:
                return b""
            backlog = self._backlog
            delayed = bool(backlog.items) and backlog.should_delay()
            batch = backlog.take() if backlog.items and not delayed else b""
            if not batch:
                self._state = IDLE
        if delayed:
            self._call_in_loop(self._flush_soon)
        elif not batch:
            self._wake_waiters()
        return batch

    def _wake_waiters(self) -> None:
        written = self._written
        if written is not None and not written.is_set():
            self._call_in_loop(written.set)

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            return
