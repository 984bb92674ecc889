"""Helpers of all cards: texts as rows, previews, amounts."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.cells import clip_line, line_width
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.safe_text import clean_text

INDENT = 2
MAX_SHOWN_CHARACTERS = 200_000  # of one text, when it is expanded


def text_lines(text: str, look: Look, style: str = "") -> list[Line]:
    """Plain text of several lines, wrapped."""
    lines = clean_text(text).split("\n")
    return [row for line in lines for row in wrap((Span(line, style),) if line else (), look.width)]


def indented(rows: Sequence[Line], look: Look) -> list[Line]:
    """Rows below a title. In plain text they are not indented."""
    if look.plain:
        return list(rows)
    pad = Span(" " * INDENT)
    return [(pad, *row) if row else row for row in rows]


def filled(row: Line, width: int, style: str) -> Line:
    """A row with a background over the whole width."""
    spans = tuple(span._replace(style=f"{span.style} {style}".strip()) for span in row)
    spare = width - line_width(row)
    return (*spans, Span(" " * spare, style)) if spare > 0 else spans


def head(rows: Sequence[Line], count: int, look: Look) -> list[Line]:
    """The first rows, and how many more there are."""
    if look.expanded or len(rows) <= count:
        return list(rows)
    return [*rows[:count], more(len(rows) - count, "more", look)]


def tail(rows: Sequence[Line], count: int, look: Look, hidden: int = 0) -> list[Line]:
    """The last rows, and how many are above; `hidden` were not kept."""
    shown = list(rows) if look.expanded else list(rows[-count:])
    above = len(rows) - len(shown) + hidden
    return [more(above, "earlier", look), *shown] if above else shown


def more(count: int, word: str, look: Look) -> Line:
    text = f"… {count:,} {word} line{'s' if count != 1 else ''}"
    return clip((Span(text if look.plain or look.expanded else f"{text}, {look.expand_key}", "muted"),), look)


def clip(row: Line, look: Look) -> Line:
    return row if look.plain else clip_line(row, look.width)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m {rest:02}s" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"
