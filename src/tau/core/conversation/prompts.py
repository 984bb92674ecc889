"""Index of the user messages of a session, so that fork points are found without reading the other entries."""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress

from tau.core.conversation.file_lines import FileLines
from tau.records.base import BadRecord, encode
from tau.records.entries import AnyEntry, MessageEntry
from tau.records.lines import UnknownEntry, prompt_points, read_entry
from tau.records.messages import Text, User
from tau.records.replies import ForkPoint

BLOCK_BYTES = 512 * 1024
KEPT_BYTES = 4 * 1024 * 1024  # lines of prompts that are kept in memory
KEPT_LINE_BYTES = 16 * 1024  # a longer one has attachments and is read again
LINES_AT_ONCE = 512
_USER = rb'"role"\s*:\s*"user"'  # inside a text the quotes would be escaped


class PromptIndex:
    """Positions of entries that may be user messages, in order.

    The entries of a file are added while it is read, with the lines of the first few megabytes of prompts. Entries
    that are appended later are searched once.
    """

    def __init__(self) -> None:
        self._ats = array("q")
        self._lines: list[bytes] = []  # one for each position; empty if it has to be read again
        self._room = KEPT_BYTES
        self._searched = 0  # number of entries that were searched

    def head(self, count: int) -> PromptIndex:
        """The index of the first `count` entries."""
        head = PromptIndex()
        number = sum(at < count for at in self._ats)
        head._ats, head._lines, head._room = self._ats[:number], self._lines[:number], self._room
        head._searched = min(count, self._searched)
        return head

    def add(self, ats: Sequence[int], lines: Iterable[bytes], searched: int) -> None:
        """Add the positions and lines of the user messages among all entries up to `searched`."""
        self._ats.extend(ats)
        for line in lines:
            is_kept = len(line) <= min(KEPT_LINE_BYTES, self._room)
            self._lines.append(line if is_kept else b"")
            self._room -= len(line) if is_kept else 0
        self._searched = searched

    def update(self, lines: FileLines) -> None:
        """Search the entries that were added since the last call."""
        for first, last in lines.blocks(range(self._searched, len(lines)), BLOCK_BYTES):
            ats = list(lines.matching(re.compile(_USER), first, last))
            self.add(ats, [b""] * len(ats), last + 1)

    def lines(self, among: Container[int], lines: FileLines) -> Iterator[list[bytes]]:
        """Yield the lines of the positions that are in `among`, some at a time. Those that are not kept are read."""
        places = [place for place, at in enumerate(self._ats) if at in among]
        for start in range(0, len(places), LINES_AT_ONCE):
            some = places[start : start + LINES_AT_ONCE]
            found = [self._lines[place] for place in some]
            if not all(found):
                read = iter(lines.pick([self._ats[place] for place in some if not self._lines[place]]))
                found = [line or next(read) for line in found]
            yield found


def may_be_prompt(line: bytes) -> bool:
    """True if the entry in this line may be a user message. A line of the usual form is not searched to its end."""
    at = line.find(b"{", 1)
    if line.startswith(b'{"role":"', at) and line.endswith(b',"message":', 0, at):
        return line.startswith(b'"user"', at + 8)
    return b'"user"' in line


def points_of(lines: list[bytes]) -> list[ForkPoint]:
    """The fork points of lines, without those that are not prompts or not readable."""
    points = []
    for line in lines:
        with suppress(BadRecord):
            if (text := prompt_text(entry := read_entry(line))) is not None:
                points.append(ForkPoint(entry.id, text))
    return points


def points_json(lines: list[bytes]) -> bytes:
    """The same as JSON objects that are separated by commas."""
    return found if (found := prompt_points(lines)) is not None else encode(points_of(lines))[1:-1]


def prompt_text(entry: AnyEntry | UnknownEntry | None) -> str | None:
    """The text of a user message, or None for another entry."""
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
        return None
    content = entry.message.content
    return content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
