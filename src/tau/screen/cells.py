"""Widths in terminal cells: measure, wrap and clip text and styled lines.

Simple text (Latin, Greek, Cyrillic, boxes, arrows) needs no table: wcwidth is loaded when the first other text is
measured. A grapheme cluster (an emoji with modifiers, a letter with its marks) is never split.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tau.screen.lines import Line, Span, plain_text

TOO_WIDE = "?"  # stands for a character of two cells where there is only one
_WIDTHS_CACHED = 4096
# Characters that every terminal shows in one cell, whatever stands beside them.
_NOT_SIMPLE = re.compile(
    "[^ -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0377\u037b-\u037f\u0384-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e"
    "\u20a0-\u20c0\u2190-\u22ff\u2500-\u25fc\u25ff\u2713-\u2718\u2733\u2800-\u28ff]"
)


def is_simple(text: str) -> bool:
    """Whether each character takes one cell: the columns of such a text are certain in every terminal."""
    return text.isascii() or not _NOT_SIMPLE.search(text)


def text_width(text: str) -> int:
    return len(text) if text.isascii() else _unicode_width(text)


def line_width(line: Line) -> int:
    return sum([len(span.text) if span.text.isascii() else _unicode_width(span.text) for span in line])


def graphemes(text: str) -> list[str]:
    if is_simple(text):
        return list(text)
    from wcwidth import iter_graphemes

    return list(iter_graphemes(text))


@lru_cache(_WIDTHS_CACHED)
def _unicode_width(text: str) -> int:
    if not _NOT_SIMPLE.search(text):
        return len(text)
    from wcwidth import width

    return width(text, control_codes="ignore")


def wrap_line(line: Line, width: int, indent: str = "") -> list[Line]:
    """Break at spaces, and inside a word only if it is wider than a row. Rows after the first begin with `indent`.

    The spaces at a break are dropped; the text is otherwise complete. Characters of two cells may be separated
    anywhere.
    """
    text = plain_text(line)
    simple = is_simple(text)
    if not line or (simple and len(text) <= width):
        return [line]
    width = max(1, width)
    if width == 1 and not simple:
        line, text = _narrowed(line)
    if width - text_width(indent) < 2:  # a wide character needs two cells
        indent = ""
    ranges = (_simple_ranges if simple else _ranges)(text, width, text_width(indent))
    first, *rest = _parts(line, ranges)
    return [first, *((Span(indent), *row) if indent and row else row for row in rest)]


def clip_line(line: Line, width: int, ellipsis: str = "…") -> Line:
    """The beginning of the line with an ellipsis, if it is wider than `width`."""
    if line_width(line) <= width:
        return line
    room = width - text_width(ellipsis)
    if room < 0:
        room, ellipsis = max(0, width), ""
    text = plain_text(line)
    kept = _part(line, 0, _fitting_length(text, room))
    style = kept[-1].style if kept else line[0].style
    return (*kept, Span(ellipsis, style)) if ellipsis else kept


def pad_line(line: Line, width: int, style: str = "") -> Line:
    """The line with spaces after it, up to `width`."""
    missing = width - line_width(line)
    return (*line, Span(" " * missing, style)) if missing > 0 else line


def _fitting_length(text: str, width: int) -> int:
    """How many characters of the text fit into `width` cells."""
    if is_simple(text):
        return min(width, len(text))
    used = length = 0
    for cluster in graphemes(text):
        used += text_width(cluster)
        if used > width:
            break
        length += len(cluster)
    return length


def _narrowed(line: Line) -> tuple[Line, str]:
    """Without characters of two cells."""
    line = tuple(
        span._replace(text="".join(TOO_WIDE if text_width(one) > 1 else one for one in graphemes(span.text)))
        for span in line
    )
    return line, plain_text(line)


def _simple_ranges(text: str, width: int, indent: int) -> list[tuple[int, int]]:
    """The rows as start and end in a text whose characters take one cell each."""
    ranges: list[tuple[int, int]] = []
    start, room, length = 0, width, len(text)
    while length - start > room:
        limit = start + room
        cut = limit if text[limit] == " " else text.rfind(" ", start, limit)
        if cut < 0 or text[start:cut].isspace() or cut == start:
            cut = limit  # one word, or the indentation before one
        end = _without_spaces(text, start, cut)
        ranges.append((start, end))
        start, room = cut, width - indent
        while start < length and text[start] == " ":
            start += 1
        if start == length:
            return ranges
    ranges.append((start, length))
    return ranges


def _without_spaces(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] == " ":
        end -= 1
    return end


def _ranges(text: str, width: int, indent: int) -> list[tuple[int, int]]:
    """The same for any text, by grapheme clusters."""
    ranges: list[tuple[int, int]] = []
    start = position = used = 0
    room = width
    cut = -1  # the last place where the row may end
    for cluster in graphemes(text):
        cells = text_width(cluster)
        if cluster != " " and used + cells > room:
            if cut <= start or text[start:cut].isspace():
                cut = position
            ranges.append((start, _without_spaces(text, start, cut)))
            while text[cut] == " ":
                cut += 1
            start, room = cut, width - indent
            used, cut = text_width(text[start:position]), -1
        if cluster == " " or (cells > 1 and position > start):
            cut = position
        used += cells
        position += len(cluster)
        if cells > 1:
            cut = position
    end = len(text)
    if used > room:  # trailing spaces do not fit
        end = max(_without_spaces(text, start, end), start)
    if end > start or not ranges:
        ranges.append((start, end))
    return ranges


def _part(line: Line, start: int, end: int) -> Line:
    """The characters from `start` to `end`, with their styles."""
    spans: list[Span] = []
    offset = 0
    for span in line:
        first, last = max(start - offset, 0), min(end - offset, len(span.text))
        if first < last:
            spans.append(span if last - first == len(span.text) else span._replace(text=span.text[first:last]))
        offset += len(span.text)
        if offset >= end:
            break
    return tuple(spans)


def _parts(line: Line, ranges: list[tuple[int, int]]) -> list[Line]:
    """`_part` for ranges in order: each span is visited once, and once more in each row that it reaches into."""
    rows: list[Line] = []
    number = offset = 0  # the first span that the row may contain, and where it begins
    for start, end in ranges:
        while number < len(line) and offset + len(line[number].text) <= start:
            offset += len(line[number].text)
            number += 1
        last, position = number, offset
        while last < len(line) and position < end:
            position += len(line[last].text)
            last += 1
        rows.append(_part(line[number:last], start - offset, end - offset))
    return rows
