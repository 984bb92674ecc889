"""Source text as HTML, line by line, coloured by the highlighter of the terminal.

Highlighting is limited: long blocks, and all code beyond a budget, stay plain.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tau.core.text.highlight import LANGUAGES, Highlighter, Token
from tau.export.text import esc, valid_text

MAX_BLOCK_CHARACTERS = 16_000  # a longer block stays plain
MAX_LINES = 200
BUDGET_CHARACTERS = 400_000  # per page; each distinct block counts once

# A few classes are enough, and keep the page small.
_CLASSES = {
    "syntaxKeyword": "k",
    "syntaxType": "t",
    "syntaxFunction": "f",
    "syntaxVariable": "a",
    "syntaxString": "s",
    "syntaxNumber": "n",
    "syntaxComment": "c",
    "toolDiffAdded": "i",
    "toolDiffRemoved": "d",
}
CODE_CLASSES = frozenset(_CLASSES.values())


class HtmlCode:
    """Writes code as HTML, coloured until its budget is used up. Equal blocks are highlighted once.

    If files have more characters than the budget, what tools get and return stays plain, so that a long page is made
    quickly and looks the same at its end; the code in answers is coloured.
    """

    def __init__(self, expected: int = 0, budget: int = BUDGET_CHARACTERS) -> None:
        self._is_limited = expected > budget
        self._budget = budget
        self._cache: dict[tuple[str, str], list[str]] = {}

    def of_tool(self, text: str, language: str) -> list[str]:
        """Return each line of a command, an argument or the content of a file."""
        return plain_lines(text) if self._is_limited else self.lines(text, language)

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
        highlighter = Highlighter(name)
        self._cache[key] = rows = [_html(highlighter.line(line)) for line in valid_text(text).split("\n")]
        return rows


def plain_lines(text: str) -> list[str]:
    return esc(text).split("\n")


def _html(tokens: Iterable[Token]) -> str:
    return "".join([_span(_CLASSES.get(role, ""), escape(text)) for text, role in tokens])


def _span(name: str, html: str) -> str:
    return f'<span class="{name}">{html}</span>' if name and not html.isspace() else html
