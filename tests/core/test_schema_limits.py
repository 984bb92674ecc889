"""Schemas of strangers: whatever they contain, a validation ends soon and without an exception."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tau.core.checks.schema import MAX_STEPS, check_arguments, is_readable, schema_problems, validate, without_patterns

ENDLESS = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/a"}},
    "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
}


def test_choices_that_refer_to_themselves_end() -> None:
    assert schema_problems(ENDLESS) == []  # nothing is wrong with it, except that it means nothing
    _, problems = check_arguments(ENDLESS, {"x": 1})
    assert problems and all("too much to check" in one or "nested too deeply" in one for one in problems)


def test_a_large_value_is_still_checked() -> None:
    items = list(range(MAX_STEPS // 8))
    assert validate({"type": "array", "items": {"type": "integer"}}, items) == (items, [])


def test_a_long_enumeration_counts() -> None:
    schema = {"type": "array", "items": {"enum": [f"{at}" for at in range(20_000)]}}
    assert any("too much" in problem for problem in validate(schema, ["19999"] * 400)[1])


def test_duplicates_are_found_without_comparing_all_pairs() -> None:
    unique = {"uniqueItems": True}
    assert validate(unique, [[at] for at in range(20_000)])[1] == []
    for same in ([1, 1.0], [{"a": [1]}, {"a": [1]}], ["x", "x"], [None, None]):
        assert validate(unique, same)[1] == ["root: must NOT have duplicate items"]
    for different in ([1, True], [0, False], ["1", 1], [{"a": 1}, {"a": True}], [[1], 1], [{}, []]):
        assert validate(unique, different)[1] == []


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"multipleOf": 5e-324}, 1, False),
        ({"multipleOf": 1.5}, 10**400, False),
        ({"multipleOf": 7}, 7 * 10**400, True),
        ({"multipleOf": 7}, 7 * 10**400 + 1, False),
        ({"pattern": "a{99999999999999}"}, "a", True),  # not a pattern: not applied
    ],
)
def test_numbers_beyond_all_limits_do_no_harm(schema: dict[str, Any], value: Any, fits: bool) -> None:
    assert (validate(schema, value)[1] == []) is fits


@pytest.mark.parametrize("schema", [{"pattern": "a{99999999999999}"}, {"$ref": f"#/a/{'9' * 5000}", "a": [1]}])
def test_a_schema_that_cannot_be_read_is_a_problem_and_no_exception(schema: dict[str, Any]) -> None:
    assert schema_problems(schema) and not is_readable(schema)


def test_patterns_of_strangers_are_removed_wherever_a_reference_may_find_them() -> None:
    slow = "(a+)+$"
    text = {"type": "string", "pattern": slow}
    schema = {
        "properties": {"pattern": {"type": "string"}, "x": text, "y": {"$ref": "#/enum/0"}, "z": {"items": [text]}},
        "$defs": {"a": {"anyOf": [text]}},
        "default": text,
        "enum": [text],
        "const": {"kept": slow},
    }
    safe = without_patterns(schema)
    assert re.findall(r"'pattern': '", str(safe)) == []
    assert safe["properties"]["pattern"] == {"type": "string"} and safe["const"] == {"kept": slow}
    assert validate(safe["properties"]["x"], "a" * 40 + "!") == ("a" * 40 + "!", [])
