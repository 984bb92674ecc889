"""Syntax highlighting: source text as HTML, line by line.

The languages that are most common in sessions have a faster highlighter, in scanner.py.

Highlighting is limited: long blocks, and all code beyond a budget, stay plain. Only the languages of
core/text/highlight.py are supported, because a lexer is a set of regular expressions that hostile text can keep busy,
and these lexers were tested against that.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from tau.core.text.highlight import LANGUAGES
from tau.export import scanner
from tau.export.scanner import highlight
from tau.export.text import esc, valid_text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_BLOCK_CHARACTERS = 16_000  # a longer block stays plain
MAX_LINES = 200
MAX_LINE_CHARACTERS = 160  # a longer line stays plain, because lexers are slow on it
BUDGET_CHARACTERS = 400_000  # per page; each distinct block counts once

# A few classes are enough, and keep the page small.
_CLASSES = {
    "Keyword": "k",
    "Keyword.Type": "t",
    "Operator.Word": "k",
    "Name.Class": "t",
    "Name.Builtin": "t",
    "Name.Exception": "t",
    "Name.Function": "f",
    "Name.Tag": "k",
    "Name.Decorator": "a",
    "Name.Attribute": "a",
    "Name.Variable": "a",
    "Name.Constant": "n",
    "Literal.String": "s",
    "Literal.Number": "n",
    "Literal.Date": "n",
    "Comment": "c",
    "Generic.Prompt": "p",
    "Generic.Inserted": "i",
    "Generic.Deleted": "d",
    "Generic.Heading": "h",
    "Generic.Subheading": "h",
}


class Highlighter:
    """Highlights code until its budget is used up. Equal blocks are highlighted once.

    If there is more code than budget, only the initially visible part of each block is highlighted, so that a long
    page looks the same at its end.
    """

    def __init__(self, expected: int = 0, budget: int = BUDGET_CHARACTERS) -> None:
        self._is_limited = expected > budget
        self._budget = budget
        self._cache: dict[tuple[str, str], list[str]] = {}

    def beginning(self, text: str, language: str, shown: int) -> list[str]:
        """Return all lines of `text`, of which the first `shown` are visible initially."""
        rows = text.split("\n")
        if not self._is_limited or len(rows) <= shown:
            return self.lines(text, language)
        return self.lines("\n".join(rows[:shown]), language) + plain_lines("\n".join(rows[shown:]))

    def lines(self, text: str, language: str) -> list[str]:
        """Return each line of `text` as self-contained HTML."""
        name = LANGUAGES.get(language.lower(), "")
        if not name or len(text) > MAX_BLOCK_CHARACTERS or text.count("\n") >= MAX_LINES:
            return plain_lines(text)
        key = name, text
        if (cached := self._cache.get(key)) is not None:
            return cached
        if len(text) > self._budget:
            return plain_lines(text)
        self._budget -= len(text)
        self._cache[key] = rows = _highlighted(valid_text(text), name)
        return rows


def plain_lines(text: str) -> list[str]:
    return esc(text).split("\n")


def _highlighted(text: str, name: str) -> list[str]:
    lines = text.split("\n")
    plain = {number: esc(line) for number, line in enumerate(lines) if len(line) > MAX_LINE_CHARACTERS}
    if plain:
        text = "\n".join("" if number in plain else line for number, line in enumerate(lines))
    rows = highlight(text, name) if name in scanner.LANGUAGES else list(_rows(text, _lexer(name)))
    return [plain.get(number, row) for number, row in enumerate(rows)] if plain else rows


def _rows(text: str, lexer: Lexer) -> Iterator[str]:
    """Yield each line of valid text as HTML."""
    row = ""
    tokens = ((_class_of(kind), value) for _, kind, value in lexer.get_tokens_unprocessed(text))
    for name, group in groupby(tokens, key=itemgetter(0)):
        first, *others = escape("".join([value for _, value in group])).split("\n")
        row += _span(name, first)
        for part in others:
            yield row
            row = _span(name, part)
    yield row


def _span(name: str, html: str) -> str:
    return f'<span class="{name}">{html}</span>' if name and html and not html.isspace() else html


@cache
def _class_of(kind: tuple[str, ...]) -> str:
    """Return the CSS class of a token type, or of its nearest ancestor."""
    return next((name for end in range(len(kind), 0, -1) if (name := _CLASSES.get(".".join(kind[:end])))), "")


@cache
def _lexer(name: str) -> Lexer:
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(name)
