"""Fuzzy matching: which candidates contain the characters of a query in order, and how well.

The cost is linear in the length of the candidates; nothing is compiled per candidate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import TypeVar

T = TypeVar("T")

_SEPARATORS = frozenset("/\\-_. :@#")


def fuzzy_score(query: str, candidate: str) -> float | None:
    """The score of a match, lower is better; None if the candidate does not match. Case does not matter.

    Runs of characters, and characters at the beginning of words, are better than scattered ones; a whole substring
    is better than any scattered match.
    """
    if not query:
        return 0.0
    wanted, text = query.lower(), candidate.lower()
    if (at := text.find(wanted)) >= 0:
        return _substring_score(wanted, text, at)
    score, at, run, last = 0.0, 0, 0, -1
    for character in wanted:
        found = text.find(character, at)
        if found < 0:
            return None
        if found == last + 1 and last >= 0:
            run += 1
            score -= 5 * run
        else:
            run = 0
            score += 2 * (found - last - 1) if last >= 0 else 0.1 * found
        if found == 0 or text[found - 1] in _SEPARATORS:
            score -= 10
        last, at = found, found + 1
    return score + 0.1 * len(text)


def _substring_score(wanted: str, text: str, at: int) -> float:
    """Better at the beginning of a word, in the last part of a path, at its beginning, and as the whole name."""
    name = text.rfind("/", 0, max(len(text) - 1, 0)) + 1  # where the last part of a path begins
    better = 0.0
    for place in {at, text.rfind(wanted), text.find(wanted, name)} - {-1}:
        value = 20.0 if place == 0 or text[place - 1] in _SEPARATORS else 0.0
        if place >= name:
            value += 10.0
        if place == name:
            rest = text[place + len(wanted) :]
            value += 15.0 if not rest or rest[0] in "./" else 8.0
        better = max(better, value)
    exact = 100.0 if wanted == text else 0.0
    return -1000.0 - 5.0 * len(wanted) - better - exact + 0.1 * len(text)


def fuzzy_rank(query: str, candidates: Iterable[T], text: Callable[[T], str], limit: int = 0) -> list[T]:
    """The candidates that match every word of the query, best first; equal ones in their order.

    With `limit`, only the best `limit` of them.
    """
    words = query.split()
    if not words:
        found = list(candidates)
        return found[:limit] if limit else found
    scored = []
    for index, candidate in enumerate(candidates):
        total = 0.0
        shown = text(candidate)
        for word in words:
            score = fuzzy_score(word, shown)
            if score is None:
                break
            total += score
        else:
            scored.append((total, index, candidate))
    best = nsmallest(limit, scored, key=_order) if limit else sorted(scored, key=_order)
    return [candidate for _, _, candidate in best]


def _order(scored: tuple[float, int, T]) -> tuple[float, int]:
    return scored[:2]


def subsequence_pattern(word: str) -> re.Pattern[str]:
    """A pattern that finds the lines of a text that contain the characters of a word in order.

    Each character is looked for from the one before it, without backtracking: the cost is linear in the text.
    """
    steps = (f"[^\n{re.escape(character)}]*+{re.escape(character)}" for character in word)
    return re.compile("^" + "".join(steps), re.MULTILINE)
