from __future__ import annotations

from typing import Any

import pytest

from tau.core.checks.schema import MAX_PROBLEMS, check_arguments, schema_problems, validate, validation_error
from tau.core.text.truncate import MAX_BYTES, MAX_LINES, TRUNCATION_NOTICE

BASH = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "timeout": {"type": "number", "minimum": 0}},
    "required": ["command"],
}


def tool(required: bool = True, **schema: Any) -> dict[str, Any]:
    """A tool with one argument, `x`."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}


def fitted(schema: dict[str, Any], value: Any) -> Any:
    arguments, problems = check_arguments(schema, {"x": value})
    assert problems == []
    return arguments.get("x", "left out")


def problem(schema: dict[str, Any], value: Any) -> list[str]:
    return check_arguments(schema, {"x": value})[1]


def test_arguments_that_fit_are_taken_as_they_are() -> None:
    assert check_arguments(BASH, {"command": "ls", "timeout": 5}) == ({"command": "ls", "timeout": 5}, [])


@pytest.mark.parametrize(
    ("kind", "sent", "meant"),
    [
        ("number", "2", 2),
        ("number", "2.5", 2.5),
        ("number", "-1e3", -1000),
        ("number", "9007199254740993", 9007199254740993),
        ("integer", "2", 2),
        ("integer", 2.0, 2),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("array", '["a", 1]', ["a", 1]),
        ("object", '{"a": 1}', {"a": 1}),
        ("string", "5", "5"),
        (["integer", "null"], "5", 5),
        (["integer", "null"], 2.0, 2),
        (["null", "boolean"], "true", True),
        (["object", "array"], "[1]", [1]),
        (["integer", "string"], "5", "5"),
        (["integer", "number"], 2.0, 2.0),
    ],
)
def test_models_that_send_the_right_thing_as_text_are_understood(kind: str | list[str], sent: Any, meant: Any) -> None:
    got = fitted(tool(type=kind), sent)
    assert (got, type(got)) == (meant, type(meant))


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        *(("string", value) for value in (5, True, None, ["ls"], {"a": 1})),
        *(("number", value) for value in ("two", "", "nan", "inf", "1e999", "1_000", True, None, [])),
        *(("integer", value) for value in ("2.5", 2.5, "x", False)),
        *(("boolean", value) for value in ("yes", 1, 0, "True")),
        *(("array", value) for value in ("a", "{}", "[1", {})),
        *(("object", value) for value in ("a", "[]", [])),
    ],
)
def test_nothing_else_is_guessed(kind: str, sent: Any) -> None:
    assert problem(tool(type=kind), sent) == [f"x: must be {kind}"]


def test_null_for_what_is_optional_is_as_good_as_nothing() -> None:
    assert fitted(tool(required=False, type="string"), None) == "left out"
    assert fitted(tool(required=False, anyOf=[{"type": "string"}, {"type": "number"}]), None) == "left out"
    assert fitted(tool(required=False, type=["string", "null"]), None) is None


def test_what_the_message_holds_is_not_touched() -> None:
    sent = {"command": "ls", "timeout": "5", "more": [1]}
    assert check_arguments(BASH, sent)[0] == {"command": "ls", "timeout": 5, "more": [1]}
    assert sent == {"command": "ls", "timeout": "5", "more": [1]}


def test_every_problem_is_reported_with_its_place() -> None:
    edits = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"oldText": {"type": "string", "minLength": 1}, "count": {"type": "integer"}},
                    "required": ["oldText"],
                },
            },
        },
        "required": ["path", "edits"],
    }
    assert check_arguments(edits, {"edits": [{"oldText": "a", "count": "2"}, {"count": "x"}, 5, {"oldText": ""}]})[
        1
    ] == [
        "path: must have required property 'path'",
        "edits/1/oldText: must have required property 'oldText'",
        "edits/1/count: must be integer",
        "edits/2: must be object",
        "edits/3/oldText: must NOT have fewer than 1 characters",
    ]


@pytest.mark.parametrize(
    ("schema", "sent", "problems"),
    [
        ({"enum": ["a", "b"]}, "a", []),
        ({"enum": ["a", "b"]}, "c", ["x: must be one of a, b"]),
        ({"type": "number", "minimum": 1, "maximum": 3}, 1, []),
        ({"type": "number", "minimum": 1, "maximum": 3}, "0", ["x: must be >= 1"]),
        ({"type": "number", "minimum": 1, "maximum": 3}, 4, ["x: must be <= 3"]),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, 5, []),
        ({"anyOf": [{"type": "boolean"}, {"type": "number"}]}, [], ["x: must be boolean"]),
        ({"type": ["string", "number"]}, 5, []),
        ({"type": ["string", "null"]}, None, []),
        ({}, {"anything": 1}, []),
    ],
)
def test_choices_and_bounds_are_kept(schema: dict[str, Any], sent: Any, problems: list[str]) -> None:
    assert problem(tool(**schema), sent) == problems


@pytest.mark.parametrize("sent", [[], "text", None, 5])
def test_arguments_that_are_no_object_are_refused(sent: Any) -> None:
    assert check_arguments(BASH, sent) == ({}, ["root: must be object"])


def test_an_unknown_argument_is_a_problem_where_the_schema_allows_none() -> None:
    assert check_arguments({"type": "object", "properties": {}}, {"y": 1}) == ({"y": 1}, [])
    strict = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
    assert check_arguments(strict, {"x": 1, "y": 1})[1] == ["y: unknown field"]
    assert check_arguments(tool(**strict), {"x": {"y": None}})[1] == ["x/y: unknown field"]
    assert validate(strict, {"y": 1})[1] == ["y: unknown field"]


@pytest.mark.parametrize(
    ("schema", "sent", "expected"),
    [
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, 2.0, "2"),
        ({"type": "string"}, 2.5, "2.5"),
        ({"type": "string"}, True, "true"),
        ({"type": "number"}, True, 1),
        ({"type": "integer"}, "true", 1),
        ({"type": "boolean"}, 1, True),
        ({"type": "boolean"}, 0, False),
        ({"type": "array"}, "x", ["x"]),
        ({"type": "array"}, "[1]", [1]),
        ({"type": "array"}, {"a": 1}, [{"a": 1}]),
        ({"type": "array", "items": {"type": "string"}}, 5, ["5"]),
        ({"type": "array", "items": {"type": "string"}}, "2.50", ["2.50"]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", True], [1, 1]),
        ({"type": ["string", "integer"]}, 2.5, "2.5"),
        ({"type": ["array", "null"]}, '["a"]', ["a"]),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 5, "5"),
        ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}, "x", "x"),
        ({"type": "string", "enum": ["1"]}, 1, "1"),
    ],
)
def test_tools_of_servers_get_the_plain_conversions_of_pi(schema: dict[str, Any], sent: Any, expected: Any) -> None:
    converted, problems = check_arguments(tool(**schema), {"x": sent}, convert=True)
    assert not problems
    assert repr(converted) == repr({"x": expected})  # 1 is not True


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        *(("string", value) for value in (None, ["a"], {})),
        *(("number", value) for value in (None, "", "x", [5])),
        *(("integer", value) for value in (2.5, "2.5", None)),
        *(("boolean", value) for value in (2, "yes", "1", None)),
        *(("object", value) for value in (5, "[1]", ["a"])),
        ("array", None),
    ],
)
def test_a_conversion_that_would_lose_something_is_not_made(kind: str, sent: Any) -> None:
    assert check_arguments(tool(type=kind), {"x": sent}, convert=True)[1] == [f"x: must be {kind}"]


def test_a_default_stands_for_a_required_argument_of_a_tool_of_a_server() -> None:
    schema = tool(type="string", default="png")
    assert check_arguments(schema, {}, convert=True) == ({"x": "png"}, [])
    assert check_arguments(schema, {"x": None}, convert=True) == ({"x": "png"}, [])
    assert check_arguments(schema, {"x": "jpeg"}, convert=True) == ({"x": "jpeg"}, [])
    assert check_arguments(schema, {})[1] == ["x: must have required property 'x'"]
    nullable = tool(type=["string", "null"], default="png")
    assert check_arguments(nullable, {"x": None}, convert=True) == ({"x": None}, [])
    senseless = tool(type="string", default={})
    assert check_arguments(senseless, {}, convert=True)[1] == ["x: must have required property 'x'"]


def test_the_model_is_shown_what_it_sent() -> None:
    arguments = {"cmd": "ls", "é": "\ud800"}
    assert validation_error("bash", check_arguments(BASH, arguments)[1], arguments) == (
        'Validation failed for tool "bash":\n'
        "  - command: must have required property 'command'\n\n"
        'Received arguments:\n{\n  "cmd": "ls",\n  "é": "\ud800"\n}'
    )


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["n"],
        }
    },
}


def test_a_schema_may_refer_to_itself() -> None:
    assert validate(TREE, {"n": "1", "children": [{"n": 2}]}) == ({"n": 1, "children": [{"n": 2}]}, [])
    assert validate(TREE, {"n": 1, "children": [{"children": []}]})[1] == [
        "children/0/n: must have required property 'n'"
    ]
    assert validate({"$ref": "#"}, 1)[1] == ["root: nested too deeply"]


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"const": "a"}, "a", []),
        ({"const": 1}, True, ["root: must be 1"]),
        ({"enum": [1, 2]}, True, ["root: must be one of 1, 2"]),
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, 2, []),
        ({"exclusiveMinimum": 1}, 1, ["root: must be > 1"]),
        ({"exclusiveMaximum": 3}, 3, ["root: must be < 3"]),
        ({"multipleOf": 0.1}, 0.3, []),
        ({"multipleOf": 2}, 3, ["root: must be a multiple of 2"]),
        ({"maxLength": 2}, "abc", ["root: must NOT have more than 2 characters"]),
        ({"pattern": "^a+$"}, "aa", []),
        ({"pattern": "^a+$"}, "ab", ['root: must match pattern "^a+$"']),
        ({"minItems": 1}, [], ["root: must NOT have fewer than 1 items"]),
        ({"maxItems": 1}, [1, 2], ["root: must NOT have more than 1 items"]),
        ({"uniqueItems": True}, [1, True, "1"], []),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], ["root: must NOT have duplicate items"]),
        ({"minProperties": 1}, {}, ["root: must NOT have fewer than 1 properties"]),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, [1, "a"], []),
        ({"prefixItems": [{"type": "integer"}], "items": False}, [1, "a"], ["1: must not be present"]),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, []),
        ({"additionalProperties": {"type": "integer"}}, {"a": "b"}, ["a: must be integer"]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, ["root: must be <= 2"]),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "5", []),
        (
            {"oneOf": [{"minimum": 1}, {"maximum": 5}]},
            3,
            ["root: must match exactly one of several schemas, but matches 2"],
        ),
        (
            {"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}]},
            "b",
            ["root: must NOT have fewer than 2 characters"],
        ),
        ({"minimum": "nonsense", "pattern": "("}, 1, []),
    ],
)
def test_the_rest_of_the_language(schema: dict[str, Any], value: Any, problems: list[str]) -> None:
    assert validate(schema, value)[1] == problems


def test_of_several_schemas_the_one_that_takes_the_value_as_it_is_comes_first() -> None:
    assert validate({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5") == ("5", [])
    assert validate({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5") == (5, [])


def test_what_is_wrong_is_reported_for_the_nearest_of_several_schemas() -> None:
    point = {"type": "object", "properties": {"at": {"type": "object", "required": ["x"]}}}
    assert validate({"anyOf": [{"type": "null"}, point]}, {"at": {}})[1] == ["at/x: must have required property 'x'"]


def test_a_schema_that_is_nested_too_deeply_is_reported_and_not_walked() -> None:
    schema: Any = {}
    for _ in range(3_000):
        schema = {"properties": {"a": schema}}
    (problem,) = schema_problems(schema)
    assert problem.endswith("nested too deeply")


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return {"command": value}


@pytest.mark.parametrize(
    "arguments",
    [
        {"content": "x" * 300_000},
        {"content": "é\n" * 100_000},
        {f"name{number}": number for number in range(20_000)},
        {"command": ["line"] * 50_000},
        {"n" * 300_000: 1},
        _nested(200),
        _nested(800),
    ],
    ids=["long", "lines", "many", "list", "name", "nested", "nested deeply"],
)
def test_a_complaint_keeps_to_the_limits_of_a_result(arguments: Any) -> None:
    said = validation_error("bash", check_arguments(BASH, arguments)[1], arguments)
    assert len(said.encode()) <= MAX_BYTES and said.count("\n") < MAX_LINES
    assert said.endswith(TRUNCATION_NOTICE)


def test_only_the_first_of_many_mistakes_is_reported() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    arguments = {"n" * 300_000: ["x"] * 100_000}
    problems = check_arguments(schema, arguments)[1]
    assert len(problems) == MAX_PROBLEMS
    assert problems[-1] == f"{'n' * 100}.../{MAX_PROBLEMS - 1}: must be integer"
    assert len(validation_error("any", problems, arguments).encode()) <= MAX_BYTES


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("date", "2024-02-29", "2023-02-29"),
        ("date-time", "2026-01-01T10:00:00.5+01:00", "2026-01-01T10:00:00"),
        ("time", "23:59:60Z", "12:00:60Z"),
        ("duration", "P1DT2H", "1D"),
        ("email", "a.b@example.org", "a..b@example.org"),
        ("hostname", "example.org", "-example.org"),
        ("ipv4", "10.0.0.255", "10.0.0.256"),
        ("ipv6", "::ffff:1.2.3.4", "1::2::3"),
        ("json-pointer", "/a/~0", "a"),
        ("regex", "a+", "("),
        ("uri", "https://example.org/a?b=%20", "no address"),
        ("url", "mailto:a@example.org", "http:///path"),
        ("uuid", "0a1b2c3d-0000-4000-8000-0123456789ab", "0a1b2c3d"),
    ],
)
def test_the_format_of_an_argument_is_checked(name: str, valid: str, invalid: str) -> None:
    assert fitted(tool(type="string", format=name), valid) == valid
    assert problem(tool(type="string", format=name), invalid) == [f'x: must match format "{name}"']
    assert validate({"type": "string", "format": name}, invalid) == (invalid, [])  # elsewhere it is an annotation


def test_a_format_that_is_not_known_is_not_checked() -> None:
    assert fitted(tool(type="string", format="colour"), "anything") == "anything"
    assert fitted(tool(type=["string", "number"], format="date"), 5) == 5


def test_the_items_of_a_tuple_are_checked_one_by_one() -> None:
    schema = tool(type="array", items=[{"type": "string"}, {"type": "number"}], additionalItems=False)
    assert fitted(schema, ["a", "2"]) == ["a", 2]
    assert problem(schema, [1, 2, 3]) == ["x/0: must be string", "x/2: must not be present"]
