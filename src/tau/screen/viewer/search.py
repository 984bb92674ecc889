"""Search in the transcript: which entry, and which of its rows, has a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tau.records import messages as m
from tau.screen.lines import Line, Span, plain_text
from tau.screen.viewer.pages import Pages, Position

READ_AT_ONCE = 256  # entries
MAX_ENTRIES = 1_000  # that are made into rows for one search; the next one goes on


class Found(NamedTuple):
    """`position` is None if the text was not found; `stopped` is then where the search ended before it was complete."""

    position: Position | None
    stopped: Position | None = None


def find(pages: Pages, query: str, start: Position, *, backward: bool) -> Found:
    """The next row with the text, after `start` or before it. Upper and lower case do not matter.

    Only entries whose line in the file has all words are made into rows, and not more than MAX_ENTRIES of them.
    """
    wanted = " ".join(query.lower().split())
    words, last, looked = _words(wanted), -1, 0
    for item, line in _items(pages, start.item, backward=backward) if wanted else ():
        if line is not None and not _has(line, words):
            continue
        owner = _owner(pages, item)
        if owner == last or (owner != start.item and (owner < start.item) != backward):
            continue  # seen already, or a result of a call above the start
        last, looked = owner, looked + 1
        rows = _matches(pages.rows(owner), wanted)
        if owner == start.item:
            rows = [row for row in rows if (row < start.row if backward else row > start.row)]
        if rows:
            return Found(Position(owner, rows[-1] if backward else rows[0]))
        if looked == MAX_ENTRIES:
            return Found(None, Position(owner, 0))
    return Found(None)


def _words(wanted: str) -> list[bytes]:
    """What the line of an entry must contain: the words that are written as they are."""
    words = [word for word in wanted.split() if word.isascii() and word.isalnum()]
    return [word.encode() for word in words]


def _has(line: bytes, words: Sequence[bytes]) -> bool:
    if not words:
        return True
    lower = line.lower()
    return all([word in lower for word in words])


def _items(pages: Pages, start: int, *, backward: bool) -> Iterator[tuple[int, bytes | None]]:
    """Entries with their lines, from `start` on; the live end has no line."""
    live = pages.live_item
    if not backward:
        yield from ((item, pages.line(item)) for item in range(start, live))
        yield live, None
        return
    if start >= live:
        yield live, None
    end = min(start + 1, live)  # an answer is also found by the results of its calls, which follow it
    while end < live and isinstance(pages.message(end), m.ToolResult):
        end += 1
    while end > 0:  # files are read forward
        first = max(end - READ_AT_ONCE, 0)
        yield from reversed([(item, pages.line(item)) for item in range(first, end)])
        end = first


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
