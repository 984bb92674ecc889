from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.rpc_process import quick
from tau.core.text.diff import Change, changes, common, lines, patch, shown

few = st.lists(st.sampled_from("abc"), max_size=12)


def patched(old: Sequence[Any], new: Sequence[Any], found: Sequence[Change]) -> list[Any]:
    """The old side with the changes made to it."""
    result: list[Any] = []
    past = 0
    for change in found:
        result += [*old[past : change.start], *new[change.new_start : change.new_end]]
        past = change.end
    return [*result, *old[past:]]


def cost(found: Sequence[Change]) -> int:
    return sum(change.end - change.start + change.new_end - change.new_start for change in found)


def least(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many removals and additions there must be, by the textbook."""
    row = list(range(len(new) + 1))
    for x, mine in enumerate(old, 1):
        above, row = row, [x]
        for y, other in enumerate(new, 1):
            row.append(above[y - 1] if mine == other else 1 + min(above[y], row[y - 1]))
    return row[-1]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),
        ("abc", "abc", []),
        ("abc", "aXc", [(1, 2, 1, 2)]),
        ("abc", "ac", [(1, 2, 1, 1)]),
        ("ac", "abc", [(1, 1, 1, 2)]),
        ("abc", "abbc", [(2, 2, 2, 3)]),
        ("", "ab", [(0, 0, 0, 2)]),
        ("abcdef", "Xbcdey", [(0, 1, 0, 1), (5, 6, 5, 6)]),
    ],
)
def test_what_changed(old: str, new: str, found: list[Change]) -> None:
    assert changes(old, new) == found


@given(few, few)
def test_the_changes_make_one_of_the_other_and_are_as_few_as_can_be(old: list[str], new: list[str]) -> None:
    found = changes(old, new)
    assert patched(old, new, found) == new
    assert cost(found) == least(old, new)
    assert all(one.end < two.start for one, two in pairwise(found))


@given(few, few, st.integers(0, 30))
def test_with_few_steps_the_changes_are_still_true(old: list[str], new: list[str], steps: int) -> None:
    assert patched(old, new, changes(old, new, steps)) == new


@given(few, few)
def test_a_common_beginning_is_counted(one: list[str], two: list[str]) -> None:
    longest = max(at for at in range(min(len(one), len(two)) + 1) if one[:at] == two[:at])
    assert common(one, two) == longest


@pytest.mark.parametrize("kinds", [1, 4, 10**9])
def test_one_change_among_50000_lines_is_found_at_once(kinds: int) -> None:
    dice = random.Random(1)
    old = [b"%d\n" % dice.randrange(kinds) for _ in range(50_000)]
    new = [*old[:40_000], b"new\n", *old[40_001:]]

    def measure() -> float:
        started = time.process_time()
        assert changes(old, new) == [(40_000, 40_001, 40_000, 40_001)]
        return time.process_time() - started

    quick(measure, 0.05)


def test_many_changes_among_50000_lines_are_found_soon() -> None:
    dice = random.Random(1)
    old = [b"%d\n" % dice.randrange(4) for _ in range(50_000)]
    new = list(old)
    for _ in range(200):
        new[dice.randrange(len(new))] = b"%d\n" % dice.randrange(10**9)
    found = found_soon(old, new)
    assert patched(old, new, found) == new
    assert len(found) > 150


def test_texts_without_a_likeness_are_given_up_soon() -> None:
    dice = random.Random(1)
    old, new = ([b"%d\n" % dice.randrange(3) for _ in range(50_000)] for _ in range(2))
    assert patched(old, new, found_soon(old, new)) == new


def found_soon(old: list[bytes], new: list[bytes]) -> list[Change]:
    found: list[Change] = []

    def measure() -> float:
        started = time.process_time()
        found[:] = changes(old, new)
        return time.process_time() - started

    quick(measure, 1)
    return found


# As it is shown


def diff(old: bytes, new: bytes) -> str:
    before, after = lines(old), lines(new)
    return shown(before, after, changes(before, after))


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(first, last + 1))


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        (b"alpha\nbeta\ngamma\n", b"alpha\nBETA\ngamma\n", [" 1 alpha", "-2 beta", "+2 BETA", " 3 gamma"]),
        (b"a\nb\n", b"a\n", [" 1 a", "-2 b"]),
        (b"a\n", b"a\nb\nc\n", [" 1 a", "+2 b", "+3 c"]),
        (b"b\n", b"a\nb\n", ["+1 a", " 1 b"]),
        (b"", b"a", ["+1 a"]),
        (b"a", b"a\n", ["-1 a", "+1 a"]),
        (b"a\r\nb\r\n", b"a\r\nc\r\n", [" 1 a", "-2 b", "+2 c"]),
        (b"caf\xe9\n", b"tea\n", ["-1 caf\ufffd", "+1 tea"]),
    ],
)
def test_a_row_is_a_sign_a_number_and_the_text(old: bytes, new: bytes, rows: list[str]) -> None:
    assert diff(old, new) == "\n".join(rows)


def test_four_lines_around_a_change_are_shown_and_dots_for_the_others() -> None:
    old = numbers(1, 20)
    new = old.replace(b"line 10\n", b"ten\nand more\n")
    assert diff(old, new).split("\n") == [
        "    ...",
        *("  6 line 6", "  7 line 7", "  8 line 8", "  9 line 9"),
        *("-10 line 10", "+10 ten", "+11 and more"),
        *(" 11 line 11", " 12 line 12", " 13 line 13", " 14 line 14"),
        "    ...",
    ]


def test_dots_stand_between_changes_that_are_far_apart() -> None:
    old = numbers(1, 9)
    near = diff(numbers(1, 8), numbers(2, 7)).split("\n")
    assert near == ["-1 line 1", *(f" {n} line {n}" for n in range(2, 8)), "-8 line 8"]
    far = diff(b"x\n" + old + b"y\n", b"X\n" + old + b"Y\n").split("\n")
    assert far == [
        *("- 1 x", "+ 1 X"),
        *("  2 line 1", "  3 line 2", "  4 line 3", "  5 line 4"),
        "    ...",
        *("  7 line 6", "  8 line 7", "  9 line 8", " 10 line 9"),
        *("-11 y", "+11 Y"),
    ]


def test_lines_after_an_insertion_at_the_very_beginning_are_shown() -> None:
    old = numbers(1, 20)
    new = b"first\n" + old.replace(b"line 20", b"last")
    assert diff(old, new).split("\n")[:6] == [
        *("+ 1 first", "  1 line 1", "  2 line 2", "  3 line 3", "  4 line 4"),
        "    ...",
    ]


def test_numbers_are_as_wide_as_the_count_of_lines_that_read_tells() -> None:
    assert diff(numbers(1, 9), b"x\n" + numbers(2, 9)).startswith("- 1 line 1\n+ 1 x\n")
    assert diff(numbers(1, 8), b"x\n" + numbers(2, 8)).startswith("-1 line 1\n+1 x\n")


def test_a_patch_has_the_changes_with_what_is_around_them() -> None:
    old = [b"%d\n" % at for at in range(1, 21)]
    new = [*old[:1], b"two\n", *old[2:-1], b"20"]
    assert patch("f", old, new, changes(old, new)).split("\n") == [
        *("--- f", "+++ f"),
        *("@@ -1,6 +1,6 @@", " 1", "-2", "+two", " 3", " 4", " 5", " 6"),
        *("@@ -16,5 +16,5 @@", " 16", " 17", " 18", " 19", "-20", "+20", "\\ No newline at end of file", ""),
    ]
