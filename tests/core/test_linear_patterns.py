"""Patterns of untrusted schemas: as `re` says, and never slow."""

from __future__ import annotations

import random
import re
import time

import pytest

from tau.core.checks import linear_patterns
from tau.core.checks.linear_patterns import _prepared, matches_pattern
from tau.core.checks.schema import check_arguments

# With `re`, each of these takes longer than anyone waits.
SLOW = {
    "repeat in a repeat": ("^(a+)+$", "a" * 50 + "!"),
    "choice in a repeat": ("(a|a)*b$", "a" * 60),
    "overlapping choices": ("^(a|aa)+$", "a" * 80 + "!"),
    "optional in a repeat": ("^(a?){60}$", "a" * 61),
    "many optional": ("^" + "a?" * 40 + "a" * 40 + "$", "a" * 39),
    "words": (r"^(\w+\s?)*$", "a" * 60 + "!"),
    "mail address": (r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+$", "a" * 60),
    "lazy": ("^(a+?)+?$", "a" * 50 + "!"),
    "repeats in a row": ("a*a*a*a*a*a*b", "a" * 2000),
    "anything in a row": ("(.*)(.*)(.*)(.*)(.*)x", "a" * 2000),
    "a long text": ("(a+)b", "a" * 20_000),
    "a reference": (r"^(a+)+\1$", "a" * 50 + "!"),
    "an assertion in a repeat": (r"^((?=a)a+)+$", "a" * 50 + "!"),
    "a large count": ("^((a{1,50}){1,50}){1,50}$", "a" * 60 + "!"),
}
UNDECIDED = ("a reference", "an assertion in a repeat", "a large count")


@pytest.mark.parametrize("name", SLOW)
def test_no_pattern_is_slow(name: str) -> None:
    pattern, text = SLOW[name]
    began = time.process_time()
    assert matches_pattern(pattern, text) is (name in UNDECIDED)
    assert time.process_time() - began < 5


def test_an_automaton_says_what_re_says() -> None:
    """Random patterns on short texts, which `re` matches quickly."""
    random_one = random.Random(7)
    compared = 0
    for _ in range(800):
        pattern = _random_pattern(random_one, 3)
        found = _prepared(pattern)
        if found is None or found[2] is None:
            continue
        for _ in range(3):
            text = "".join(random_one.choices("ab1_ \n", k=random_one.randrange(7)))
            compared += 1
            assert found[2].search(text) is (re.search(pattern, text) is not None), (pattern, text)
    assert compared > 1200


def _random_pattern(source: random.Random, depth: int) -> str:
    if depth == 0 or source.random() < 0.3:
        return source.choice(
            [
                "a",
                "b",
                ".",
                "[ab]",
                "[^a]",
                r"\w",
                r"\W",
                r"\d",
                r"\s",
                "^",
                "$",
                r"\b",
                r"\B",
                r"\Z",
                "[a-b1]",
                "\n",
                "",
            ]
        )
    part = lambda: _random_pattern(source, depth - 1)  # noqa: E731
    match source.randrange(4):
        case 0:
            return part() + part()
        case 1:
            return f"({part()}|{part()})"
        case 2:
            return f"(?:{part()}){source.choice(['*', '+', '?', '{2}', '{1,3}', '*?', '{2,}'])}"
        case _:
            return f"({part()}){part()}"


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(", "x", True),  # not a pattern
        (5, "x", True),
        (None, "x", True),
        ("^[a-z0-9]+(-[a-z0-9]+)*$", "a-slug-of-words", True),
        ("^[a-z0-9]+(-[a-z0-9]+)*$", "Not a slug", False),
        (r"^(?=.*[a-z])(?=.*\d).{8,}$", "password1", True),
        (r"^(?=.*[a-z])(?=.*\d).{8,}$", "password", False),
        ("(?i)^(ab+)+$", "ABBAB", True),
        (r"(?m)^(b+)+$", "a\nbb\nc", True),
        (r"(?s)^(.+)+c$", "a\nc", True),
        ("^(é|ü)+$", "éüé", True),
        (r"^(\w+ )*\w+$", "Ünïcode wörds ٣", True),
    ],
)
def test_ordinary_patterns_are_checked(pattern: object, text: str, matches: bool) -> None:
    assert matches_pattern(pattern, text) is matches


def test_few_patterns_are_kept_and_few_moves_of_each() -> None:
    texts = ("".join(random.Random(seed).choices("abcdefgh", k=200)) + "!" for seed in range(20))
    for text in texts:
        matches_pattern("^(([a-d]+|[c-f]+|[e-h]+)*[aceg]?)*$", text)
    found = _prepared("^(([a-d]+|[c-f]+|[e-h]+)*[aceg]?)*$")
    assert found is not None and found[2] is not None
    assert len(found[2]._moves) <= linear_patterns.MAX_CACHED_MOVES


# Other ways in which a schema can take for ever, or is none.

ITSELF = {"$ref": "#/$defs/a"}
ENDLESS = {
    "alternatives": {"$defs": {"a": {"anyOf": [ITSELF, ITSELF]}}, **ITSELF},
    "exclusive alternatives": {"$defs": {"a": {"oneOf": [ITSELF, ITSELF]}}, **ITSELF},
    "all of": {"$defs": {"a": {"allOf": [ITSELF, ITSELF]}}, **ITSELF},
    "itself": {"$ref": "#"},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_schema_that_refers_to_itself_ends_in_an_error(schema: dict[str, object]) -> None:
    began = time.process_time()
    _, problems = check_arguments(schema, {"x": {"x": {"y": 1}}})
    assert problems and time.process_time() - began < 10


def test_unique_items_of_a_long_list_are_found_quickly() -> None:
    schema = {"properties": {"x": {"type": "array", "uniqueItems": True}}}
    items: list[object] = [*range(20_000), {"number": 7, "more": [7, "7"]}]
    began = time.process_time()
    assert check_arguments(schema, {"x": items})[1] == []
    assert check_arguments(schema, {"x": [*items, {"more": [7.0, "7"], "number": 7}]})[1] == [
        "x: must NOT have duplicate items"
    ]
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("items", "has_duplicates"),
    [
        ([1, True], False),
        ([0, False, None, "", [], {}], False),
        ([1, 1.0], True),
        ([[1], [1.0]], True),
        ([{}, {}], True),
    ],
)
def test_unique_items_are_those_of_json(items: list[object], has_duplicates: bool) -> None:
    schema = {"properties": {"x": {"uniqueItems": True}}}
    assert bool(check_arguments(schema, {"x": items})[1]) is has_duplicates
