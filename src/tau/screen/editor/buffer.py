"""The text of the editor: a list of lines, changed only by `replace`, whose edits can be reverted.

The cost of an edit is that of the lines it touches. A column is an offset in code points.
"""

from __future__ import annotations

from typing import NamedTuple

from tau.records.base import Value


class Position(NamedTuple):
    line: int
    column: int


class Edit(Value):
    """`removed` stood from `start` on and was replaced by `inserted`."""

    start: Position
    removed: str
    inserted: str


def end_of(start: Position, text: str) -> Position:
    """The position after a text that begins at `start`."""
    lines = text.count("\n")
    if not lines:
        return Position(start.line, start.column + len(text))
    return Position(start.line + lines, len(text) - text.rfind("\n") - 1)


class Change(Value):
    """Lines that an edit replaced: from `first` on, `removed` lines by `added` ones."""

    first: int
    removed: int
    added: int


class Buffer:
    def __init__(self) -> None:
        self.lines = [""]
        self.edits = 0  # how many there were
        self.last_change = Change(0, 0, 0)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def end(self) -> Position:
        return Position(len(self.lines) - 1, len(self.lines[-1]))

    @property
    def empty(self) -> bool:
        return len(self.lines) == 1 and not self.lines[0]

    def between(self, start: Position, end: Position) -> str:
        if start.line == end.line:
            return self.lines[start.line][start.column : end.column]
        first = self.lines[start.line][start.column :]
        return "\n".join([first, *self.lines[start.line + 1 : end.line], self.lines[end.line][: end.column]])

    def replace(self, start: Position, end: Position, text: str) -> Edit:
        removed = self.between(start, end)
        before, after = self.lines[start.line][: start.column], self.lines[end.line][end.column :]
        new = text.split("\n")
        new[0] = before + new[0]
        new[-1] += after
        self.lines[start.line : end.line + 1] = new
        self.edits += 1
        self.last_change = Change(start.line, end.line + 1 - start.line, len(new))
        return Edit(start, removed, text)

    def revert(self, edit: Edit) -> None:
        self.replace(edit.start, end_of(edit.start, edit.inserted), edit.removed)

    def apply(self, edit: Edit) -> None:
        self.replace(edit.start, end_of(edit.start, edit.removed), edit.inserted)
