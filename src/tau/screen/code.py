"""Source code as lines."""

from __future__ import annotations

from collections.abc import Iterable

from tau.core.text.highlight import Highlighter, Token, language_of_fence
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap

CODE = "mdCodeBlock"


def code_rows(text: str, info: str, look: Look, style: str = CODE) -> list[Line]:
    """Code, wrapped at the width. Nothing is put before or after a line: it can be copied."""
    highlighter = Highlighter(language_of_fence(info))
    lines = [token_line(highlighter.line(line), style) for line in text.split("\n")]
    return [row for line in lines for row in wrap(line, look.width)]


def token_line(tokens: Iterable[Token], style: str = CODE) -> Line:
    return tuple([Span(token.text, token.role or style) for token in tokens if token.text])


class CodeStream:
    """Highlights code that arrives in pieces."""

    def __init__(self) -> None:
        self._highlighter = Highlighter("")

    def lines(self, source: str, info: str, *, first: bool) -> tuple[Line, ...]:
        """The complete lines of the next piece; each ends with a line feed."""
        if first:
            self._highlighter = Highlighter(language_of_fence(info))
        return tuple([token_line(self._highlighter.line(line)) for line in source.split("\n")[:-1]])

    def preview(self, line: str, info: str, *, first: bool) -> Line:
        """The beginning of the next line."""
        highlighter = Highlighter(language_of_fence(info)) if first else self._highlighter
        return token_line(highlighter.preview(line))
