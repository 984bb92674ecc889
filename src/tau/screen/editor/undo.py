"""Undo and redo: groups of edits with the cursor before and after each group."""

from __future__ import annotations

from tau.screen.editor.buffer import Buffer, Edit, Position

MAX_GROUPS = 1000
MAX_CHARS = 32 * 1024 * 1024  # of the texts in all groups


class Group:
    __slots__ = ("after", "before", "edits")

    def __init__(self, before: Position, after: Position) -> None:
        self.before, self.after = before, after
        self.edits: list[Edit] = []


class UndoLog:
    def __init__(self) -> None:
        self._done: list[Group] = []
        self._undone: list[Group] = []
        self._chars = 0

    def record(self, edit: Edit, before: Position, after: Position, *, join: bool) -> None:
        """Add an edit: to the newest group with `join`, else as a group of its own."""
        self._undone.clear()
        if not join or not self._done:
            self._done.append(Group(before, after))
        group = self._done[-1]
        group.edits.append(edit)
        group.after = after
        self._chars += _size(edit)
        while len(self._done) > MAX_GROUPS or (self._chars > MAX_CHARS and len(self._done) > 1):
            self._chars -= sum(map(_size, self._done.pop(0).edits))

    def undo(self, buffer: Buffer) -> Position | None:
        """Revert the newest group; return where the cursor was, or None if there is nothing to undo."""
        if not self._done:
            return None
        group = self._done.pop()
        for edit in reversed(group.edits):
            buffer.revert(edit)
        self._undone.append(group)
        return group.before

    def redo(self, buffer: Buffer) -> Position | None:
        if not self._undone:
            return None
        group = self._undone.pop()
        for edit in group.edits:
            buffer.apply(edit)
        self._done.append(group)
        return group.after


def _size(edit: Edit) -> int:
    return len(edit.removed) + len(edit.inserted)
