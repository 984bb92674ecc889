"""Output that has not been written yet, in order, with coalescing.

Three rules bound its size while the client does not read:

- Deltas of an assistant message are coalesced: their texts are joined and only the last snapshot is encoded, so the
  deltas that a client reads always add up to the whole message.
- The accumulated output of a tool replaces its previous output.
- Nothing else is dropped. Producers look at `size` and wait until it is smaller.

Snapshots are also coalesced when nothing blocks, once they are so large that one per delta would exceed
SNAPSHOT_BYTES_PER_S: the protocol repeats the whole message in each update, twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tau.core.agent.draft import Update
from tau.records.events import ToolUpdate, event_json
from tau.records.messages import Text
from tau.wire.dialect import Dialect

BATCH_BYTES = 256 * 1024
SNAPSHOT_BYTES_PER_S = 8 * 1024 * 1024
UPDATE_OVERHEAD_BYTES = 256


class PendingProgress:
    """The latest progress of a tool call. Newer progress replaces it until it is written."""

    __slots__ = ("event", "size")

    def __init__(self, event: ToolUpdate) -> None:
        self.event = event
        self.size = UPDATE_OVERHEAD_BYTES + sum(
            len(b.text) for b in event.partial_result.content if isinstance(b, Text)
        )


class LargeRecord:
    """One record that is too large to be held in memory; its bytes are produced when they are written."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: Iterator[bytes], size: int) -> None:
        self.pieces = pieces
        self.size = size


Item = bytes | Update | PendingProgress | LargeRecord


class Backlog:
    """The queue of unwritten output. Not thread-safe: a user with two threads needs a lock."""

    def __init__(self, dialect: Dialect, now: Callable[[], float]) -> None:
        self._dialect = dialect
        self._now = now
        self.items: deque[Item] = deque()  # to ask whether there are any
        self._progress: dict[str, PendingProgress] = {}  # by tool call; cleared by any other record, to keep the order
        self.size = 0
        self.next_update = 0.0  # time before which no snapshot is written

    def add(self, line: bytes) -> None:
        if self._progress:
            self._progress.clear()
        self.items.append(line)
        self.size += len(line)

    def add_large(self, pieces: Iterator[bytes], size: int) -> None:
        """Add one record as an iterator of pieces, which must satisfy the contract of SplicedList."""
        self._progress.clear()
        self.items.append(LargeRecord(pieces, size))
        self.size += size

    def add_update(self, update: Update) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(last, Update) and last.absorb(update):
            self.size += update.weight
        else:
            self.items.append(update)
            self.size += _size(update)

    def add_progress(self, event: ToolUpdate) -> None:
        new = PendingProgress(event)
        pending = self._progress.get(event.tool_call_id)
        if pending is None:
            self._progress[event.tool_call_id] = new
            self.items.append(new)
            self.size += new.size
        else:
            self.size += new.size - pending.size
            pending.event, pending.size = new.event, new.size

    def should_delay(self) -> bool:
        """True if the only item is a snapshot that would exceed SNAPSHOT_BYTES_PER_S."""
        items = self.items
        return self.next_update > 0 and len(items) == 1 and type(items[0]) is Update and self._now() < self.next_update

    def take(self) -> bytes:
        """Take the next batch of records as bytes. Updates are encoded only here, when no more can be merged into
        them.
        """
        items = self.items
        if len(items) == 1:  # the usual case: a response, or an update
            item = items[0]
            if type(item) is bytes:
                items.popleft()
                self.size -= len(item)
                return item + b"\n"
            if not isinstance(item, LargeRecord):
                items.popleft()
                self.size -= _size(item)
                return self._line(item) + b"\n"
        lines: list[bytes] = []
        size = 0
        while self.items and size < BATCH_BYTES:
            item = self.items[0]
            if isinstance(item, LargeRecord):
                size += self._take_part(item, lines, BATCH_BYTES - size)
                continue
            self.items.popleft()
            self.size -= _size(item)
            line = self._line(item)
            lines += (line, b"\n")
            size += len(line)
        return b"".join(lines)

    def _take_part(self, record: LargeRecord, lines: list[bytes], wanted: int) -> int:
        """Take pieces of a large record, about `wanted` bytes. Removes the record after its last piece."""
        size = 0
        for piece in record.pieces:
            lines.append(piece)
            size += len(piece)
            if size >= wanted:
                return size
        lines.append(b"\n")
        self.items.popleft()
        self.size -= record.size
        return size + 1

    def _line(self, item: bytes | Update | PendingProgress) -> bytes:
        if isinstance(item, bytes):
            return item
        if isinstance(item, PendingProgress):
            if self._progress.get(item.event.tool_call_id) is item:
                del self._progress[item.event.tool_call_id]
            return event_json(item.event)
        line = item.wire_json(**self._dialect.update_options)
        if self._dialect.snapshots:
            self.next_update = self._now() + len(line) / SNAPSHOT_BYTES_PER_S
        return line


def _size(item: Item) -> int:
    if isinstance(item, bytes):
        return len(item)
    return UPDATE_OVERHEAD_BYTES + item.weight if isinstance(item, Update) else item.size
