"""Index of the user messages of a session, so that fork points are found without reading the other entries."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

from tau.core.conversation.file_lines import FileLines
from tau.records.base import BadRecord
from tau.records.entries import AnyEntry, MessageEntry
from tau.records.lines import UnknownEntry, decode_prompts, read_entry
from tau.records.messages import Text, User
from tau.records.replies import ForkPoint

BLOCK_BYTES = 512 * 1024
_USER = re.compile(rb'"role"\s*:\s*"user"')  # inside a text the quotes would be escaped


class PromptIndex:
    """Positions of entries that may be user messages, in order. Each line is searched once."""

    def __init__(self, ats: Iterable[int] = (), searched: int = 0) -> None:
        """`ats` are the positions among the first `searched` entries."""
        self._ats = array("q", ats)
        self._searched = searched

    def head(self, count: int) -> PromptIndex:
        """The index of the first `count` entries."""
        return PromptIndex([at for at in self._ats if at < count], min(count, self._searched))

    def add(self, ats: Iterable[int], first: int, last: int) -> None:
        """Add positions that were found without a search, among the entries from `first` to `last`."""
        if first == self._searched:
            self._ats.extend(ats)
            self._searched = last + 1

    def update(self, lines: FileLines) -> Sequence[int]:
        """Search the entries that were added since the last call."""
        for first, last in lines.blocks(range(self._searched, len(lines)), BLOCK_BYTES):
            self.add(lines.matching(_USER, first, last), first, last)
        return self._ats


def points_of(lines: list[bytes]) -> list[ForkPoint]:
    """The fork points of lines, without those that are not prompts or not readable."""
    if (entries := decode_prompts(lines)) is not None:
        return [ForkPoint(entry.id, _text(entry.message)) for entry in entries]
    points = []
    for line in lines:
        with suppress(BadRecord):
            if (text := prompt_text(entry := read_entry(line))) is not None:
                points.append(ForkPoint(entry.id, text))
    return points


def prompt_text(entry: AnyEntry | UnknownEntry | None) -> str | None:
    """The text of a user message, or None for another entry."""
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
        return None
    return _text(entry.message)


def _text(message: User) -> str:
    content = message.content
    return content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
