"""Parts of a panel: its rules, wrapped text, and the window of a text that is too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from tau.core.text.terminal_text import escape_hidden
from tau.screen.cells import clip_line, line_width, text_width, wrap_line
from tau.screen.lines import Line, Span, line
from tau.screen.panels import Status

INDENT = "  "
MAX_TEXT_LINES = 2000  # lines of a question that can be scrolled to
MAX_LINE_CHARACTERS = 4000
TAB = "    "


def wrapped(text: str, width: int, style: str = "") -> list[Line]:
    """Text of a question: hidden characters are escaped, long lines wrap."""
    lines, more = shortened_lines(text)
    return [*(row for one in lines for row in indented(line(one, style), width)), *more]


def shortened_lines(text: str) -> tuple[list[str], list[Line]]:
    """The lines of a text, with hidden characters escaped, and a line that says how many are left out, if any."""
    lines = text.split("\n")
    left_out = len(lines) - MAX_TEXT_LINES
    more = [line(f"{INDENT}… {left_out} more lines", "warning")] if left_out > 0 else []
    return [_shortened(one) for one in lines[:MAX_TEXT_LINES]], more


def _shortened(text: str) -> str:
    more = len(text) - MAX_LINE_CHARACTERS
    shown = escape_hidden(text[:MAX_LINE_CHARACTERS], "\t").replace("\t", TAB)
    return f"{shown}… {more} more characters" if more > 0 else shown


def indented(text: Line, width: int) -> list[Line]:
    return [(Span(INDENT), *row) for row in wrap_line(text, max(width - text_width(INDENT), 1))]


def top_rule(title: str, status: Status, width: int) -> Line:
    """The upper border, with the title at the left, and position and countdown at the right."""
    color = "borderAccent" if status.focused else "borderMuted"
    right = [part for part in (status.position, countdown(status)) if part]
    while right and text_width(title) + text_width(" · ".join(right)) + 8 > width:
        right.pop(0)  # the title counts more
    tail = (Span(f" {' · '.join(right)} ", "warning"), Span("──", color)) if right else ()
    room = width - line_width(tail)
    head = clip_line((Span("── ", color), Span(title, "accent bold"), Span(" ", color)), max(room, 0))
    fill = Span("─" * max(room - line_width(head), 0), color)
    return clip_line((*head, fill, *tail), width)


def countdown(status: Status) -> str:
    if status.clock_stopped:
        return "clock stopped"
    if status.seconds_left is None:
        return ""
    seconds = max(int(status.seconds_left + 0.999), 0)
    return f"{seconds}s" if seconds < 120 else f"{seconds // 60}m {seconds % 60:02}s"


def hint(parts: Iterable[str], width: int) -> Line:
    """The line that says which keys do what; parts that do not fit are left out, the last ones first."""
    chosen = [part for part in parts if part]
    while len(chosen) > 1 and text_width(INDENT + " · ".join(chosen)) > width:
        chosen.pop()
    return clip_line(line(INDENT + " · ".join(chosen), "dim"), width)


def window(lines: Sequence[Line], first: int, rows: int) -> tuple[int, list[Line]]:
    """The part of a text that fits into `rows`, and its first line. The last row says how much is below."""
    if rows <= 0:
        return 0, []
    if len(lines) <= rows:
        return 0, list(lines)
    first = min(max(first, 0), len(lines) - rows + 1)
    shown = list(lines[first : first + rows - 1])
    below, above = len(lines) - first - len(shown), first
    words = [f"↑ {above} more" if above else "", f"↓ {below} more" if below else "", "PgUp PgDn"]
    return first, [*shown, line(INDENT + " · ".join(word for word in words if word), "dim")]


def fitted(lines: Iterable[Line], width: int, max_rows: int) -> tuple[Line, ...]:
    """The lines, cut to the space that there is."""
    return tuple(clip_line(one, width) for one in islice(lines, max_rows))
