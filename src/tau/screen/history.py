"""Prompts that were sent, for Up and Down in the editor. Oldest first; the text that was being written is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tau.records.base import Value
from tau.screen.fuzzy import fuzzy_rank

MAX_ENTRIES = 1000
MAX_SEARCHED = 1000  # characters of an entry


class HistoryEntry(Value):
    """`pastes` are the parts of the text, as (start, end), that stood in the editor as markers."""

    text: str
    pastes: tuple[tuple[int, int], ...] = ()


class History:
    """`newer` returns the entries of a file that other processes write too, if it has changed."""

    def __init__(
        self,
        entries: Iterable[HistoryEntry] = (),
        newer: Callable[[], Sequence[HistoryEntry] | None] = lambda: None,
    ) -> None:
        self._newer = newer
        self._entries: list[HistoryEntry] = []
        self._index: int | None = None  # the entry that is shown; None while the person's own text is
        self._draft = HistoryEntry("")
        for entry in entries:
            self.add(entry)

    @property
    def entries(self) -> tuple[HistoryEntry, ...]:
        return tuple(self._entries)

    @property
    def browsing(self) -> bool:
        return self._index is not None

    def add(self, entry: HistoryEntry) -> bool:
        """Add a prompt, unless it is blank or equals the newest; stop browsing. True if it was added."""
        self.stop()
        if not entry.text.strip() or (self._entries and self._entries[-1].text == entry.text):
            return False
        self._entries.append(entry)
        del self._entries[:-MAX_ENTRIES]
        return True

    def replace(self, entries: Iterable[HistoryEntry]) -> None:
        """Take over the entries of a file that other processes write too. Not while browsing."""
        if not self.browsing:
            self._entries = list(entries)[-MAX_ENTRIES:]

    def previous(self, draft: HistoryEntry) -> HistoryEntry | None:
        """The entry before the one that is shown; `draft` comes back after the newest. None at the oldest."""
        if self._index is None and (newer := self._newer()) is not None:
            unsaved = [entry for entry in self._entries[-1:] if entry not in newer]
            self.replace([*newer, *unsaved])
        if self._index == 0 or not self._entries:
            return None
        if self._index is None:
            self._draft = draft
            self._index = len(self._entries)
        self._index -= 1
        return self._entries[self._index]

    def next(self) -> HistoryEntry | None:
        """The entry after the one that is shown, then the draft. None if no entry is shown."""
        if self._index is None:
            return None
        self._index += 1
        if self._index < len(self._entries):
            return self._entries[self._index]
        self._index = None
        return self._draft

    def search(self, query: str, limit: int = 50) -> list[HistoryEntry]:
        """Entries that match a query, best first; without one, the newest first."""
        return fuzzy_rank(query, reversed(self._entries), lambda entry: entry.text[:MAX_SEARCHED], limit)

    def stop(self) -> None:
        """What is in the editor now is the person's own text."""
        self._index = None
