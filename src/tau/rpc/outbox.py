"""Everything that goes to the client, in order, whatever the client does.

A thread writes, because only blocking writes work on pipes, files, terminals and
sockets alike without changing them for others. While it is blocked, records wait
in the backlog; when too much waits, `room` makes whoever produces it wait too.

The thread also watches the other end while there is nothing to write: a reader
that is gone is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import Awaitable, Callable, Iterator

from tau.core.draft import Update
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import Event, ToolUpdate
from tau.rpc.backlog import Backlog
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

HIGH = 4 * 1024 * 1024
LOW = HIGH // 2
# What a pipe takes without blocking when it says that it takes something.
AT_ONCE = 4096


class Outbox:
    """Owned by the event loop; `gone` is called there when nobody reads any more."""

    def __init__(self, handle: int, gone: Callable[[], None], dialect: Dialect = DEFAULT) -> None:
        self._handle = handle
        self._gone = gone
        self._dialect = dialect
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._backlog = Backlog(dialect, self._loop.time)
        self._busy = False  # the thread is writing
        self._broken = False
        self._flushing = False
        self._room: asyncio.Event | None = None
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._write, name="tau-stdout", daemon=True)
        self._thread.start()

    # The loop's side.

    def send(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        """Queue an event. What is returned, if anything, is to be awaited before the next."""
        if isinstance(event, Update):
            with self._lock:
                self._backlog.add_update(event)
        elif isinstance(event, ToolUpdate):
            for shown in self._dialect.made(event):
                with self._lock:
                    self._backlog.add_shown(shown)
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
        """One record in pieces; see Spliced for what they may be."""
        with self._lock:
            self._backlog.add_parts(pieces, max(size, AT_ONCE + 1))  # never written at once
        self._flush_soon()

    def room(self) -> Awaitable[None] | None:
        return self._wait() if self._backlog.size > HIGH else None

    @property
    def busy(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._backlog) or self._busy

    async def drained(self) -> None:
        """Until everything is written, or nobody reads any more."""
        self._backlog.next_update = 0.0
        self._flush()
        while self.busy and not self._broken:
            await asyncio.sleep(0.002)

    async def _wait(self) -> None:
        while True:
            # There before the size is looked at, so that the thread cannot make room unheard.
            if self._room is None or self._room.is_set():
                self._room = asyncio.Event()
            if self._backlog.size <= LOW or self._broken:
                return
            await self._room.wait()

    def _flush_soon(self) -> None:
        """One write per turn of the loop, however many records it brought."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        with self._lock:
            if self._busy or not self._backlog or self._broken:
                return
            if self._backlog.too_soon():
                self._flushing = True
                self._loop.call_at(self._backlog.next_update, self._flush)
                return
            if self._backlog.size <= AT_ONCE and self._takes_some():
                batch = self._backlog.take()
                if len(batch) <= AT_ONCE:
                    batch = self._write_now(batch)
                if not batch:
                    return
                self._backlog.put_back(batch)
            self._busy = True
        os.write(self._wake, b"x")

    def _takes_some(self, within: int | None = 0) -> bool:
        """Whether it can be written to; None waits until it can, or nobody reads any more."""
        poll = select.poll()
        poll.register(self._handle, select.POLLOUT)
        return any(what & select.POLLOUT for _, what in poll.poll(within))

    def _write_now(self, batch: bytes) -> bytes:
        """What could not be written."""
        try:
            while batch:
                batch = batch[os.write(self._handle, batch) :]
        except BlockingIOError:
            return batch
        except OSError:
            self._broken = True
            self._loop.call_soon(self._lost)
        return b""

    def _lost(self) -> None:
        if self._room is not None:
            self._room.set()
        self._gone()

    # The thread's side.

    def _write(self) -> None:
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        poll.register(self._handle, 0)  # errors and hang-ups are always told
        while True:
            ready = dict(poll.poll())
            if self._handle in ready:
                break
            os.read(self._woken, 4096)
            if not self._write_all():
                break
        self._broken = True
        self._call(self._lost)

    def _write_all(self) -> bool:
        while True:
            with self._lock:
                if self._backlog.too_soon():
                    self._busy = False
                    self._call(self._flush_soon)
                    return True
                batch = memoryview(self._backlog.take())
                if not batch:
                    self._busy = False
                    return True
            while batch:
                try:
                    batch = batch[os.write(self._handle, batch) :]
                except BlockingIOError:  # it was non-blocking when we got it
                    self._takes_some(within=None)
                except OSError:
                    return False
            room = self._room
            if room is not None and self._backlog.size <= LOW:
                self._call(room.set)

    def _call(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop has ended already
            return
