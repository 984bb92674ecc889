"""Previews of results: the first or the last rows, and how many lines are left out."""

from __future__ import annotations

from collections.abc import Sequence

from tau.core.text.highlight import language_of_file
from tau.screen.cards.text import more, text_lines
from tau.screen.code import code_rows
from tau.screen.lines import Line
from tau.screen.look import Look, wrap
from tau.screen.safe_text import clean_text, output_lines

# How many rows of a result are shown unless it is expanded: the last ones of a command's output, the first of others.
PREVIEW_ROWS = {"bash": 5, "read": 10, "write": 10, "ls": 20, "find": 20, "grep": 15}
OTHER_ROWS = 10
PLAIN_COLUMNS = 500  # a line of plain text that is longer counts as several rows


def tail_rows(text: str, count: int, look: Look, style: str = "toolOutput", *, hidden: int = 0) -> list[Line]:
    """The end of command output; `hidden` lines before it are not in the text.

    Unless it is expanded, only what is shown is cleaned and wrapped.
    """
    text = text.rstrip("\n")
    if not text:
        return []
    shown, above = text.split("\n"), hidden
    if not look.expanded:
        _, shown = last_lines(text, count)
        above += text.count("\n") + 1 - len(shown)
        longest = (look.width or PLAIN_COLUMNS) * count * 4  # characters: some are in escape sequences
        shown = [line[-longest:] for line in shown]
    rows = [row for line in output_lines("\n".join(shown), style) for row in wrap(line, look.width)]
    if len(rows) > count and not look.expanded:
        above, rows = max(above, 1), rows[-count:]
    return [more(above, "earlier", look), *rows] if above else rows


def last_lines(text: str, count: int) -> tuple[str, list[str]]:
    parts = text.rsplit("\n", count)
    return (parts[0], parts[1:]) if len(parts) > count else ("", parts)


def head_of_text(text: str, count: int, look: Look, style: str = "toolOutput") -> list[Line]:
    text = text.rstrip("\n")
    if not text:
        return []
    shown, left = _first_lines(text, count, look)
    return _with_rest(text_lines(shown, look, style), count, left, look)


def head_of_code(text: str, path: str, count: int, look: Look) -> list[Line]:
    text = text.rstrip("\n")
    if not text:
        return []
    shown, left = _first_lines(text, count, look)
    rows = code_rows(clean_text(shown), language_of_file(path), look, "toolOutput")
    return _with_rest(rows, count, left, look)


def _first_lines(text: str, count: int, look: Look) -> tuple[str, int]:
    """The lines that are shown, and the number of those that are not."""
    if look.expanded:
        return text, 0
    parts = text.split("\n", count)
    left = parts[count].count("\n") + 1 if len(parts) > count else 0
    longest = (look.width or PLAIN_COLUMNS) * count
    return "\n".join(part[:longest] for part in parts[:count]), left


def _with_rest(rows: Sequence[Line], count: int, left: int, look: Look) -> list[Line]:
    if look.expanded or (len(rows) <= count and not left):
        return list(rows)
    return [*rows[:count], more(left or 1, "more", look)]
