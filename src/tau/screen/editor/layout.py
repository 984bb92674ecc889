"""Soft wrap: which part of which line stands in which row, and where the cursor is.

A line is shown with labels for markers, spaces for tabs and escapes for characters that would reorder the text; the
rows of a line are cut from that display text. Rows are at most `width` cells wide and leave a cell for the cursor.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from tau.records.base import Value
from tau.screen.cells import graphemes, text_width
from tau.screen.editor.buffer import Position
from tau.screen.editor.markers import Markers, is_marker
from tau.screen.editor.motion import nearest_edge, next_edge
from tau.screen.lines import Line, Span

TAB = "    "
MARKER_STYLE = "accent"
MAX_CACHED_LINES = 50_000

# Not printable, all of them. It takes long to compile, and is rarely needed.
_SPECIAL = "[\t\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udbff]"


class Special(Value):
    """A character of a line that is shown as something else."""

    column: int
    shown_at: int  # offset in the display text
    shown: str
    style: str


class WrappedLine(Value):
    text: str  # display text
    starts: tuple[int, ...]  # offset in it at which each row begins
    specials: tuple[Special, ...] = ()

    def shown_at(self, column: int) -> int:
        """The offset in the display text of a column of the line."""
        added = sum(len(special.shown) - 1 for special in self.specials if special.column < column)
        return column + added

    def column_at(self, shown_at: int) -> int:
        """The column of the character that is shown at an offset; the beginning of a special character around it."""
        removed = 0
        for special in self.specials:
            if shown_at <= special.shown_at:
                break
            if shown_at < special.shown_at + len(special.shown):
                return special.column
            removed += len(special.shown) - 1
        return shown_at - removed

    def row_of(self, column: int) -> int:
        return bisect_right(self.starts, self.shown_at(column)) - 1

    def row_end(self, row: int) -> int:
        return self.starts[row + 1] if row + 1 < len(self.starts) else len(self.text)

    def cell_of(self, column: int) -> int:
        """The cell of a column within its row."""
        shown_at = self.shown_at(column)
        return text_width(self.text[self.starts[self.row_of(column)] : shown_at])

    def column_near(self, row: int, cell: int) -> int:
        """The column in a row whose cell is `cell`, or the last one before it."""
        at, end, used = self.starts[row], self.row_end(row), 0
        last = row + 1 == len(self.starts)
        for cluster in graphemes(self.text[at : min(end, at + 8 * cell + 64)]):
            used += text_width(cluster)
            if used > cell or (not last and at + len(cluster) >= end):
                break  # the end of a row that is not the last is the beginning of the next
            at += len(cluster)
        return self.column_at(at)

    def row_line(self, row: int, width: int) -> Line:
        start, end = self.starts[row], self.row_end(row)
        if not self.specials:
            return _fitted(_spans(self.text[start:end]), width)
        spans: list[Span] = []
        at = start
        for special in self.specials:
            first = max(special.shown_at, start)
            last = min(special.shown_at + len(special.shown), end)
            if first < last:
                spans += [Span(self.text[at:first]), Span(self.text[first:last], special.style)]
                at = last
        spans.append(Span(self.text[at:end]))
        return _fitted(tuple(span for span in spans if span.text), width)


def _spans(text: str) -> Line:
    return (Span(text),) if text else ()


def _fitted(line: Line, width: int) -> Line:
    """Replace characters that are wider than the row, in a row of one cell."""
    if width > 1 or sum(text_width(span.text) for span in line) <= width:
        return line
    return (Span("?", line[0].style),)


def wrap(text: str, width: int, hanging: int) -> tuple[int, ...]:
    """Where the rows of a display text begin: at most `width` cells each, plus `hanging` cells for a space."""
    if text.isascii():
        return _wrap_ascii(text, width, hanging)
    starts = [0]
    at = used = 0  # `used` counts cells of the row
    cut, cut_used = 0, 0  # the last place at which the row can end
    widths: dict[str, int] = {}
    for cluster in graphemes(text):
        if (cells := widths.get(cluster)) is None:
            cells = widths[cluster] = text_width(cluster)
        if cells > 1:
            cut, cut_used = at, used
        if used + cells > width and at > starts[-1]:
            if cluster == " " and used + cells <= width + hanging:
                cut, cut_used = at + 1, used + 1
                starts.append(cut)
                at, used, cut_used = at + 1, 0, 0
                continue
            if cut <= starts[-1]:
                cut, cut_used = at, used
            starts.append(cut)
            used -= cut_used
            if used + cells > width and at > cut:
                starts.append(at)
                used = 0
            cut_used = 0
        at += len(cluster)
        used += cells
        if cluster == " " or cells > 1:
            cut, cut_used = at, used
    return tuple(starts)


def _wrap_ascii(text: str, width: int, hanging: int) -> tuple[int, ...]:
    starts = [0]
    at, size = 0, len(text)
    while size - at > width:
        end = at + width
        if hanging and text[end] == " ":
            at = end + 1
        else:
            at = text.rfind(" ", at, end) + 1 or end
            if at <= starts[-1]:
                at = end
        starts.append(at)
    return tuple(starts)


class Layout:
    """The wrapped lines of a buffer for one width. A line that did not change is not wrapped again."""

    def __init__(self, markers: Markers) -> None:
        self._markers = markers
        self._cache: dict[str, WrappedLine] = {}
        self.width = 80

    def resize(self, width: int) -> None:
        if width != self.width:
            self.width = width
            self._cache.clear()

    def forget(self) -> None:
        """The labels of markers may be others now."""
        self._cache.clear()

    def line(self, line: str) -> WrappedLine:
        if (found := self._cache.get(line)) is None:
            if len(self._cache) > MAX_CACHED_LINES:
                self._cache.clear()
            found = self._cache[line] = self._wrapped(line)
        return found

    def height(self, line: str) -> int:
        if line.isascii() and len(line) < self.width and "\t" not in line:
            return 1
        return len(self.line(line).starts)

    def _wrapped(self, line: str) -> WrappedLine:
        text, specials = self._displayed(line)
        hanging = 1 if self.width > 1 else 0
        return WrappedLine(text, wrap(text, max(self.width - hanging, 1), hanging), specials)

    def _displayed(self, line: str) -> tuple[str, tuple[Special, ...]]:
        if line.isprintable():
            return line, ()
        pieces: list[str] = []
        specials: list[Special] = []
        end = size = 0
        for found in re.finditer(_SPECIAL, line):
            pieces.append(line[end : found.start()])
            size += len(pieces[-1])
            shown, style = self._shown(found[0])
            specials.append(Special(found.start(), size, shown, style))
            pieces.append(shown)
            size += len(shown)
            end = found.end()
        return "".join([*pieces, line[end:]]), tuple(specials)

    def _shown(self, character: str) -> tuple[str, str]:
        if character == "\t":
            return TAB, ""
        if is_marker(character):
            return self._markers.label(character), MARKER_STYLE
        return f"\\u{ord(character):04x}", "muted"

    def position_near(self, lines: list[str], line: int, row: int, cell: int, *, forward: bool) -> Position:
        """The position in a row of a line that is nearest to a cell.

        If the label of a marker fills the row, the position is its beginning, or its end with `forward`.
        """
        text = lines[line]
        wrapped = self.line(text)
        column = nearest_edge(text, wrapped.column_near(row, cell))
        if forward and wrapped.row_of(column) < row:
            column = next_edge(text, column)
        return Position(line, column)
