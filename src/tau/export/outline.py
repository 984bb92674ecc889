"""The structure of the session: parents, branches, and the order of the side list.

A parent counts only if it precedes the entry in the file, which holds for every file that a program wrote; otherwise
the entry is a root. So there are no cycles, and every property is computed in one pass over the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau.export import Entry, ExportedEntry
from tau.records.base import parse_stored, wire_json
from tau.records.entries import Label, MessageEntry
from tau.records.lines import UnknownEntry
from tau.records.messages import Assistant, ToolResult

NO_ENTRY = -1


class Outline:
    """Entries by index. Every entry has a unique id here; in the file, an id refers to the first entry that has it."""

    def __init__(self, entries: Sequence[ExportedEntry], leaf: str | None) -> None:
        self.entries = [_read(entry) for entry in entries]
        self.ids: list[str] = []
        index_of: dict[str, int] = {}
        for index, entry in enumerate(self.entries):
            id = _id(entry)
            id = id if id and id not in index_of else f"{id}~{index}"
            index_of[id] = index
            self.ids.append(id)
        self.parents = [self._parent(index, index_of) for index in range(len(self.entries))]
        self.children = self._children()
        self.leaf = index_of.get(leaf, NO_ENTRY) if leaf is not None else NO_ENTRY
        self.path = self._path(self.leaf)
        self.tips = self._tips()
        self.labels = self._labels(index_of)
        self.slots = self._slots()

    def _parent(self, index: int, index_of: dict[str, int]) -> int:
        parent = index_of.get(_parent_id(self.entries[index]) or "", NO_ENTRY)
        return parent if parent < index else NO_ENTRY

    def _children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.entries]
        for index, parent in enumerate(self.parents):
            if parent != NO_ENTRY:
                children[parent].append(index)
        return children

    def _path(self, leaf: int) -> list[int]:
        path = []
        while leaf != NO_ENTRY:
            path.append(leaf)
            leaf = self.parents[leaf]
        return path[::-1]

    def _tips(self) -> list[int]:
        """For each entry, the newest end of a branch that contains it."""
        tips = list(range(len(self.entries)))
        for index in range(len(tips) - 1, -1, -1):
            if (parent := self.parents[index]) != NO_ENTRY:
                tips[parent] = max(tips[parent], tips[index])
        return tips

    def _labels(self, index_of: dict[str, int]) -> dict[int, str]:
        labels: dict[int, str] = {}
        for entry in self.entries:
            if isinstance(entry, Label) and (index := index_of.get(entry.target_id)) is not None:
                labels[index] = entry.label or ""
        return {index: label for index, label in labels.items() if label}

    def _slots(self) -> dict[int, tuple[int, int]]:
        """For each tool result, the entry and the number of the call that it answers.

        The entries above an assistant message are the same on every branch that contains it, so the place of a result
        in the page is fixed.
        """
        slots: dict[int, tuple[int, int]] = {}
        calls: dict[int, dict[str, int]] = {NO_ENTRY: {}}
        above: list[int] = []  # for each entry, the nearest assistant message, itself included
        for index, entry in enumerate(self.entries):
            parent = self.parents[index]
            if answer := message_of(entry, Assistant):
                above.append(index)
                calls[index] = {call.id: number for number, call in enumerate(answer.tool_calls)}
                continue
            above.append(above[parent] if parent != NO_ENTRY else NO_ENTRY)
            result = message_of(entry, ToolResult)
            if result and (number := calls[above[index]].get(result.tool_call_id)) is not None:
                slots[index] = above[index], number
        return slots

    def order(self) -> list[tuple[int, int]]:
        """Return (entry, depth) in the order of the side list: at a fork the side branches come first, indented by
        one.

        The branch that is shown, or else the newest one, continues without indentation, so that the list stays narrow
        however long the session is.
        """
        shown = set(self.path)
        ordered = []
        stack = [(index, 0) for index, parent in enumerate(self.parents) if parent == NO_ENTRY][::-1]
        while stack:
            index, depth = stack.pop()
            ordered.append((index, depth))
            children = self.children[index]
            if len(children) == 1:
                stack.append((children[0], depth))
            elif children:
                main = max(children, key=lambda child: (child in shown, self.tips[child]))
                stack.append((main, depth))
                stack += [(child, depth + 1) for child in reversed(children) if child != main]
        return ordered


def _read(entry: ExportedEntry) -> Entry:
    if not isinstance(entry, UnknownEntry):
        return entry
    value = parse_stored(wire_json(entry))
    return value if isinstance(value, dict) else {}


def message_of(entry: Entry, kind: type[Any]) -> Any:
    """Return the message of an entry if it is of this kind, else None."""
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
