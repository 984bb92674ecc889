"""Everything that goes to the client, in order, whatever the client does.

A thread writes, because only blocking writes work on pipes, files, terminals and
sockets alike without changing them for others. While it is blocked, records wait
here, and three rules keep that bounded:

- pieces of an answer merge: their deltas are joined, and only the last snapshot
  is ever made, so the deltas a client reads always add up to the whole;
- a tool's accumulated output replaces what it showed before;
- everything else is never dropped; when too much waits, `room` makes whoever
  produces it wait too.

Snapshots also merge when nothing is blocked, once they have become so large that
one for every piece would be RATE bytes a second or more: the protocol repeats the
whole message in each update, twice.

The thread also watches the other end while there is nothing to write: a reader
that is gone is noticed at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from tau.core.draft import Update
from tau.records.dialogs import UiRequest, ui_json
from tau.records.events import Event, ToolUpdate, event_json
from tau.records.messages import Text
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

HIGH = 4 * 1024 * 1024
LOW = HIGH // 2
PORTION = 256 * 1024
RATE = 8 * 1024 * 1024
# What a pipe takes without blocking when it says that it takes something.
AT_ONCE = 4096
UPDATE_SIZE = 256


class Shown:
    """The latest that a tool has shown; replaced as long as it waits."""

    __slots__ = ("event", "size")

    def __init__(self, event: ToolUpdate) -> None:
        self.event = event
        self.size = UPDATE_SIZE + sum(len(b.text) for b in event.partial_result.content if isinstance(b, Text))


class Parts:
    """One record that is too large to be held: its bytes come when they can be written."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self.pieces = pieces
        self.size = size


Item = bytes | Update | Shown | Parts


class Outbox:
    """Owned by the event loop; `gone` is called there when nobody reads any more."""

    def __init__(self, handle: int, gone: Callable[[], None], dialect: Dialect = DEFAULT) -> None:
        self._handle = handle
        self._gone = gone
        self._dialect = dialect
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._size = 0
        self._shown: dict[str, Shown] = {}  # by tool call, since the last record that is no update
        self._busy = False  # the thread is writing
        self._broken = False
        self._flushing = False
        self._next_update = 0.0  # when the next snapshot may go out
        self._room: asyncio.Event | None = None
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._write, name="tau-stdout", daemon=True)
        self._thread.start()

    # The loop's side.

    def send(self, event: Event | Update | UiRequest) -> Awaitable[None] | None:
        """Queue an event. What is returned, if anything, is to be awaited before the next."""
        if isinstance(event, Update):
            with self._lock:
                self._add_update(event)
        elif isinstance(event, ToolUpdate):
            for shown in self._dialect.made(event):
                with self._lock:
                    self._add_shown(shown)
        elif isinstance(event, UiRequest):
            self.put(ui_json(event))
        else:
            for line in self._dialect.event(event):
                self.put(line)
        self._flush_soon()
        return self.room()

    def put(self, line: bytes) -> None:
        with self._lock:
            self._shown.clear()
            self._items.append(line)
            self._size += len(line)
        self._flush_soon()

    def put_parts(self, pieces: Iterator[bytes], size: int) -> None:
        """One record in pieces; see Spliced for what they may be."""
        parts = Parts(pieces, max(size, AT_ONCE + 1))  # never written at once
        with self._lock:
            self._shown.clear()
            self._items.append(parts)
            self._size += parts.size
        self._flush_soon()

    def room(self) -> Awaitable[None] | None:
        return self._wait() if self._size > HIGH else None

    @property
    def busy(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._items) or self._busy

    async def drained(self) -> None:
        """Until everything is written, or nobody reads any more."""
        self._next_update = 0.0
        self._flush()
        while (self._items or self._busy) and not self._broken:
            await asyncio.sleep(0.002)

    async def _wait(self) -> None:
        while True:
            # There before the size is looked at, so that the thread cannot make room unheard.
            if self._room is None or self._room.is_set():
                self._room = asyncio.Event()
            if self._size <= LOW or self._broken:
                return
            await self._room.wait()

    def _add_update(self, update: Update) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Update) and last.absorb(update):
            self._size += update.weight
        else:
            self._items.append(update)
            self._size += _size(update)

    def _add_shown(self, event: ToolUpdate) -> None:
        fresh = Shown(event)
        waiting = self._shown.get(event.tool_call_id)
        if waiting is None:
            self._shown[event.tool_call_id] = fresh
            self._items.append(fresh)
            self._size += fresh.size
        else:
            self._size += fresh.size - waiting.size
            waiting.event, waiting.size = fresh.event, fresh.size

    def _flush_soon(self) -> None:
        """One write per turn of the loop, however many records it brought."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        with self._lock:
            if self._busy or not self._items or self._broken:
                return
            if self._too_soon():
                self._flushing = True
                self._loop.call_at(self._next_update, self._flush)
                return
            if self._size <= AT_ONCE and self._takes_some():
                batch = self._batch()
                if len(batch) <= AT_ONCE:
                    batch = self._write_now(batch)
                if not batch:
                    return
                self._items.appendleft(batch[:-1])
                self._size += len(batch) - 1
            self._busy = True
        os.write(self._wake, b"x")

    def _too_soon(self) -> bool:
        """Nothing waits but a snapshot that would be one too many."""
        return len(self._items) == 1 and isinstance(self._items[0], Update) and self._loop.time() < self._next_update

    def _takes_some(self) -> bool:
        poll = select.poll()
        poll.register(self._handle, select.POLLOUT)
        return any(what & select.POLLOUT for _, what in poll.poll(0))

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
                if self._too_soon():
                    self._busy = False
                    self._call(self._flush_soon)
                    return True
                batch = memoryview(self._batch())
                if not batch:
                    self._busy = False
                    return True
            while batch:
                try:
                    batch = batch[os.write(self._handle, batch) :]
                except BlockingIOError:  # it was non-blocking when we got it
                    self._wait_until_it_takes_some()
                except OSError:
                    return False
            room = self._room
            if room is not None and self._size <= LOW:
                self._call(room.set)

    def _wait_until_it_takes_some(self) -> None:
        poll = select.poll()
        poll.register(self._handle, select.POLLOUT)
        poll.poll()

    def _call(self, what: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop has ended already
            return

    # Both sides, with the lock held.

    def _batch(self) -> bytes:
        """The next records as bytes. Updates become bytes only here, when nothing can join them any more."""
        lines: list[bytes] = []
        size = 0
        while self._items and size < PORTION:
            item = self._items[0]
            if isinstance(item, Parts):
                size += self._take(item, lines, PORTION - size)
                continue
            self._items.popleft()
            self._size -= _size(item)
            line = self._line(item)
            lines += (line, b"\n")
            size += len(line)
        return b"".join(lines)

    def _take(self, parts: Parts, lines: list[bytes], wanted: int) -> int:
        """Some of a large record; with its end, it is done."""
        size = 0
        for piece in parts.pieces:
            lines.append(piece)
            size += len(piece)
            if size >= wanted:
                return size
        lines.append(b"\n")
        self._items.popleft()
        self._size -= parts.size
        return size + 1

    def _line(self, item: bytes | Update | Shown) -> bytes:
        if isinstance(item, bytes):
            return item
        if isinstance(item, Shown):
            if self._shown.get(item.event.tool_call_id) is item:
                del self._shown[item.event.tool_call_id]
            return event_json(item.event)
        line = item.wire(snapshots=self._dialect.snapshots, extras=self._dialect.extras)
        self._next_update = self._loop.time() + len(line) / RATE
        return line


def _size(item: Item) -> int:
    if isinstance(item, bytes):
        return len(item)
    return UPDATE_SIZE + item.weight if isinstance(item, Update) else item.size
