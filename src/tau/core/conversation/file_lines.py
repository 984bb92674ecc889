"""Lines of a session file, read on demand: there may be a million."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from re import Pattern
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class LineSource(Protocol):
        """Random access to bytes that were read once and may be read again."""

        def read(self, start: int, end: int) -> bytes: ...

        def pick(self, start: int, end: int) -> bytes:
            """The same for bytes that are far from those that are read before and after."""


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = data

    def read(self, start: int, end: int) -> bytes:
        return self._data[start:end]

    pick = read


class FileLines:
    """The lines of a file by number. They are read from the source on access; appended lines are kept in memory."""

    def __init__(self, source: LineSource | None = None, starts: Sequence[int] = (), ends: Sequence[int] = ()) -> None:
        self._source = source or BytesSource()
        self._starts = array("Q", starts)
        self._ends = array("Q", ends)
        self._added: list[bytes] = []
        self._added_size = 0

    def __len__(self) -> int:
        return len(self._starts) + len(self._added)

    def __getitem__(self, at: int) -> bytes:
        read = len(self._starts)
        if at >= read:
            return self._added[at - read]
        return self._source.read(self._starts[at], self._ends[at])

    def pick(self, ats: Iterable[int]) -> list[bytes]:
        """Lines that are far apart. What is between them is not read."""
        read, starts, ends, pick = len(self._starts), self._starts, self._ends, self._source.pick
        return [pick(starts[at], ends[at]) if at < read else self._added[at - read] for at in ats]

    def append(self, line: bytes) -> None:
        self._added.append(line)
        self._added_size += len(line)

    def block(self, first: int, last: int) -> bytes:
        """Consecutive lines as one string; all of them from the source, or all appended."""
        read = len(self._starts)
        if first >= read:
            return b"\n".join(self._added[first - read : last + 1 - read])
        return self._source.read(self._starts[first], self._ends[last])

    def matching(self, pattern: Pattern[bytes], first: int, last: int) -> Iterator[int]:
        """The numbers of the lines of a block that match `pattern`. The others are not even split."""
        read = len(self._starts)
        if first >= read:
            yield from (at for at in range(first, last + 1) if pattern.search(self._added[at - read]))
            return
        from bisect import bisect_left

        block, offset, previous = self.block(first, last), self._starts[first], -1
        for found in pattern.finditer(block):
            at = bisect_left(self._ends, offset + found.start(), first, last)
            if at != previous:
                yield at
            previous = at

    def head(self, count: int) -> FileLines:
        """The first `count` lines, from the same source."""
        some = FileLines(self._source, self._starts[:count], self._ends[:count])
        for line in self._added[: max(0, count - len(self._starts))]:
            some.append(line)
        return some

    def blocks(self, ats: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
        """Group `ats` into contiguous blocks of about `size` bytes; yields the first and last line of each."""
        read, first, last, room_left, next_start = len(self._starts), -1, -1, 0, -1
        for at in ats:
            start, end = (self._starts[at], self._ends[at]) if at < read else (at, at + len(self._added[at - read]))
            room_left -= end - start
            if room_left < 0 or at != last + 1 or at == read or (at < read and start != next_start):
                if first >= 0:
                    yield first, last
                first, room_left = at, size
            last, next_start = at, end + 1
        if first >= 0:
            yield first, last

    def span(self, first: int, last: int) -> int:
        """Number of bytes from one line to another, not counting appended lines."""
        read = len(self._starts)
        return self._ends[min(last, read - 1)] - self._starts[first] if first < read else 0

    @property
    def size(self) -> int:
        return (self._ends[-1] if self._ends else 0) + self._added_size
