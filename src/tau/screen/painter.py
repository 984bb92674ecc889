"""The painter: what is on the screen, and what should be -> bytes for the terminal.

It draws where the cursor was at the start, below what the shell printed, and moves only relative to that. New rows
come by line feeds at the bottom, so that the terminal itself scrolls old rows into its history; a row that has left
the screen is never touched again. It never clears the screen, and uses no scroll regions.

Rows have absolute numbers. `first_visible` grows with every row that is scrolled off.
"""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.cells import clip_line, line_width
from tau.screen.frame import Cursor, Frame
from tau.screen.lines import Line, Span, plain_text
from tau.screen.row_changes import change_of, whole
from tau.screen.styles import Palette, safe_text

BEGIN_UPDATE = "\x1b[?2026h"
END_UPDATE = "\x1b[?2026l"
SHOW_CURSOR = "\x1b[?25h"
HIDE_CURSOR = "\x1b[?25l"
ERASE_LINE = "\x1b[K"
ERASE_BELOW = "\x1b[J"
MIN_GAP = 8  # spaces
PLAIN = Span("")[1:]  # the style and link of text in the terminal's default


_STALE: Line = (Span("", "stale"),)  # a row whose cells are not known


class Painter:
    def __init__(self, rows: int, columns: int, palette: Palette, *, synchronized: bool = True) -> None:
        self.palette = palette
        self.synchronized = synchronized
        self.first_visible = 0  # the topmost row that is still on the screen
        self._size = (max(1, rows), max(1, columns))
        self._drawn: list[Line] = []  # from first_visible on
        self._bottom = 1  # the first row that the cursor has not reached
        self._touched = 0  # the first row that the last frame wrote
        self._pen = _Pen()
        # Rows on the screen for each of `_drawn`, and above the cursor in its own: after a resize. None: as drawn.
        self._resized: tuple[list[int], int] | None = ([], 0)

    def paint(self, frame: Frame) -> bytes:
        """The bytes that make the screen show `frame`; b"" if it does already."""
        if self._resized is not None:
            self._start(frame.top, *self._resized)
        self._touched = max(frame.top + len(frame.rows) - 1, 0)
        first = max(frame.top, self.first_visible)
        rows = frame.rows[first - frame.top :]
        self._draw(first, rows)
        end = first + len(rows)
        if self.first_visible + len(self._drawn) > end:
            self._erase_from(max(end, self.first_visible))
        if frame.cursor is not None:
            self._place(frame.cursor, end - 1)
        self._pen.show(frame.cursor is not None)
        return self._pen.finish(self.synchronized)

    def echo(self, character: str) -> bytes:
        """The bytes that show a typed character where the cursor is; b"" if only a frame can show it.

        The next frame agrees with it, or corrects it. What costs most of a frame is to find out that all else is the
        same: so the character is on the screen before that.
        """
        pen, at = self._pen, self._pen.row - self.first_visible
        if self._resized is not None or pen.column is None or not pen.visible or not 0 <= at < len(self._drawn):
            return b""
        row = self._drawn[at]
        text = plain_text(row) + character
        if (
            len(text) != pen.column + 1
            or len(text) + 1 >= self._size[1]
            or not text.isascii()
            or not text.isprintable()
        ):
            return b""  # the cursor is not at the end, or the width of the row is not certain
        if row and row[-1][1:] != PLAIN:
            return b""
        self._drawn[at] = (*row[:-1], Span(row[-1].text + character)) if row else (Span(character),)
        pen.write(character, 1)
        return pen.finish(self.synchronized)

    def resize(
        self,
        rows: int,
        columns: int,
        *,
        reflows: bool,
        live_top: int = 0,
        box_top: int = 0,
        misplaced: bool = False,
    ) -> bytes:
        """The terminal has a new size. Rows from `live_top` on are drawn again; those above are left to the terminal.

        `live_top` is a row of the last frame: the first that can still change, or the first of the box; `box_top` is
        the first of the box. A terminal that reflows has split each row into as many as the new width needs, and rows
        above the box that do not fit on the screen any more are in its history: they are left to the terminal, too.
        `misplaced`: the last frame was drawn on a screen of another size, so that all rows that it wrote are drawn
        again. Nothing is written before the next frame.
        """
        self._size = (max(1, rows), max(1, columns))
        if misplaced:
            live_top, box_top = min(live_top, self._touched), 0
        self._keep_from(min(max(self.first_visible, live_top), self._pen.row))
        if not reflows:
            self._resized = [1] * len(self._drawn), 0
            return b""
        heights = [_height(line_width(line), columns) for line in self._drawn]
        within = (self._pen.column or 0) // max(1, columns)
        at = self._pen.row - self.first_visible
        above, below = sum(heights[:at]) + within, sum(heights[at:]) - within
        gone = 0
        while above + below > self._size[0] and self.first_visible + gone < min(box_top, self._pen.row):
            above -= heights[gone]
            gone += 1
        self._keep_from(self.first_visible + gone)
        self._resized = heights[gone:], within
        return b""

    def _keep_from(self, row: int) -> None:
        """Rows above this one stay as they are."""
        del self._drawn[: max(0, row - self.first_visible)]
        self.first_visible = max(self.first_visible, row)

    def leave(self, frame_top: int) -> bytes:
        """Erase from a row on. The cursor is then visible, at the beginning of that row."""
        if self._resized is not None:
            self._start(frame_top, *self._resized)
        row = max(frame_top, self.first_visible)
        if row < self._bottom:
            self._erase_from(row)
        else:
            self._new_row()
        self._pen.show(True)
        return self._pen.finish(self.synchronized)

    @property
    def cursor_visible(self) -> bool:
        return self._pen.visible

    def restart(self, row: int) -> None:
        """Another program has written to the terminal: the cursor's line is now row `row`, the first that is drawn."""
        self.first_visible = row
        self._bottom = row + 1
        self._drawn = []
        self._pen = _Pen(row)
        self._resized = ([], 0)

    def forget(self) -> None:
        """The next frame draws every row on the screen again: other colours, or a screen that was disturbed."""
        self._drawn = [_STALE] * len(self._drawn)

    def _start(self, top: int, heights: list[int], within: int) -> None:
        """Go to the first row of the frame and erase from there: keys echoed at the start, the old end after a resize.

        Where the rows above the cursor are more than the screen has, some are in the history, and the frame begins at
        the top of the screen: a row that is there twice is better than a lost one.
        """
        pen, offset = self._pen, self.first_visible
        target = max(top, self.first_visible)
        above = sum(heights[target - offset : pen.row - offset]) + within
        below = sum(heights[pen.row - offset : target - offset])
        pen.climb(min(above, self._size[0] - 1) - below)
        pen.add("\r" + ERASE_BELOW)
        pen.row, pen.column = target, 0
        self.first_visible, self._bottom = target, target + 1
        self._drawn = []
        self._resized = None

    def _draw(self, first: int, rows: Sequence[Line]) -> None:
        while self.first_visible + len(self._drawn) < first:
            self._append(())  # a gap between what is drawn and the frame
        for number, row in enumerate(rows, first):
            position = number - self.first_visible
            if position >= len(self._drawn):
                self._append(self._fitting(row))
            elif self._drawn[position] != row:
                row = self._fitting(row)
                if self._drawn[position] != row:
                    self._replace(number, self._drawn[position], row)
                    self._drawn[position] = row

    def _replace(self, number: int, old: Line, new: Line) -> None:
        self._touched = min(self._touched, number)
        pen = self._pen
        change = whole(new, self._size[1] + 1) if old is _STALE else change_of(old, new)
        pen.move(number, change.column)
        # After text in the last column ERASE_LINE would erase that column; only a screen of one column has such rows.
        before, after = (ERASE_LINE, "") if self._size[1] == 1 else ("", ERASE_LINE)
        if change.erase:
            pen.add(before)
        self._write(change.spans, change.width)
        if change.erase:
            pen.add(after)

    def _append(self, row: Line) -> None:
        """A row below everything that is drawn; it is empty, or does not exist yet."""
        number = self.first_visible + len(self._drawn)
        if number < self._bottom:
            self._pen.move(number, 0)
        else:
            self._new_row()
        self._touched = min(self._touched, number)
        self._drawn.append(row)
        self._write_on_empty(row)
        hidden = self._bottom - self._size[0] - self.first_visible
        if hidden > 0:
            del self._drawn[:hidden]
            self.first_visible += hidden

    def _new_row(self) -> None:
        """The first row that the cursor has not reached: a line feed in the last row of the screen scrolls."""
        self._pen.move(self._bottom - 1, None)
        self._pen.add("\r\n")
        self._pen.row, self._pen.column = self._bottom, 0
        self._bottom += 1

    def _write_on_empty(self, row: Line) -> None:
        """Write a row where nothing stands: the cursor skips wide gaps."""
        start = 0
        for number, span in enumerate(row):
            is_gap = len(span.text) >= MIN_GAP and not span.text.strip(" ") and not span.style and not span.link
            if is_gap and number + 1 < len(row):
                self._write(row[start:number], whole(row[start:number], 0).width)
                self._pen.skip(len(span.text))
                start = number + 1
        self._write(row[start:], whole(row[start:], 0).width)

    def _write(self, spans: Line, width: int | None) -> None:
        if spans:
            self._pen.write(self.palette.render(spans), None if self._size[1] == 1 else width)

    def _erase_from(self, row: int) -> None:
        self._pen.move(row, 0)
        self._pen.add(ERASE_BELOW)
        del self._drawn[row - self.first_visible :]

    def _place(self, cursor: Cursor, last_row: int) -> None:
        row = max(min(cursor.row, last_row), self.first_visible)
        self._pen.move(row, max(0, min(cursor.column, self._size[1] - 1)))

    def _fitting(self, row: Line) -> Line:
        """Without control characters, and one column narrower than the screen: no terminal then joins two rows."""
        if not all([span.text.isprintable() for span in row]):
            row = tuple(span._replace(text=safe_text(span.text)) for span in row)
        room = max(1, self._size[1] - 1)
        return row if line_width(row) <= room else clip_line(row, room, "")


def _height(width: int, columns: int) -> int:
    """How many rows of a narrower screen a row of this width takes."""
    return max(1, -(-width // max(1, columns)))


class _Pen:
    """Where the terminal's cursor is, and the output that brought it there."""

    def __init__(self, row: int = 0) -> None:
        self.row = row
        self.column: int | None = None  # None: not certain
        self.visible = True
        self._parts: list[str] = []

    def add(self, sequence: str) -> None:
        if sequence:
            self._parts.append(sequence)

    def write(self, text: str, width: int | None) -> None:
        self._parts.append(text)
        self.column = None if self.column is None or width is None else self.column + width

    def skip(self, cells: int) -> None:
        """Move right within the row."""
        self._parts.append(_sequence(cells, "C"))
        self.column = None if self.column is None else self.column + cells

    def show(self, visible: bool) -> None:
        if visible != self.visible:
            self._parts.append(SHOW_CURSOR if visible else HIDE_CURSOR)
            self.visible = visible

    def climb(self, count: int) -> None:
        if count > 0:
            self._parts.append(_sequence(count, "A"))
        elif count < 0:
            self._parts.append(_sequence(-count, "B"))

    def move(self, row: int, column: int | None) -> None:
        """To a row that exists; a column of None leaves the column as it is."""
        down = row - self.row
        if 0 < down <= 3:
            self._parts.append("\n" * down)
        else:
            self.climb(-down)
        self.row = row
        if column is None or column == self.column:
            return
        self._parts.append(_horizontal(self.column, column))
        self.column = column

    def finish(self, synchronized: bool) -> bytes:
        if not self._parts:
            return b""
        text = "".join(self._parts)
        self._parts.clear()
        if synchronized:
            return f"{BEGIN_UPDATE}{text}{END_UPDATE}".encode()
        if not self.visible:
            return text.encode()
        return f"{HIDE_CURSOR}{text}{'' if text.endswith(SHOW_CURSOR) else SHOW_CURSOR}".encode()


def _horizontal(column: int | None, target: int) -> str:
    """The shortest way to a column; the terminal must not be asked where the cursor is."""
    from_start = "\r" + _sequence(target, "C") if target else "\r"
    if column is None:
        return from_start
    distance = target - column
    if distance > 0:
        return _sequence(distance, "C")
    back = "\b" * -distance if distance >= -3 else _sequence(-distance, "D")
    return min(back, from_start, key=len)


def _sequence(count: int, final: str) -> str:
    return f"\x1b[{final}" if count == 1 else f"\x1b[{count}{final}"
