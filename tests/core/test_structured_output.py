from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import pytest

from tau.core.agent.structured_output import BadSchema, SchemaMismatch, parse_output_schema
from tau.core.checks.schema import schema_problems

REVIEW = {
    "type": "object",
    "properties": {"verdict": {"enum": ["good", "bad"]}, "score": {"type": "integer"}},
    "required": ["verdict"],
}


class Finding(msgspec.Struct):
    file: str
    line: int = 0


class Review(msgspec.Struct):
    verdict: str
    findings: list[Finding] = []


@dataclass
class Point:
    x: int
    y: int


class LikePydantic:
    """What is used of a model of pydantic's."""

    def __init__(self, n: int) -> None:
        self.n = n

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {
            "type": "object",
            "title": "Even",
            "properties": {"n": {"$ref": "#/$defs/Number"}},
            "required": ["n"],
            "$defs": {"Number": {"type": "integer"}},
        }

    @classmethod
    def model_validate(cls, value: Any) -> LikePydantic:
        if value["n"] % 2:
            raise ValueError("n must be even")
        return cls(value["n"])


def test_a_schema_of_an_object_is_what_the_tool_takes() -> None:
    aim = parse_output_schema(REVIEW)
    assert aim.parameters == REVIEW
    assert aim.parse_result({"verdict": "good", "score": "7"}) == ({"verdict": "good", "score": 7},) * 2


def test_what_does_not_fit_is_reported_to_the_model_as_of_any_tool() -> None:
    with pytest.raises(SchemaMismatch) as told:
        parse_output_schema(REVIEW).parse_result({"verdict": "so-so", "score": 1.5})
    assert str(told.value).splitlines()[:3] == [
        'Validation failed for tool "return_result":',
        "  - verdict: must be one of good, bad",
        "  - score: must be integer",
    ]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "string"}}, ["a", "b"]),
        ({"type": "string"}, "text"),
        ({"enum": [1, 2]}, 2),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
        ({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}, [1, 2]),
    ],
)
def test_a_result_that_is_not_object_is_handed_in_inside_of_one(schema: dict[str, Any], value: Any) -> None:
    aim = parse_output_schema(schema)
    assert aim.parameters["required"] == ["result"]
    assert aim.parse_result({"result": value}) == (value, value)
    with pytest.raises(SchemaMismatch, match="must have required property 'result'"):
        aim.parse_result({})


def test_a_struct_is_made_of_what_was_handed_in() -> None:
    aim = parse_output_schema(Review)
    assert aim.parameters["type"] == "object" and aim.parameters["required"] == ["verdict"]
    value, review = aim.parse_result({"verdict": "bad", "findings": [{"file": "a.py", "line": "3"}]})
    assert value == {"verdict": "bad", "findings": [{"file": "a.py", "line": 3}]}
    assert review == Review("bad", [Finding("a.py", 3)])
    with pytest.raises(SchemaMismatch, match=r"findings/0/file: must have required property 'file'"):
        aim.parse_result({"verdict": "bad", "findings": [{}]})


def test_a_dataclass_will_do() -> None:
    assert parse_output_schema(Point).parse_result({"x": 1, "y": 2})[1] == Point(1, 2)


def test_a_model_of_pydantic_is_recognized_by_what_it_can() -> None:
    aim = parse_output_schema(LikePydantic)
    value, even = aim.parse_result({"n": "4"})
    assert value == {"n": 4} and isinstance(even, LikePydantic) and even.n == 4
    with pytest.raises(SchemaMismatch, match="n must be even"):
        aim.parse_result({"n": 3})


@dataclass
class Both:
    first: LikePydantic
    rest: Annotated[dict[str, LikePydantic | None], "by name"]


def test_a_model_of_pydantic_can_be_a_part_of_a_type() -> None:
    aim = parse_output_schema(list[LikePydantic])
    value, evens = aim.parse_result({"result": [{"n": 4}, {"n": 6}]})
    assert value == [{"n": 4}, {"n": 6}] and [even.n for even in evens] == [4, 6]
    with pytest.raises(SchemaMismatch, match=r"\[1\]: n must be even"):
        aim.parse_result({"result": [{"n": 4}, {"n": 3}]})
    with pytest.raises(SchemaMismatch, match="result/0/n: must be integer"):
        aim.parse_result({"result": [{"n": "x"}]})
    aim = parse_output_schema(Both)
    assert aim.schema["properties"]["rest"]["description"] == "by name"
    both = aim.parse_result({"first": {"n": 2}, "rest": {"a": {"n": 4}, "b": None}})[1]
    assert both.first.n == 2 and both.rest["a"].n == 4 and both.rest["b"] is None


@pytest.mark.parametrize(
    ("schema", "problems"),
    [
        (REVIEW, []),
        ({"type": "object", "properties": {"a": {"if": {}}}}, ["/properties/a/if: this keyword is not supported"]),
        (
            {"patternProperties": {}, "not": {}},
            ["/patternProperties: this keyword is not supported", "/not: this keyword is not supported"],
        ),
        ({"type": "objekt"}, ["/type: there is no type 'objekt'"]),
        ({"$ref": "#/$defs/Nobody"}, ["/$ref: there is nothing at #/$defs/Nobody"]),
        ({"$ref": "https://example.com/x"}, ["/$ref: only references into the same schema (#/...) are supported"]),
        ({"anyOf": []}, ["/anyOf: must not be empty"]),
        ({"items": 5}, ["/items: a schema must be an object, true or false"]),
        ({"pattern": "("}, ["/pattern: invalid regular expression: '('"]),
        ({"minimum": "1"}, ["/minimum: must be a number"]),
        ({"$defs": {"x": {"dependentRequired": {}}}}, ["/$defs/x/dependentRequired: this keyword is not supported"]),
    ],
)
def test_a_schema_that_cannot_be_kept_is_refused_with_the_place(schema: Any, problems: list[str]) -> None:
    assert schema_problems(schema) == problems
    if problems:
        with pytest.raises(BadSchema) as told:
            parse_output_schema(schema)
        assert str(told.value) == "\n".join(problems)


class Plain:
    x: int


class Holder(msgspec.Struct):
    plain: Plain


class Described(msgspec.Struct):
    plain: Annotated[Plain, msgspec.Meta(extra_json_schema={"type": "integer"})]


@pytest.mark.parametrize("kind", [Plain, Holder])
def test_a_plain_class_is_refused_with_what_to_make_of_it(kind: type) -> None:
    kinds = "a dataclass, a TypedDict, a msgspec Struct or a pydantic model"
    with pytest.raises(BadSchema) as raised:
        parse_output_schema(kind)
    assert str(raised.value) == f"cannot make a JSON schema of {kind!r}: Plain has no JSON Schema; use {kinds}"


def test_a_plain_class_may_be_annotated_with_its_schema() -> None:
    assert parse_output_schema(Described).schema["properties"] == {"plain": {"type": "integer"}}


def test_what_has_no_schema_is_refused() -> None:
    with pytest.raises(BadSchema, match="cannot make a JSON schema of"):
        parse_output_schema(complex)
