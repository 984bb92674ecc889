"""The visible part of the editor: rows around the cursor, with the number of rows hidden above and below."""

from __future__ import annotations

from tau.records.base import Value
from tau.screen.editor.buffer import Buffer, Position
from tau.screen.editor.layout import Layout
from tau.screen.lines import Line

MIN_ROWS = 5


class EditorView(Value):
    lines: tuple[Line, ...]
    row: int  # of the cursor, in `lines`
    column: int  # of the cursor, in cells
    above: int  # rows hidden above and below
    below: int


def max_editor_rows(terminal_rows: int) -> int:
    """The editor grows to a third of the terminal, and at least to MIN_ROWS."""
    return max(terminal_rows // 3, MIN_ROWS)


def more_label(arrow: str, hidden: int) -> str:
    """The text for the rule above ("↑") or below ("↓") the editor; "" if nothing is hidden."""
    return f"{arrow} {hidden} more" if hidden else ""


class Heights:
    """How many rows each line of a buffer has. After an edit only the lines that it changed are measured again."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._state: tuple[Buffer | None, int, int] = (None, 0, 0)  # buffer, its edits, width
        self._heights: list[int] = []

    def of(self, buffer: Buffer) -> list[int]:
        height = self._layout.height
        known, edits, width = self._state
        change = buffer.last_change
        if known is not buffer or width != self._layout.width or buffer.edits > edits + 1:
            self._heights = [height(line) for line in buffer.lines]
        elif buffer.edits == edits + 1:
            first, added = change.first, buffer.lines[change.first : change.first + change.added]
            self._heights[first : first + change.removed] = [height(line) for line in added]
        self._state = (buffer, buffer.edits, self._layout.width)
        return self._heights


class Viewport:
    """Which rows are visible: scrolls only as far as the cursor makes necessary."""

    def __init__(self, layout: Layout) -> None:
        self.rows = MIN_ROWS
        self._layout = layout
        self._heights = Heights(layout)
        self._top = 0

    def view(self, buffer: Buffer, cursor: Position, max_rows: int) -> EditorView:
        self.rows = max(max_rows, 1)
        heights = self._heights.of(buffer)
        total = sum(heights)
        wrapped = self._layout.line(buffer.lines[cursor.line])
        row_in_line = wrapped.row_of(cursor.column)
        cursor_row = sum(heights[: cursor.line]) + row_in_line
        top = min(max(self._top, cursor_row - self.rows + 1), cursor_row, max(total - self.rows, 0))
        self._top = top
        line, skip = _back(heights, cursor.line, row_in_line - (cursor_row - top))
        shown = self._rows(buffer.lines, heights, line, skip)
        column = min(wrapped.cell_of(cursor.column), max(self._layout.width - 1, 0))
        return EditorView(tuple(shown), cursor_row - top, column, top, max(total - top - len(shown), 0))

    def _rows(self, lines: list[str], heights: list[int], line: int, skip: int) -> list[Line]:
        """Rows from a row of a line on, as many as are visible."""
        shown: list[Line] = []
        while line < len(lines) and len(shown) < self.rows:
            wrapped = self._layout.line(lines[line])
            last = min(heights[line], skip + self.rows - len(shown))
            shown += [wrapped.row_line(row, self._layout.width) for row in range(skip, last)]
            line, skip = line + 1, 0
        return shown


def _back(heights: list[int], line: int, row: int) -> tuple[int, int]:
    """A row of a line, where a negative row is in a line before it."""
    while row < 0:
        line -= 1
        row += heights[line]
    return line, row
