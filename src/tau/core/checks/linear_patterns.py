"""Regular expressions of untrusted schemas, matched in bounded time.

`re` backtracks: with (a+)+$ a text of forty characters takes longer than anyone waits, and the whole process waits,
because `re` holds the interpreter. So the cost of a match is estimated first. If it may be high, the pattern is matched
by simulating a finite automaton, which takes time linear in the text. Patterns that no automaton can match (references
to groups, assertions) are matched by `re` if that is cheap, and otherwise count as matching.
"""

from __future__ import annotations

import math
import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_STEPS = 5_000_000  # of a match by `re`: a tenth of a second or so
MAX_STATES = 5_000
MAX_CACHED_MOVES = 20_000
MAX_PATTERNS = 64  # compiled ones that are kept

Test = Callable[[str], bool]
Condition = Callable[[str, str, bool], bool]  # the characters before and after, and whether only a newline follows
Repeat = tuple[int, int, Any]
REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
LOOKAROUND = (op.ASSERT, op.ASSERT_NOT)


def matches_pattern(pattern: Any, text: str) -> bool:
    """Whether the pattern occurs in the text. True also for what is not a pattern, and for one that takes too long."""
    found = _prepared(pattern) if isinstance(pattern, str) else None
    if found is None:
        return True
    compiled, cost, automaton = found
    if cost.of(len(text)) <= MAX_STEPS:
        return compiled.search(text) is not None
    return automaton.search(text) if automaton is not None else True


class Unsupported(Exception):
    """An automaton cannot match this."""


class Cost:
    """An upper bound for the steps of `re`: powers of the length for repeats in a row, none for repeats in repeats."""

    def __init__(self, items: Any) -> None:
        self._nested = False
        self._choices = 1.0
        self._powers = 1 + self._count(items, within_repeat=False)  # 1: the match may begin anywhere

    def of(self, length: int) -> float:
        if self._nested:
            return math.inf
        try:
            return float(max(length, 1)) ** self._powers * self._choices
        except OverflowError:
            return math.inf

    def _count(self, items: Any, *, within_repeat: bool) -> int:
        in_row, beside = 0, 0
        for code, argument in items:
            if code in LOOKAROUND:
                beside = max(beside, self._count(argument[1], within_repeat=within_repeat))
            else:
                in_row += self._count_one(code, argument, within_repeat)
        return max(in_row, beside)

    def _count_one(self, code: Any, argument: Any, within_repeat: bool) -> int:
        if code in REPEATS or code is op.POSSESSIVE_REPEAT:
            return self._count_repeat(argument, within_repeat)
        if code is op.BRANCH:
            self._nested = self._nested or within_repeat
            self._choices *= len(argument[1])
            return max(self._count(branch, within_repeat=within_repeat) for branch in argument[1])
        if code is op.SUBPATTERN:
            return self._count(argument[3], within_repeat=within_repeat)
        if code is op.ATOMIC_GROUP:
            return self._count(argument, within_repeat=within_repeat)
        if code is op.GROUPREF_EXISTS:
            self._nested = True
        return 0

    def _count_repeat(self, repeat: Repeat, within_repeat: bool) -> int:
        least, most, body = repeat
        varies = least != most
        self._nested = self._nested or (varies and within_repeat)
        inner = self._count(body, within_repeat=within_repeat or most > 1)
        if not varies:
            return inner
        if most == 1:
            self._choices *= 2
            return inner
        return inner + 1


class Automaton:
    """A nondeterministic automaton. A state is a character test, a condition, a fork, or the end."""

    def __init__(self, items: Any, flags: int) -> None:
        """Raises Unsupported."""
        self._dot_all, self._multiline = bool(flags & re.DOTALL), bool(flags & re.MULTILINE)
        if flags & (re.IGNORECASE | re.ASCII | re.LOCALE):
            raise Unsupported
        self._tests: dict[int, tuple[Test, int]] = {}
        self._conditions: dict[int, tuple[Condition, int]] = {}
        self._forks: dict[int, tuple[int, ...]] = {}
        self._count = 1  # state 0 is the end
        self._start = self._sequence(items, 0)
        self._moves: dict[Any, frozenset[int] | None] = {}

    def search(self, text: str) -> bool:
        states: frozenset[int] = frozenset()
        for at in range(len(text) + 1):
            before, after = text[at - 1 : at], text[at : at + 1]
            last = after == "" or (after == "\n" and at == len(text) - 1)
            # Of what follows, only this matters here; so the key has it instead of the character.
            follows = (after == "", after == "\n", _is_word(after), last)
            key = states, before, follows
            if key not in self._moves:
                if len(self._moves) >= MAX_CACHED_MOVES:
                    self._moves.clear()
                self._moves[key] = self._move(states, before, after, last)
            found = self._moves[key]
            if found is None:
                return True
            states = found
        return False

    def _move(self, states: frozenset[int], before: str, after: str, last: bool) -> frozenset[int] | None:
        """The tests that are reached after the character `before`, from these or from the start; None at the end."""
        waiting = [then for test, then in map(self._tests.__getitem__, states) if test(before)]
        waiting.append(self._start)
        seen: set[int] = set()
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            if state == 0:
                return None
            if state in self._conditions:
                condition, then = self._conditions[state]
                if condition(before, after, last):
                    waiting.append(then)
            waiting += self._forks.get(state, ())
        return frozenset(seen & self._tests.keys())

    # Construction, from the end to the start: each part gets the state that follows it.

    def _new(self) -> int:
        self._count += 1
        if self._count > MAX_STATES:
            raise Unsupported
        return self._count - 1

    def _sequence(self, items: Any, then: int) -> int:
        for code, argument in reversed(list(items)):
            then = self._part(code, argument, then)
        return then

    def _part(self, code: Any, argument: Any, then: int) -> int:
        if code in REPEATS:
            return self._repeat(argument, then)
        if code is op.SUBPATTERN:
            _, added, removed, body = argument
            if added or removed:
                raise Unsupported
            return self._sequence(body, then)
        if code is op.BRANCH:
            return self._fork(*(self._sequence(branch, then) for branch in argument[1]))
        state = self._new()
        if code is op.AT:
            self._conditions[state] = self._condition(argument), then
        else:
            self._tests[state] = _test(code, argument, self._dot_all), then
        return state

    def _fork(self, *states: int) -> int:
        state = self._new()
        self._forks[state] = states
        return state

    def _repeat(self, repeat: Repeat, then: int) -> int:
        least, most, body = repeat
        if most is op.MAXREPEAT:
            loop = self._fork()
            self._forks[loop] = (self._sequence(body, loop), then)
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._fork(self._sequence(body, then), end)
        for _ in range(least):
            then = self._sequence(body, then)
        return then

    def _condition(self, code: Any) -> Condition:
        if code is op.AT_BEGINNING and self._multiline:
            return lambda before, after, last: before in ("", "\n")
        if code is op.AT_END and self._multiline:
            return lambda before, after, last: after in ("", "\n")
        if code in _CONDITIONS:
            return _CONDITIONS[code]
        raise Unsupported


_CONDITIONS: dict[Any, Condition] = {  # without \B, which means something else for an empty text since Python 3.14
    op.AT_BEGINNING: lambda before, after, last: before == "",
    op.AT_BEGINNING_STRING: lambda before, after, last: before == "",
    op.AT_END: lambda before, after, last: last,
    op.AT_END_STRING: lambda before, after, last: after == "",
    op.AT_BOUNDARY: lambda before, after, last: _is_word(before) != _is_word(after),
}
_CATEGORIES: dict[Any, Test] = {
    op.CATEGORY_DIGIT: str.isdecimal,
    op.CATEGORY_NOT_DIGIT: lambda character: not character.isdecimal(),
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_NOT_SPACE: lambda character: not character.isspace(),
    op.CATEGORY_WORD: lambda character: _is_word(character),
    op.CATEGORY_NOT_WORD: lambda character: not _is_word(character),
}


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _test(code: Any, argument: Any, dot_all: bool) -> Test:
    if code is op.LITERAL:
        wanted = chr(argument)
        return lambda character: character == wanted
    if code is op.NOT_LITERAL:
        other = chr(argument)
        return lambda character: character not in ("", other)
    if code is op.ANY:
        return (lambda character: character != "") if dot_all else (lambda character: character not in ("", "\n"))
    if code is op.IN:
        return _set_test(argument)
    raise Unsupported


def _set_test(items: Any) -> Test:
    negated = bool(items) and items[0][0] is op.NEGATE
    tests = [_item_test(*item) for item in items[negated:]]
    return lambda character: character != "" and any(test(character) for test in tests) != negated


def _item_test(code: Any, argument: Any) -> Test:
    if code is op.RANGE:
        first, last = map(chr, argument)
        return lambda character: first <= character <= last
    if code is op.CATEGORY:
        return _CATEGORIES[argument]
    return _test(code, argument, dot_all=False)


@lru_cache(maxsize=MAX_PATTERNS)
def _prepared(pattern: str) -> tuple[re.Pattern[str], Cost, Automaton | None] | None:
    """The compiled pattern, what it costs, and an automaton for it if there can be one; None if it is invalid."""
    try:
        compiled = re.compile(pattern)
        items = parser.parse(pattern)
        cost = Cost(items)
    except (re.error, RecursionError, OverflowError):
        return None
    try:
        return compiled, cost, Automaton(items, compiled.flags)
    except (Unsupported, RecursionError):
        return compiled, cost, None
