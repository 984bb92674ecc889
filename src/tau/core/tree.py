"""A session's entries as a tree, and what the model sees of it.

Entries are only ever added. The leaf is where the next one goes; a branch is the
way from a root to the leaf. All walks are loops with a memory of where they
have been, because a file may hold a circle or a branch of a million entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tau.records.base import Raw, wire
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

    def nodes(self) -> list[dict[str, Any]]:
        """The whole tree as clients get it: entries with their children and labels."""
        labels = {entry.target_id: entry for entry in self._entries.values() if isinstance(entry, Label)}
        nodes: dict[str, dict[str, Any]] = {}
        roots: list[dict[str, Any]] = []
        for id, entry in self._entries.items():
            node: dict[str, Any] = {"entry": shown(entry), "children": []}
            nodes[id] = node
            if (label := labels.get(id)) and label.label:
                node |= {"label": label.label, "labelTimestamp": label.timestamp}
        for id, entry in self._entries.items():
            parent = nodes.get(entry.parent_id or "") if entry.parent_id != id else None
            (parent["children"] if parent else roots).append(nodes[id])
        return roots


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


def shown(entry: AnyEntry) -> Raw:
    return Raw(wire(entry))
