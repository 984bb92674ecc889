"""Output to the client, in order and with backpressure.

A thread writes, because only blocking writes work for pipes, files, terminals and sockets alike without changing them
for other processes. While it is blocked, records wait in the backlog; when the backlog is too large, `wait_for_room`
makes producers wait too.

The thread also polls the descriptor while there is nothing to write, so that a closed reader is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Awaitable, Callable, Iterator

from tau.core.agent.draft import Update
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import Event, ToolUpdate
from tau.rpc.backlog import Backlog
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

HIGH = 4 * 1024 * 1024
LOW_WATER_BYTES = HIGH // 2
# A pipe that polls as writable takes this much without blocking.
PIPE_BUF_BYTES = 4096


class Outbox:
    """Owned by the event loop, which calls `on_closed` when the reader has closed its end."""

    def __init__(self, descriptor: int, on_closed: Callable[[], None], dialect: Dialect = DEFAULT) -> None:
        self._descriptor = descriptor
        self._on_closed = on_closed
        self._dialect = dialect
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._backlog = Backlog(dialect, self._loop.time)
        self._busy = False  # the thread is writing or about to write
        self._failed = False
        self._flushing = False
        self._room: asyncio.Event | None = None
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._write, name="tau-stdout", daemon=True)
        self._thread.start()

    # Called in the event loop.

    def send(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        """Queue an event. Await the result, if there is one, before sending the next event."""
        if isinstance(event, Update):
            with self._lock:
                self._backlog.add_update(event)
        elif isinstance(event, ToolUpdate):
            for progress in self._dialect.made(event):
                with self._lock:
                    self._backlog.add_shown(progress)
        elif isinstance(event, UiRequest):
            self.put(ui_json(event))
        else:
            for line in self._dialect.event(event):
                self.put(line)
        self._flush_soon()
        return self.room()

    def put(self, line: bytes) -> None:
        with self._lock:
            self._backlog.add(line)
        self._flush_soon()

    def put_parts(self, pieces: Iterator[bytes], size: int) -> None:
        """Queue one record as an iterator of pieces, which must satisfy the contract of SplicedList."""
        with self._lock:
            self._backlog.add_parts(pieces, max(size, PIPE_BUF_BYTES + 1))  # so that the thread writes it
        self._flush_soon()

    def room(self) -> Awaitable[None] | None:
        return self._wait_for_low_water() if self._backlog.size > HIGH else None

    @property
    def busy(self) -> bool:
        """True while there is unwritten output."""
        return bool(self._backlog) or self._busy

    async def drained(self) -> None:
        """Wait until everything is written or the reader has closed its end."""
        self._backlog.next_update = 0.0
        self._flush()
        while self.busy and not self._failed:
            await asyncio.sleep(0.002)

    async def _wait_for_low_water(self) -> None:
        while True:
            # Created before the size is checked, so that the thread's wake-up is not missed.
            if self._room is None or self._room.is_set():
                self._room = asyncio.Event()
            if self._backlog.size <= LOW_WATER_BYTES or self._failed:
                return
            await self._room.wait()

    def _flush_soon(self) -> None:
        """Schedule one write per iteration of the loop, however many records it adds."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        with self._lock:
            if self._busy or not self._backlog or self._failed:
                return
            if self._backlog.too_soon():
                self._flushing = True
                self._loop.call_at(self._backlog.next_update, self._flush)
                return
            if self._backlog.size <= PIPE_BUF_BYTES and self._is_writable():
                batch = self._backlog.take()
                if len(batch) <= PIPE_BUF_BYTES:
                    batch = self._write_now(batch)
                if not batch:
                    return
                self._backlog.put_back(batch)
            self._busy = True
        os.write(self._wake_writer, b"x")

    def _is_writable(self, timeout_ms: int | None = 0) -> bool:
        """True if the descriptor is writable. With None, wait until it is, or until the reader has closed its end."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return any(event & select.POLLOUT for _, event in poll.poll(timeout_ms))

    def _write_now(self, batch: bytes) -> bytes:
        """Write without blocking and return the rest."""
        try:
            while batch:
                batch = batch[os.write(self._descriptor, batch) :]
        except BlockingIOError:
            return batch
        except OSError:
            self._failed = True
            self._loop.call_soon(self._closed)
        return b""

    def _closed(self) -> None:
        if self._room is not None:
            self._room.set()
        self._on_closed()

    # Called in the thread.

    def _write(self) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        poll.register(self._descriptor, 0)  # errors and hang-ups are always reported
        while True:
            ready = dict(poll.poll())
            if self._descriptor in ready:
                break
            os.read(self._wake_reader, 4096)
            if not self._write_all():
                break
        self._failed = True
        self._call_in_loop(self._closed)

    def _write_all(self) -> bool:
        while True:
            with self._lock:
                if self._backlog.too_soon():
                    self._busy = False
                    self._call_in_loop(self._flush_soon)
                    return True
                batch = memoryview(self._backlog.take())
                if not batch:
                    self._busy = False
                    return True
            while batch:
                try:
                    batch = batch[os.write(self._descriptor, batch) :]
                except BlockingIOError:  # inherited as non-blocking
                    self._is_writable(timeout_ms=None)
                except OSError:
                    return False
            room = self._room
            if room is not None and self._backlog.size <= LOW_WATER_BYTES:
                self._call_in_loop(room.set)

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            return
