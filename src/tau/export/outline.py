"""Where every entry stands: its parent, its branch, its place in the list at the side.

A parent counts only if it stands earlier in the file, which is so in every file
that a program wrote; anything else makes an entry a root. So there are no
circles, and every question is answered by one walk along the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau.export import Entry, Given
from tau.records.base import parse_stored, wire
from tau.records.entries import Label, MessageEntry
from tau.records.lines import OtherEntry
from tau.records.messages import Assistant, ToolResult

NONE = -1


class Outline:
    """Entries by number. Here every one has an id of its own; in the file, an id means the first that has it."""

    def __init__(self, given: Sequence[Given], leaf: str | None) -> None:
        self.entries = [_read(entry) for entry in given]
        self.ids: list[str] = []
        number: dict[str, int] = {}
        for at, entry in enumerate(self.entries):
            id = _id(entry)
            id = id if id and id not in number else f"{id}~{at}"
            number[id] = at
            self.ids.append(id)
        self.parents = [self._parent(at, number) for at in range(len(self.entries))]
        self.children = self._children()
        self.leaf = number.get(leaf, NONE) if leaf is not None else NONE
        self.path = self._path(self.leaf)
        self.tips = self._tips()
        self.labels = self._labels(number)
        self.slots = self._slots()

    def _parent(self, at: int, number: dict[str, int]) -> int:
        parent = number.get(_parent_id(self.entries[at]) or "", NONE)
        return parent if parent < at else NONE

    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.entries]
        for at, parent in enumerate(self.parents):
            if parent != NONE:
                children[parent].append(at)
        return children

    def _path(self, leaf: int) -> list[int]:
        way = []
        while leaf != NONE:
            way.append(leaf)
            leaf = self.parents[leaf]
        return way[::-1]

    def _tips(self) -> list[int]:
        """For each entry the newest end of a branch that it is on."""
        tips = list(range(len(self.entries)))
        for at in range(len(tips) - 1, -1, -1):
            if (parent := self.parents[at]) != NONE:
                tips[parent] = max(tips[parent], tips[at])
        return tips

    def _labels(self, number: dict[str, int]) -> dict[int, str]:
        labels: dict[int, str] = {}
        for entry in self.entries:
            if isinstance(entry, Label) and (at := number.get(entry.target_id)) is not None:
                labels[at] = entry.label or ""
        return {at: label for at, label in labels.items() if label}

    def _slots(self) -> dict[int, tuple[int, int]]:
        """For each tool result the entry and the number of the call that it answers.

        The answer's entries above are the same on every branch that it is on, so
        its place in the page is fixed.
        """
        slots: dict[int, tuple[int, int]] = {}
        calls: dict[int, dict[str, int]] = {NONE: {}}
        above: list[int] = []  # for each entry the nearest answer of a model, itself included
        for at, entry in enumerate(self.entries):
            parent = self.parents[at]
            if answer := message(entry, Assistant):
                above.append(at)
                calls[at] = {call.id: number for number, call in enumerate(answer.tool_calls)}
                continue
            above.append(above[parent] if parent != NONE else NONE)
            result = message(entry, ToolResult)
            if result and (number := calls[above[at]].get(result.tool_call_id)) is not None:
                slots[at] = above[at], number
        return slots

    def order(self) -> list[tuple[int, int]]:
        """(entry, depth) as the list at the side shows them: at a fork first the side branches, one step in.

        The branch that is shown, or else the newest, goes on without a step, so
        that the list stays narrow however long the session is.
        """
        shown = set(self.path)
        ordered = []
        ahead = [(at, 0) for at, parent in enumerate(self.parents) if parent == NONE][::-1]
        while ahead:
            at, depth = ahead.pop()
            ordered.append((at, depth))
            below = self.children[at]
            if below:
                main = max(below, key=lambda child: (child in shown, self.tips[child]))
                ahead.append((main, depth))
                ahead += [(child, depth + 1) for child in reversed(below) if child != main]
        return ordered


def _read(given: Given) -> Entry:
    if not isinstance(given, OtherEntry):
        return given
    value = parse_stored(wire(given))
    return value if isinstance(value, dict) else {}


def message(entry: Entry, kind: type[Any]) -> Any:
    """The message of an entry if it is of this kind."""
    return entry.message if isinstance(entry, MessageEntry) and isinstance(entry.message, kind) else None


def time_of(entry: Entry) -> str:
    timestamp = entry.get("timestamp") if isinstance(entry, dict) else entry.timestamp
    return timestamp if isinstance(timestamp, str) else ""


def _id(entry: Entry) -> str:
    id = entry.get("id") if isinstance(entry, dict) else entry.id
    return id if isinstance(id, str) else ""


def _parent_id(entry: Entry) -> str | None:
    parent = entry.get("parentId") if isinstance(entry, dict) else entry.parent_id
    return parent if isinstance(parent, str) else None
