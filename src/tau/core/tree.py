"""A session's entries as a tree, and what the model sees of it.

Entries are only ever added. The leaf is where the next one goes; a branch is the
way from a root to the leaf. All walks are loops with a memory of where they
have been, because a file may hold a circle or a branch of a million entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tau.records.base import encode, wire
from tau.records.entries import (
    AnyEntry,
    BranchSummaryEntry,
    CompactionEntry,
    CustomMessageEntry,
    Label,
    MessageEntry,
    SessionInfo,
)
from tau.records.messages import (
    AnyMessage,
    BranchSummary,
    CompactionSummary,
    Custom,
    Text,
    User,
)
from tau.records.replies import ForkPoint

T = TypeVar("T")


class Tree:
    def __init__(self, entries: Iterable[AnyEntry] = ()) -> None:
        self._entries: dict[str, AnyEntry] = {}
        self.leaf: str | None = None
        for entry in entries:
            self.add(entry)

    def add(self, entry: AnyEntry) -> None:
        self._entries[entry.id] = entry
        self.leaf = entry.id

    def __contains__(self, id: str) -> bool:
        return id in self._entries

    def __iter__(self) -> Iterator[AnyEntry]:
        return iter(self._entries.values())

    def get(self, id: str) -> AnyEntry | None:
        return self._entries.get(id)

    def after(self, id: str | None) -> list[AnyEntry]:
        """Entries in the order they were added, all or those after `id`."""
        entries = list(self._entries.values())
        if id is None:
            return entries
        return entries[list(self._entries).index(id) + 1 :]

    def path(self, leaf: str | None) -> list[AnyEntry]:
        """From the root to `leaf`."""
        way, seen = [], set()
        while leaf is not None and leaf not in seen and (entry := self._entries.get(leaf)):
            seen.add(leaf)
            way.append(entry)
            leaf = entry.parent_id
        return way[::-1]

    @property
    def branch(self) -> list[AnyEntry]:
        return self.path(self.leaf)

    @property
    def name(self) -> str | None:
        names = [entry.name for entry in self._entries.values() if isinstance(entry, SessionInfo) and entry.name]
        return names[-1] if names else None

    def fork_points(self) -> list[ForkPoint]:
        return [ForkPoint(entry.id, text) for entry in self.branch if (text := prompt_text(entry)) is not None]

    def json(self) -> bytes:
        """The whole tree as clients get it: entries with their children and labels.

        Written piece by piece and not as nested values: a branch may be deeper than any recursion.
        """
        labels = {entry.target_id: entry for entry in self._entries.values() if isinstance(entry, Label)}
        children: dict[str | None, list[str]] = {}
        for id, entry in self._entries.items():
            known = entry.parent_id in self._entries and entry.parent_id != id
            children.setdefault(entry.parent_id if known else None, []).append(id)
        return nested(
            children.get(None, []), lambda id: self._node(id, labels.get(id)), lambda id: children.get(id, [])
        )

    def _node(self, id: str, label: Label | None) -> bytes:
        entry = b'{"entry":%b' % wire(self._entries[id])
        if label is None or not label.label:
            return entry
        return entry + b',"label":%b,"labelTimestamp":%b' % (encode(label.label), encode(label.timestamp))


def nested(roots: list[T], node: Callable[[T], bytes], children: Callable[[T], list[T]]) -> bytes:
    """A forest as JSON: `node` gives the beginning of each object, without its children."""
    pieces = [b"["]
    path = [iter(roots)]
    first = True
    while path:
        one = next(path[-1], None)
        if one is None:
            path.pop()
            pieces.append(b"]}" if path else b"]")
            first = False
            continue
        pieces += (b"" if first else b",", node(one), b',"children":[')
        path.append(iter(children(one)))
        first = True
    return b"".join(pieces)


def context(branch: list[AnyEntry]) -> list[AnyMessage]:
    """The messages of a branch: a compaction's summary stands for what came before it."""
    at = next((i for i in range(len(branch) - 1, -1, -1) if isinstance(branch[i], CompactionEntry)), None)
    if at is None:
        return _messages(branch)
    compaction = branch[at]
    assert isinstance(compaction, CompactionEntry)
    kept = next((i for i, entry in enumerate(branch[:at]) if entry.id == compaction.first_kept_entry_id), at)
    summary = CompactionSummary(compaction.summary, compaction.tokens_before)
    return [summary, *_messages(branch[kept:at]), *_messages(branch[at + 1 :])]


def _messages(entries: Iterable[AnyEntry]) -> list[AnyMessage]:
    return [message for entry in entries if (message := _message(entry)) is not None]


def _message(entry: AnyEntry) -> AnyMessage | None:
    match entry:
        case MessageEntry():
            return entry.message
        case CustomMessageEntry():
            return Custom(entry.custom_type, entry.content, entry.display, entry.details)
        case BranchSummaryEntry(summary=summary) if summary:
            return BranchSummary(summary, entry.from_id)
    return None


def prompt_text(entry: AnyEntry | None) -> str | None:
    """The text of a user's message, or None if the entry is none."""
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, User):
        return None
    content = entry.message.content
    return content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
