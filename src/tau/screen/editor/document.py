"""Text with a cursor, undo and a kill ring: everything about editing that does not depend on how the text is shown."""

from __future__ import annotations

from typing import Literal

from tau.screen.editor import motion
from tau.screen.editor.buffer import Buffer, Edit, Position, end_of
from tau.screen.editor.kill_ring import KillRing
from tau.screen.editor.undo import UndoLog

START = Position(0, 0)

# What the last action was, as far as the next one depends on it.
Action = Literal["", "type", "space", "delete", "kill", "yank"]


class Document:
    """The cursor is always at the edge of a grapheme cluster."""

    def __init__(self) -> None:
        self.buffer = Buffer()
        self.cursor = START
        self.version = 0  # changes with the text
        self.kills = KillRing()
        self._undo = UndoLog()
        self._last: Action = ""
        self._killed_at = START
        self._yanked = Edit(START, "", "")

    @property
    def lines(self) -> list[str]:
        return self.buffer.lines

    @property
    def line(self) -> str:
        return self.buffer.lines[self.cursor.line]

    # Changes

    def type(self, text: str) -> None:
        """Insert typed text. A word is undone together with the space before it."""
        kind: Action = "space" if text.isspace() else "type"
        join = text != "\n" and self._last in ((kind, "space") if kind == "type" else (kind,))
        self._replace(self.cursor, self.cursor, text, kind, join=join)

    def insert(self, text: str) -> None:
        """Insert text that is undone on its own."""
        self._replace(self.cursor, self.cursor, text)

    def replace_around_cursor(self, before: int, text: str, after: int = 0) -> None:
        """Replace that many characters before and after the cursor in its line."""
        line, column = self.cursor
        start = Position(line, max(column - before, 0))
        self._replace(start, Position(line, min(column + after, len(self.line))), text)

    def set_text(self, text: str) -> None:
        """Replace everything; the cursor goes to the end."""
        if text != self.buffer.text:
            self._replace(START, self.buffer.end, text)
        self.move(self.buffer.end)

    def delete(self, start: Position, end: Position) -> None:
        """Delete a character. Deletions that follow each other are undone by word."""
        if removed := self.buffer.between(start, end):
            join = self._last == "delete" and not removed.isspace()
            self._replace(start, end, "", "delete", join=join)

    def kill(self, start: Position, end: Position, *, backward: bool) -> None:
        """Delete text and put it into the kill ring."""
        if removed := self.buffer.between(start, end):
            self.kills.add(removed, backward=backward, join=self._last == "kill")
            self._killed_at = self._replace(start, end, "", "kill").start

    def kill_to_line_start(self) -> None:
        """At the beginning of a line: the line break before it."""
        start = Position(self.cursor.line, 0) if self.cursor.column else self.before()
        self.kill(start, self.cursor, backward=True)

    def kill_to_line_end(self) -> None:
        """At the end of a line: the line break after it."""
        end = self.line_end()
        self.kill(self.cursor, end if end != self.cursor else self.after(), backward=False)

    def yank(self) -> None:
        """Insert the newest kill. Directly after it, where it stood: the cursor cannot stay inside a cluster that the
        kill has joined."""
        if text := self.kills.newest:
            at = self._killed_at if self._last == "kill" else self.cursor
            self._yanked = self._replace(at, at, text, "yank")

    def yank_pop(self) -> None:
        """Directly after a yank: replace what it inserted by the kill before it."""
        if self._last == "yank" and len(self.kills) > 1:
            start, end = self._yanked.start, end_of(self._yanked.start, self._yanked.inserted)
            self._yanked = self._replace(start, end, self.kills.rotate(), "yank", join=True)

    def undo(self) -> None:
        self._restore(self._undo.undo(self.buffer))

    def redo(self) -> None:
        self._restore(self._undo.redo(self.buffer))

    def reset(self) -> None:
        """Empty the document and forget what can be undone. The kill ring stays."""
        self.buffer = Buffer()
        self._undo = UndoLog()
        self.version += 1
        self.move(START)

    def _replace(self, start: Position, end: Position, text: str, kind: Action = "", *, join: bool = False) -> Edit:
        before = self.cursor
        edit = self.buffer.replace(start, end, text)
        self.move(end_of(start, text))
        self._undo.record(edit, before, self.cursor, join=join)
        self._last = kind
        self.version += 1
        return edit

    def _restore(self, cursor: Position | None) -> None:
        if cursor is not None:
            self.version += 1
            self.move(cursor)

    # The cursor

    def move(self, position: Position) -> None:
        """Move the cursor, to the end of a grapheme cluster if the position is inside one."""
        line, column = position
        self.cursor = Position(line, motion.nearest_edge(self.lines[line], column))
        self._last = ""

    def before(self) -> Position:
        line, column = self.cursor
        if column:
            return Position(line, motion.previous_edge(self.line, column))
        return Position(line - 1, len(self.lines[line - 1])) if line else self.cursor

    def after(self) -> Position:
        line, column = self.cursor
        if column < len(self.line):
            return Position(line, motion.next_edge(self.line, column))
        return Position(line + 1, 0) if line + 1 < len(self.lines) else self.cursor

    def word_before(self) -> Position:
        line, column = self.cursor
        return Position(line, motion.word_left(self.line, column)) if column else self.before()

    def word_after(self) -> Position:
        line, column = self.cursor
        if column < len(self.line):
            return Position(line, motion.word_right(self.line, column))
        return self.after()

    def line_start(self) -> Position:
        return Position(self.cursor.line, 0)

    def line_end(self) -> Position:
        return Position(self.cursor.line, len(self.line))

    def find_forward(self, text: str) -> Position | None:
        """The next place after the cursor at which a text begins."""
        line, column = self.cursor
        for number in range(line, len(self.lines)):
            at = self.lines[number].find(text, column + 1 if number == line else 0)
            if at >= 0:
                return Position(number, at)
        return None

    def find_backward(self, text: str) -> Position | None:
        line, column = self.cursor
        for number in range(line, -1, -1):
            at = self.lines[number].rfind(text, 0, column if number == line else None)
            if at >= 0:
                return Position(number, at)
        return None
