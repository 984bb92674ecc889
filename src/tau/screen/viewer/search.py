"""Search in the transcript: which entry, and which of its rows, has a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from tau.records import messages as m
from tau.screen.lines import Line, Span, plain_text
from tau.screen.viewer.pages import Pages, Position


def find(pages: Pages, query: str, start: Position, *, backward: bool) -> Position | None:
    """The next row with the text, after `start` or before it. Upper and lower case do not matter.

    Only entries whose line in the file may have the text are made into rows.
    """
    wanted = " ".join(query.lower().split())
    if not wanted:
        return None
    needle = _needle(wanted)
    last = -1
    for item in _items(pages, start.item, backward=backward):
        if item < pages.live_item and needle is not None and needle not in pages.line(item).lower():
            continue
        owner = _owner(pages, item)
        if owner == last:
            continue
        last = owner
        rows = _matches(pages.rows(owner), wanted)
        if owner == start.item:
            rows = [row for row in rows if (row < start.row if backward else row > start.row)]
        elif (owner < start.item) != backward:
            continue  # a result of a call above the start
        if rows:
            return Position(owner, rows[-1] if backward else rows[0])
    return None


def _needle(wanted: str) -> bytes | None:
    """What the line of an entry must contain; None if the text has no word that is written as it is."""
    words = [word for word in wanted.split() if word.isascii() and '"' not in word and "\\" not in word]
    return max(words, key=len).encode() if words else None


def _items(pages: Pages, start: int, *, backward: bool) -> Iterable[int]:
    # An answer is also found by the results of its calls, which follow it.
    return range(pages.live_item, -1, -1) if backward else range(start, pages.live_item + 1)


def _owner(pages: Pages, item: int) -> int:
    """The entry with the rows of an entry: a result is shown with its call."""
    while 0 < item < pages.live_item and isinstance(pages.message(item), m.ToolResult):
        item -= 1
    return item


def _matches(rows: Sequence[Line], wanted: str) -> list[int]:
    """The rows in which the text begins; it may go on in the next row."""
    texts = [" ".join(plain_text(row).lower().split()) for row in rows]
    starts, joined, length = [], [], 0
    for text in texts:
        starts.append(length)
        joined.append(text)
        length += len(text) + 1
    whole, found, at = " ".join(joined), list[int](), -1
    row = 0
    while (at := whole.find(wanted, at + 1)) >= 0:
        while row + 1 < len(starts) and starts[row + 1] <= at:
            row += 1
        if not found or found[-1] != row:
            found.append(row)
    return found


def highlighted(row: Line, query: str) -> Line:
    """A row with the text marked, wherever it is in the row."""
    text, wanted = plain_text(row), query.lower()
    lower = text.lower()
    if not wanted or wanted not in lower or len(lower) != len(text):
        return row
    marked = [False] * len(text)
    at = -1
    while (at := lower.find(wanted, at + 1)) >= 0:
        marked[at : at + len(wanted)] = [True] * len(wanted)
    spans: list[Span] = []
    start = 0
    for span in row:
        for mark, group in groupby(range(start, start + len(span.text)), marked.__getitem__):
            places = list(group)
            style = f"{span.style} inverse".strip() if mark else span.style
            spans.append(span._replace(text=text[places[0] : places[-1] + 1], style=style))
        start += len(span.text)
    return tuple(spans)
