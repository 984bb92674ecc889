"""The search of the session picker: bare words, "phrases", and re: with a regular expression."""

from __future__ import annotations

import re
from typing import NamedTuple

from tau.records.replies import SessionRow
from tau.screen.fuzzy import fuzzy_score

MAX_TITLE = 200  # characters of a title that words are matched with loosely
MAX_EXPRESSION_TEXT = 20_000  # characters that a regular expression is searched in
IN_TEXT = -500.0  # the score of a word that stands in the conversation; below 0 is better
_TOKENS = re.compile(r'"([^"]*)"?|(\S+)')


class SessionItem(NamedTuple):
    """A session in the list. `text` is that of its messages, in lower case; it is known some time after the row."""

    row: SessionRow
    text: str = ""
    complete: bool = False  # the whole file has been read

    @property
    def title(self) -> str:
        """Its name, or how it begins."""
        return self.row.name if isinstance(self.row.name, str) and self.row.name else self.row.first_message

    def contains(self, words: str) -> bool:
        """True if `words`, in lower case, stand in the id, the name, the folder or a message."""
        row = self.row
        return words in f"{row.id}\n{self.title}\n{row.first_message}\n{row.cwd}".lower() or words in self.text


class SessionQuery(NamedTuple):
    """`words` match loosely in title and folder and exactly in messages, `phrases` exactly; all must match."""

    words: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    expression: re.Pattern[str] | None = None
    invalid: bool = False  # the expression is not one: nothing matches

    @classmethod
    def parse(cls, text: str) -> SessionQuery:
        text = text.strip()
        if text.startswith("re:"):
            try:
                return cls(expression=re.compile(text.removeprefix("re:").strip(), re.IGNORECASE))
            except (re.error, OverflowError, RecursionError):
                return cls(invalid=True)
        tokens = [(match[1], match[2]) for match in _TOKENS.finditer(text)]
        phrases = tuple(" ".join(phrase.lower().split()) for phrase, word in tokens if not word and phrase.strip())
        return cls(tuple(word.lower() for _, word in tokens if word), phrases)

    def score(self, item: SessionItem) -> float | None:
        """How well a session matches, lower is better; None if it does not."""
        if self.invalid:
            return None
        if self.expression is not None:
            row = item.row
            shown = f"{row.id}\n{item.title}\n{row.cwd}\n{item.text[:MAX_EXPRESSION_TEXT]}"
            return 0.0 if self.expression.search(shown) else None
        total = 0.0
        for phrase in self.phrases:
            if not item.contains(phrase):
                return None
        for word in self.words:
            score = self._word(word, item)
            if score is None:
                return None
            total += score
        return total

    def _word(self, word: str, item: SessionItem) -> float | None:
        for text in (item.title[:MAX_TITLE], item.row.cwd):
            score = fuzzy_score(word, text)
            if score is not None and score < IN_TEXT:
                return score
        if item.contains(word):
            return IN_TEXT
        name = item.row.name
        return fuzzy_score(word, name) if isinstance(name, str) else None
