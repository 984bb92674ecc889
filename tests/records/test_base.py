from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.records.base import (
    UNSET,
    BadRecord,
    Raw,
    Record,
    UnsetType,
    attach_source,
    decode,
    encode,
    escape_separators,
    parse,
    to_builtins,
    wire_json,
)


class Point(Record):
    x_place: int
    name: str | UnsetType | None = UNSET
    points: list[Point] = []
    side: Literal["left", "right"] | UnsetType = UNSET


DEEP = b"[" * 100_000 + b"]" * 100_000
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_names_are_camel_case_on_the_wire_and_absent_is_not_null() -> None:
    assert encode([Point(1), Point(2, None), Point(3, "c")]) == (
        b'[{"xPlace":1,"points":[]},{"xPlace":2,"name":null,"points":[]},{"xPlace":3,"name":"c","points":[]}]'
    )


def test_what_was_left_out_is_unset_and_null_is_none() -> None:
    assert decode(list[Point], b'[{"xPlace":1},{"xPlace":2,"name":null}]') == [Point(1), Point(2, None)]


@given(JSON)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    assert parse(encode(value)) == value


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d", "\ude00\ud83d"])
def test_a_lone_surrogate_is_written_escaped_and_read_back(text: str) -> None:
    assert encode({"a": text}).isascii()
    assert parse(encode({"a": text})) == {"a": text}
    assert decode(Point, encode(Point(1, text))) == Point(1, text)


def test_a_pair_in_two_halves_is_one_character_for_the_reader() -> None:
    assert parse(encode("\ud83d\ude00")) == "😀"


def test_line_separators_are_written_escaped() -> None:
    assert encode({"\u2028": "a\u2029b"}) == b'{"\\u2028":"a\\u2029b"}'
    assert encode(Raw('{"a":"\u2028"}'.encode())) == b'{"a":"\\u2028"}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_no_number_is_written_that_json_does_not_have(number: float) -> None:
    assert encode([number]) == b"[null]"
    assert encode([number, "\ud800"]) == b'[null,"\\ud800"]'


def test_numbers_of_any_size_are_kept() -> None:
    assert parse(encode([2**70, -(2**70), 0.1])) == [2**70, -(2**70), 0.1]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (DEEP, "nested too deeply"),
        (b'["\\ud800",' + DEEP + b"]", "nested too deeply"),
        (b'"\xff"', "not valid UTF-8"),
        (b'["\\ud800","\xff"]', "not valid UTF-8"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_few_words(data: bytes, error: str) -> None:
    with pytest.raises(BadRecord) as caught:
        parse(data)
    assert str(caught.value) == error


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"{", b"[1,]", b"{} {}", b"'a'", b"\x00", b'"\x01"', b"\xef\xbb\xbf{}"),
        *(b"NaN", b"[Infinity]", b"1e999", b'["\\ud800",NaN]', b'["\\ud800",-1e999]', b"1" * 5000),
    ],
)
def test_only_json_is_read(data: bytes) -> None:
    with pytest.raises(BadRecord):
        parse(data)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"{}", "xPlace: missing"),
        (b'{"xPlace":"a"}', "xPlace: expected int, got str"),
        (b'{"xPlace":1,"name":[]}', "name: expected str | null, got array"),
        (b'{"xPlace":1,"name":"\\ud800","points":5}', "points: expected array, got int"),
        (b'{"xPlace":1,"points":[{"xPlace":2},{}]}', "points[1].xPlace: missing"),
        (
            b'{"xPlace":1,"points":[{"xPlace":1,"points":[{"xPlace":null}]}]}',
            "points[0].points[0].xPlace: expected int, got null",
        ),
        (b'{"xPlace":1,"side":"x"}', "side: invalid enum value 'x'"),
        (b"[]", "expected object, got array"),
        (b'{"xPlace":1,"name":"\xff"}', "not valid UTF-8"),
        (b'{"xPlace":1,"more":' + DEEP + b"}", "nested too deeply"),
    ],
)
def test_an_error_names_the_place(data: bytes, error: str) -> None:
    with pytest.raises(BadRecord) as caught:
        decode(Point, data)
    assert str(caught.value) == error


def test_fields_of_another_version_survive_byte_for_byte() -> None:
    data = b'{ "xPlace":1, "new":[1.50,"\\ud800", {"a":null}], "xPlace2":"\\u00e9" }'
    assert wire_json(attach_source(decode(Point, data), data)) == data


def test_a_record_of_ours_is_encoded_once() -> None:
    point = Point(1)
    assert wire_json(point) == b'{"xPlace":1,"points":[]}'
    assert wire_json(point) is wire_json(point)


def test_a_record_as_plain_values_has_wire_names() -> None:
    given = {"a": Point(1, None, [Point(2, "b")]), "raw": Raw(b'{"c":[1]}')}
    assert to_builtins(given) == {
        "a": {"xPlace": 1, "name": None, "points": [{"xPlace": 2, "name": "b", "points": []}]},
        "raw": {"c": [1]},
    }


class Labelled(Record):
    id: Raw = Raw()
    label: str = ""


def test_a_field_that_is_kept_as_bytes_is_read_even_beside_a_lone_surrogate() -> None:
    line = b'{"id":{"a":"\\ud83d"},"label":"\\ud83d","other":"\\ud83d"}'
    found = decode(Labelled, line)
    assert (bytes(found.id), found.label) == (b'{"a":"\\ud83d"}', "\ud83d")
    assert bytes(decode(Labelled, b'{"other":"\\ud83d"}').id) == b""


def test_what_is_kept_as_bytes_is_written_as_it_is_even_beside_a_lone_surrogate() -> None:
    assert encode({"raw": Raw(b'{"c":[1]}')}) == b'{"raw":{"c":[1]}}'
    assert encode({"raw": Raw(b'{"c":[1]}'), "text": "\ud800"}) == b'{"raw":{"c":[1]},"text":"\\ud800"}'


def test_line_separators_are_escaped_however_many_signs_look_like_them_at_first() -> None:
    for before in ("", "—", "─" * 3000):
        assert escape_separators(f'"{before}\u2028 \u2029"'.encode()) == f'"{before}\\u2028 \\u2029"'.encode()
        assert escape_separators(f'"{before}"'.encode()) == f'"{before}"'.encode()
