"""The visible part of the editor: rows around the cursor, with the number of rows hidden above and below."""

from __future__ import annotations

from typing import NamedTuple

from tau.screen.editor.buffer import Position
from tau.screen.editor.layout import Layout
from tau.screen.lines import Line

MIN_ROWS = 5


class EditorView(NamedTuple):
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


class Viewport:
    """Which rows are visible: scrolls only as far as the cursor makes necessary."""

    def __init__(self) -> None:
        self._top = 0
        self.rows = MIN_ROWS

    def view(self, lines: list[str], cursor: Position, layout: Layout, max_rows: int) -> EditorView:
        self.rows = max(max_rows, 1)
        heights = [layout.height(line) for line in lines]
        total = sum(heights)
        wrapped = layout.line(lines[cursor.line])
        cursor_row = sum(heights[: cursor.line]) + wrapped.row_of(cursor.column)
        top = min(max(self._top, cursor_row - self.rows + 1), cursor_row, max(total - self.rows, 0))
        self._top = top
        shown = self._rows(lines, heights, layout)
        column = min(wrapped.cell_of(cursor.column), max(layout.width - 1, 0))
        return EditorView(tuple(shown), cursor_row - top, column, top, max(total - top - len(shown), 0))

    def _rows(self, lines: list[str], heights: list[int], layout: Layout) -> list[Line]:
        line, skip = 0, self._top
        while skip >= heights[line]:
            skip -= heights[line]
            line += 1
        shown: list[Line] = []
        while line < len(lines) and len(shown) < self.rows:
            wrapped = layout.line(lines[line])
            last = min(heights[line], skip + self.rows - len(shown))
            shown += [wrapped.row_line(row, layout.width) for row in range(skip, last)]
            line, skip = line + 1, 0
        return shown
