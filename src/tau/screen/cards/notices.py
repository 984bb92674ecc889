"""Cards of notices, and of changes of the session: lines of text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from tau.screen.cards.text import clip, indented, text_lines
from tau.screen.cells import line_width
from tau.screen.lines import Line, Span
from tau.screen.look import Look, wrap
from tau.screen.safe_text import clean_text, one_line

NoticeKind = Literal["info", "warning", "error"]
RULE_COLUMNS = 80


class StaticCard:
    """A card that does not change by itself."""

    def state(self, now: float) -> Hashable:
        return None


class LineCard(StaticCard):
    """One dim line: the model or the thinking level changed, a session begins."""

    def __init__(self, text: str, *, rule: bool = False) -> None:
        self._text, self._rule = one_line(text), rule

    def rows(self, look: Look, now: float) -> list[Line]:
        if self._rule and not look.plain:
            row = clip((Span(f"── {self._text} ", "borderMuted"),), look)
            spare = min(look.width, RULE_COLUMNS) - line_width(row)
            return [(*row, Span("─" * spare, "borderMuted"))] if spare > 0 else [row]
        return wrap((Span(self._text, "dim"),), look.width)


_NOTICES: dict[NoticeKind, tuple[str, str]] = {
    "info": ("", "muted"),
    "warning": ("Warning: ", "warning"),
    "error": ("Error: ", "error"),
}


class NoticeCard:
    """A message of tau or of an extension. The kind is said in words, not by the colour alone."""

    def __init__(self, text: str, kind: NoticeKind = "info") -> None:
        self._text, self._kind = text, kind
        self._count = 1

    def repeat(self, text: str, kind: NoticeKind) -> bool:
        """Count the same problem again. False if it is another one, or no problem: then it needs a card of its own."""
        if kind == "info" or (text, kind) != (self._text, self._kind):
            return False
        self._count += 1
        return True

    def state(self, now: float) -> Hashable:
        return self._count

    def rows(self, look: Look, now: float) -> list[Line]:
        word, style = _NOTICES[self._kind]
        text = clean_text(self._text)
        if word and text.lower().startswith(word.lower()):
            word = ""
        if self._count > 1:
            text += f" ({self._count:,} times)"
        first, *others = (word + text).split("\n")
        rows = wrap((Span(first, style),), look.width)
        inside = look.narrower(2)
        return rows + [row for line in others for row in indented(text_lines(line, inside, style), look)]
