"""Index of the user messages of a session, so that fork points are found without reading the other entries."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tau.core.conversation.file_lines import FileLines
from tau.records.base import BadRecord, encode
from tau.records.entries import AnyEntry, MessageEntry
from tau.records.lines import ForkPoint, UnknownEntry, prompt_points, read_entry
from tau.records.messages import Text, User

BLOCK_BYTES = 512 * 1024
KEPT_BYTES = 4 * 1024 * 1024  # fork points that are kept in memory
KEPT_POINT_BYTES = 16 * 1024  # a longer one is made again
POINTS_AT_ONCE = 512
_USER = rb'"role"\s*:\s*"user"'  # inside a text the quotes would be escaped


class PromptIndex:
    """Positions of the user messages, in order, and their fork points as JSON.

    The entries of a file are added while it is read, with the first few megabytes of fork points. Entries that are
    appended later are searched once; some of these may not be user messages.
    """

    def __init__(self) -> None:
        self._ats = array("q")
        self._points: list[bytes] = []  # one for each position; empty if it has to be made again
        self._room = KEPT_BYTES
        self._searched = 0  # number of entries that were searched

    def head(self, count: int) -> PromptIndex:
        """The index of the first `count` entries."""
        head = PromptIndex()
        number = self._count_before(count)
        head._ats, head._points, head._room = self._ats[:number], self._points[:number], self._room
        head._searched = min(count, self._searched)
        return head

    def add(self, ats: Sequence[int], lines: Sequence[bytes], searched: int) -> None:
        """Add the user messages among these positions and lines; `searched` is the number of entries up to the last."""
        points = points_of(lines)
        sizes = [len(point) for point in points]
        self._searched = searched
        if sizes and min(sizes) > 0 and max(sizes) <= KEPT_POINT_BYTES and (size := sum(sizes)) <= self._room:
            self._ats.extend(ats)
            self._points += points
            self._room -= size
            return
        for at, point in zip(ats, points, strict=True):
            if point:
                is_kept = len(point) <= min(KEPT_POINT_BYTES, self._room)
                self._ats.append(at)
                self._points.append(point if is_kept else b"")
                self._room -= len(point) if is_kept else 0

    def update(self, lines: FileLines) -> None:
        """Search the entries that were added since the last call."""
        for first, last in lines.blocks(range(self._searched, len(lines)), BLOCK_BYTES):
            ats = list(lines.matching(re.compile(_USER), first, last))
            self._ats.extend(ats)
            self._points += [b""] * len(ats)
            self._searched = last + 1

    def _count_before(self, entry: int) -> int:
        """The number of positions below `entry`."""
        if not self._ats or self._ats[-1] < entry:  # nearly always
            return len(self._ats)
        return sum(at < entry for at in self._ats)

    def points(self, lines: FileLines) -> Iterator[bytes]:
        """Yield the fork points."""
        for start in range(0, len(self._ats), POINTS_AT_ONCE):
            some = range(start, min(start + POINTS_AT_ONCE, len(self._ats)))
            missing = [self._ats[place] for place in some if not self._points[place]]
            made = iter(points_of(list(lines.pick(missing))) if missing else ())
            yield from filter(None, (self._points[place] or next(made) for place in some))


def may_be_prompt(line: bytes) -> bool:
    """True if the entry in this line may be a user message. A line of the usual form is not searched to its end."""
    at = line.find(b"{", 1)
    if line.startswith(b'{"role":"', at) and line.endswith(b',"message":', 0, at):
        return line.startswith(b'"user"', at + 8)
    return b'"user"' in line


def points_of(lines: Sequence[bytes]) -> list[bytes]:
    """The fork point of each line as JSON; empty if it is not a prompt, or not readable."""
    if (points := prompt_points(lines)) is not None:
        return points
    return [_point_of(line) for line in lines]


def _point_of(line: bytes) -> bytes:
    with suppress(BadRecord):
        if (text := prompt_text(entry := read_entry(line))) is not None:
            return encode(ForkPoint(entry.id, text))
    return b""


def prompt_text(entry: AnyEntry | UnknownEntry | None) -> str | None:
    """The text of a user message, or None for another entry."""
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
        return None
    content = entry.message.content
    return content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
