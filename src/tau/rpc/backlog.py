"""What is to go to the client and has not gone yet, in order.

Three rules keep it bounded while nobody reads:

- pieces of an answer merge: their deltas are joined, and only the last snapshot
  is ever made, so the deltas a client reads always add up to the whole;
- a tool's accumulated output replaces what it showed before;
- everything else is never dropped; who looks at `size` can wait until it is less.

Snapshots also merge when nothing is blocked, once they have become so large that
one for every piece would be RATE bytes a second or more: the protocol repeats the
whole message in each update, twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tau.core.draft import Update
from tau.records.events import ToolUpdate, event_json
from tau.records.messages import Text
from tau.wire.dialect import Dialect

PORTION = 256 * 1024
RATE = 8 * 1024 * 1024
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


class Backlog:
    """Whoever uses it from two threads holds a lock."""

    def __init__(self, dialect: Dialect, now: Callable[[], float]) -> None:
        self._dialect = dialect
        self._now = now
        self._items: deque[Item] = deque()
        self._shown: dict[str, Shown] = {}  # by tool call, since the last record that is no update
        self.size = 0
        self.next_update = 0.0  # when the next snapshot may go out

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, line: bytes) -> None:
        self._shown.clear()
        self._items.append(line)
        self.size += len(line)

    def add_parts(self, pieces: Iterator[bytes], size: int) -> None:
        """One record in pieces; see Spliced for what they may be."""
        self._shown.clear()
        self._items.append(Parts(pieces, size))
        self.size += size

    def add_update(self, update: Update) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, Update) and last.absorb(update):
            self.size += update.weight
        else:
            self._items.append(update)
            self.size += _size(update)

    def add_shown(self, event: ToolUpdate) -> None:
        fresh = Shown(event)
        waiting = self._shown.get(event.tool_call_id)
        if waiting is None:
            self._shown[event.tool_call_id] = fresh
            self._items.append(fresh)
            self.size += fresh.size
        else:
            self.size += fresh.size - waiting.size
            waiting.event, waiting.size = fresh.event, fresh.size

    def too_soon(self) -> bool:
        """Nothing waits but a snapshot that would be one too many."""
        return len(self._items) == 1 and isinstance(self._items[0], Update) and self._now() < self.next_update

    def put_back(self, rest: bytes) -> None:
        """What was taken and could not be written."""
        self._items.appendleft(rest[:-1])
        self.size += len(rest) - 1

    def take(self) -> bytes:
        """The next records as bytes. Updates become bytes only here, when nothing can join them any more."""
        lines: list[bytes] = []
        size = 0
        while self._items and size < PORTION:
            item = self._items[0]
            if isinstance(item, Parts):
                size += self._part_of(item, lines, PORTION - size)
                continue
            self._items.popleft()
            self.size -= _size(item)
            line = self._line(item)
            lines += (line, b"\n")
            size += len(line)
        return b"".join(lines)

    def _part_of(self, parts: Parts, lines: list[bytes], wanted: int) -> int:
        """Some of a large record; with its end, it is done."""
        size = 0
        for piece in parts.pieces:
            lines.append(piece)
            size += len(piece)
            if size >= wanted:
                return size
        lines.append(b"\n")
        self._items.popleft()
        self.size -= parts.size
        return size + 1

    def _line(self, item: bytes | Update | Shown) -> bytes:
        if isinstance(item, bytes):
            return item
        if isinstance(item, Shown):
            if self._shown.get(item.event.tool_call_id) is item:
                del self._shown[item.event.tool_call_id]
            return event_json(item.event)
        line = item.wire(snapshots=self._dialect.snapshots, extras=self._dialect.extras)
        self.next_update = self._now() + len(line) / RATE
        return line


def _size(item: Item) -> int:
    if isinstance(item, bytes):
        return len(item)
    return UPDATE_SIZE + item.weight if isinstance(item, Update) else item.size
