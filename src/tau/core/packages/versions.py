"""Versions and ranges of npm (semver), as far as package sources use them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tau.records.base import Value

_NUMBERS = r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
_VERSION = re.compile(rf"\s*(?:[v=]+\s*)?{_NUMBERS}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\s*")
_PARTIAL = re.compile(
    r"(?P<operator>\^|~>?|<=|>=|<|>|=)?\s*[v=]*(?P<major>\d+|[xX*])(?:\.(?P<minor>\d+|[xX*]))?(?:\.(?P<patch>\d+|[xX*])"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?)?"
)
_ANY = ("", "x", "X", "*")
MAX_LENGTH = 256  # characters of a version, as for npm


class Version(Value):
    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()

    @property
    def order(self) -> Any:
        """A key for comparisons."""
        # A release is later than its prereleases; numbers are earlier than words.
        words = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in self.prerelease)
        return self.numbers, not self.prerelease, words


class Comparator(Value):
    operator: str
    version: Version

    def accepts(self, found: Version) -> bool:
        return _COMPARE[self.operator](found.order, self.version.order)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "=": lambda left, right: left == right,
}


class Range(Value):
    """Alternatives, each a list of comparators that must all accept a version."""

    alternatives: list[list[Comparator]]

    def accepts(self, found: Version) -> bool:
        return any(_accepts(alternative, found) for alternative in self.alternatives)


def _accepts(comparators: list[Comparator], found: Version) -> bool:
    if not all(comparator.accepts(found) for comparator in comparators):
        return False
    if not found.prerelease:
        return True
    # A prerelease is meant only by a range that names one of the same release.
    return any(one.version.prerelease and one.version.numbers == found.numbers for one in comparators)


def parse_version(text: str) -> Version | None:
    match = _VERSION.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        return None
    return Version((int(match[1]), int(match[2]), int(match[3])), tuple(match[4].split(".")) if match[4] else ())


def parse_range(text: str) -> Range | None:
    """Parse a range such as `^1.2`, `>=1 <3 || 5.x`; None for anything else, such as a tag."""
    alternatives = []
    for part in text.split("||"):
        comparators = _alternative(part.strip())
        if comparators is None:
            return None
        alternatives.append(comparators)
    return Range(alternatives)


def _alternative(text: str) -> list[Comparator] | None:
    if text in _ANY:
        return [Comparator(">=", Version((0, 0, 0)))]
    ends = re.split(r"(?<!\s)\s+-\s+", text)
    if len(ends) == 2:
        low, high = _comparators(f">={ends[0]}"), _comparators(f"<={ends[1]}")
        return None if low is None or high is None else low + high
    found: list[Comparator] = []
    for word in re.sub(r"(?<![\^~<>=])([\^~<>=]+)\s+", r"\1", text).split():
        comparators = _comparators(word)
        if comparators is None:
            return None
        found += comparators
    return found


def _comparators(word: str) -> list[Comparator] | None:
    match = _PARTIAL.fullmatch(word) if len(word) <= MAX_LENGTH else None
    if match is None:
        return None
    given: list[int] = []
    for name in ("major", "minor", "patch"):
        if (match[name] or "") in _ANY:
            break
        given.append(int(match[name]))
    low = Version(_filled(given), tuple(match["pre"].split(".")) if match["pre"] and len(given) == 3 else ())
    operator = match["operator"] or "="
    if not given:
        return [Comparator("<", Version((0, 0, 0)))] if operator in ("<", ">") else [Comparator(">=", low)]
    return _bounds(operator.removesuffix(">") if operator == "~>" else operator, given, low)


def _bounds(operator: str, given: list[int], low: Version) -> list[Comparator]:
    if operator == "^":
        # The first number that is not zero may not change.
        at = next((at for at, number in enumerate(given) if number), len(given) - 1)
        return [Comparator(">=", low), _below(given[: at + 1])]
    if operator == "~":
        return [Comparator(">=", low), _below(given[:2])]
    if len(given) == 3:
        return [Comparator(operator, low)]
    if operator == "=":
        return [Comparator(">=", low), _below(given)]
    if operator == "<=":
        return [_below(given)]
    if operator == ">":
        return [Comparator(">=", Version(_below(given).version.numbers))]
    return [Comparator(operator, low)]


def _below(given: list[int]) -> Comparator:
    """Before the next release that differs in the last of these numbers."""
    return Comparator("<", Version(_filled([*given[:-1], given[-1] + 1]), ("0",)))


def _filled(numbers: list[int]) -> tuple[int, int, int]:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch
