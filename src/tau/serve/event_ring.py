"""The ring of a stream: its newest records, numbered 1, 2, 3 ..., within a budget of bytes. Pure.

It is the only buffer of a stream. Clients are cursors into it: the number of the last record that they have. A slow
client costs nothing that is not here anyway, and resuming after a lost connection is the same as being slow.

Two kinds of records can be merged, and only when a client that is behind reads them: pieces of one block, whose texts
are joined, and the progress of one tool call, of which only the last is kept. A merged record has the number of its
last part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, Protocol, Self, TypeVar, cast

COMPACT_AT = 1024  # dropped records after which the lists are shortened


class Piece(Protocol):
    """A record that can absorb the next one of the same block; `copy` protects the one that other clients will read."""

    def copy(self) -> Self: ...

    def joins(self, later: Self, /) -> bool: ...

    def absorb(self, later: Self, /) -> bool: ...


T = TypeVar("T")


class Numbered(NamedTuple, Generic[T]):
    """A record with its number; for merged records, the number of the last."""

    seq: int
    item: T


class EventRing(Generic[T]):
    """`piece` is the type of records that can be joined."""

    def __init__(self, piece: type[object]) -> None:
        self._piece = piece
        self._items: list[T | None] = []  # None: progress that was replaced by newer progress
        self._weights: list[int] = []
        self._dropped = 0  # records at the beginning of the lists that are not kept any more
        self._latest: dict[str, int] = {}  # number of the latest progress, by tool call
        self.first = 1  # number of the oldest record that is kept
        self.last = 0
        self.last_break = 0  # number of the last record that cannot be joined to the one before it
        self.size = 0  # bytes

    def append(self, item: T, weight: int, progress_of: str | None = None) -> int:
        """Add a record and return its number. `progress_of`: it replaces earlier progress of this call."""
        if not self._can_join(self._items[-1] if self._items else None, item):
            self.last_break = self.last + 1
        self.last += 1
        self._items.append(item)
        self._weights.append(weight)
        self.size += weight
        if progress_of is not None:
            self._replace(self._latest.get(progress_of))
            self._latest[progress_of] = self.last
        return self.last

    def end_progress(self, call: str) -> None:
        """There is no more progress of a call."""
        self._latest.pop(call, None)

    def reaches(self, after: int) -> bool:
        """True if every record after this number is here."""
        return self.first - 1 <= after <= self.last

    def read(self, after: int, upto: int, max_joined: int | None = None) -> Iterator[Numbered[T]]:
        """The records after `after`, up to `upto`, with those merged that can be. `reaches(after)` must be true.

        A joined record is not larger than `max_joined` bytes.
        """
        held: T | None = None
        joined = 0  # bytes of `held`
        held_seq, own = after, False  # own: `held` is a copy, which may absorb
        offset = self._dropped - self.first
        for seq in range(after + 1, upto + 1):
            item = self._items[offset + seq]
            if item is None:
                continue
            weight = self._weights[offset + seq]
            if self._can_join(held, item) and (max_joined is None or joined + weight <= max_joined):
                joined += weight
                if not own:
                    held, own = cast("T", cast("Piece", held).copy()), True
                cast("Piece", held).absorb(cast("Piece", item))
                held_seq = seq
                continue
            if held is not None:
                yield Numbered(held_seq, held)
            held, held_seq, own, joined = item, seq, False, weight
        if held is not None:
            yield Numbered(held_seq, held)

    def trim(self, limit: int, keep_after: int | None = None, keep_last: int = 0) -> None:
        """Drop the oldest records until the size is within `limit`, but none after `keep_after`, nor the last few."""
        stop = self.last - keep_last if keep_after is None else min(keep_after, self.last - keep_last)
        while self.size > limit and self.first <= stop:
            self.size -= self._weights[self._dropped]
            self._items[self._dropped] = None
            self._dropped += 1
            self.first += 1
        if self._dropped >= COMPACT_AT and self._dropped * 2 >= len(self._items):
            del self._items[: self._dropped], self._weights[: self._dropped]
            self._dropped = 0

    def weight_after(self, after: int) -> int:
        """Bytes of the records after a number."""
        start = self._dropped + max(0, after + 1 - self.first)
        return sum(self._weights[start:])

    def _can_join(self, before: T | None, item: T) -> bool:
        both = isinstance(item, self._piece) and type(before) is type(item)
        return both and cast("Piece", before).joins(cast("Piece", item))

    def _replace(self, seq: int | None) -> None:
        if seq is not None and seq >= self.first:
            at = self._dropped + seq - self.first
            self.size -= self._weights[at]
            self._weights[at] = 0
            self._items[at] = None
