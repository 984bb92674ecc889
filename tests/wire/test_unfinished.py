from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.rpc_process import quick
from tau.records.base import MAX_RECEIVED_NESTING
from tau.wire.unfinished import Unfinished


def fed(*pieces: str) -> Unfinished:
    unfinished = Unfinished()
    for piece in pieces:
        unfinished.feed(piece)
    return unfinished


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        # nothing usable yet
        ("", "{}"),
        (" \n\t\r", "{}"),
        ("-", "{}"),
        ("tru", "{}"),
        # strings
        ('{"a":"', '{"a":""}'),
        ('{"a":"b', '{"a":"b"}'),
        ('{"a":"b\\', '{"a":"b"}'),
        ('{"a":"b\\n', '{"a":"b\\n"}'),
        ('{"a":"b\\\\', '{"a":"b\\\\"}'),
        ('{"a":"b\\"', '{"a":"b\\""}'),
        ('{"a":"b\\u', '{"a":"b"}'),
        ('{"a":"b\\u12', '{"a":"b"}'),
        ('{"a":"b\\u12aF', '{"a":"b\\u12aF"}'),
        ('{"a":"b"', '{"a":"b"}'),
        ('{"a":"日本\u2028', '{"a":"日本\u2028"}'),
        # halves of surrogate pairs
        ('{"a":"b\\ud83d', '{"a":"b"}'),
        ('{"a":"b\\ud83d\\', '{"a":"b"}'),
        ('{"a":"b\\ud83d\\ude0', '{"a":"b"}'),
        ('{"a":"b\\ud83d\\ude00', '{"a":"b\\ud83d\\ude00"}'),
        ('{"a":"b\\uD83D\\uD83D\\uDE00', '{"a":"b\\uD83D\\uD83D\\uDE00"}'),
        ('{"a":"b\\ud83d\\n', '{"a":"b\\ud83d\\n"}'),
        ('{"a":"b\\ud83dc', '{"a":"b\\ud83dc"}'),
        ('{"a":"b\\ud83d"', '{"a":"b\\ud83d"}'),
        ('{"a":"b\\ude00', '{"a":"b\\ude00"}'),
        # members
        ("{", "{}"),
        ("  {  ", "  {}"),
        ('{"', "{}"),
        ('{"a', "{}"),
        ('{"a\\', "{}"),
        ('{"a\\u00e4\\ud83d', "{}"),
        ('{"a"', "{}"),
        ('{"a" : ', "{}"),
        ('{"a":1,', '{"a":1}'),
        ('{"a":1 , ', '{"a":1}'),
        ('{"a":1,"b', '{"a":1}'),
        ('{"a":1,"b":', '{"a":1}'),
        ('{"a":1,"b":"', '{"a":1,"b":""}'),
        ('{"a":1}', '{"a":1}'),
        ('{"a":{', '{"a":{}}'),
        ('{"a":{"b":[{"c', '{"a":{"b":[{}]}}'),
        ('{"a":{"b":[{"c":"d"}],"e', '{"a":{"b":[{"c":"d"}]}}'),
        # elements
        ("[", "[]"),
        ("[ ", "[]"),
        ("[]", "[]"),
        ('["a', '["a"]'),
        ("[[1],", "[[1]]"),
        ("[1,tru", "[1]"),
        ("[1,true", "[1,true]"),
        ("[true,false,null,{}", "[true,false,null,{}]"),
        # numbers
        ('{"a":-', "{}"),
        ('{"a":1', '{"a":1}'),
        ('{"a":12.', '{"a":12}'),
        ('{"a":12.50', '{"a":12.50}'),
        ('{"a":1e', '{"a":1}'),
        ('{"a":1.5E-', '{"a":1.5}'),
        ('{"a":1.5E-07', '{"a":1.5E-07}'),
        ('{"a":-0.0e+1', '{"a":-0.0e+1}'),
        ("[1,-", "[1]"),
        # the top level is not an object
        ("12", "12"),
        ("12.", "12"),
        (' "a', ' "a"'),
        ("null\n ", "null"),
    ],
)
def test_what_is_there_is_closed_and_what_is_half_is_left_out(text: str, completed: str) -> None:
    for unfinished in (fed(text), fed(*text)):
        assert (unfinished.completed(), unfinished.broken) == (completed, False)
    json.loads(completed)


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ('{"a":1}}', '{"a":1}'),
        ('{"a":1} {"b":2}', '{"a":1}'),
        ("1 2", "1"),
        ("[1,,2]", "[1]"),
        ("[1,]", "[1]"),
        ("[,1]", "[]"),
        ("[1 2]", "[1]"),
        ("[1}", "[1]"),
        ('{"a":1]', '{"a":1}'),
        ('{"a" 1}', "{}"),
        ('{"a",1}', "{}"),
        ('{"a":1,}', '{"a":1}'),
        ('{"a":}', "{}"),
        ("{,}", "{}"),
        ("{1:2}", "{}"),
        ("{a:1}", "{}"),
        ('{"a":01}', '{"a":0}'),
        ('{"a":-01}', '{"a":-0}'),
        ('{"a":1.}', '{"a":1}'),
        ('{"a":1.e5}', '{"a":1}'),
        ('{"a":1e+}', '{"a":1}'),
        ('{"a":1.2.3}', '{"a":1.2}'),
        ('{"a":-}', "{}"),
        ('{"a":--1}', "{}"),
        ('{"a":+1}', "{}"),
        ('{"a":.5}', "{}"),
        ('{"a":0x1f}', '{"a":0}'),
        ('{"a":\u0661}', "{}"),
        ('{"a":trux}', "{}"),
        ('{"a":truee}', '{"a":true}'),
        ('{"a":NaN}', "{}"),
        ('{"a":Infinity}', "{}"),
        ("{'a':1}", "{}"),
        ('{"a":1 // b\n}', '{"a":1}'),
        ('{"a":"b\nc"}', '{"a":"b"}'),
        ('{"a":"b\tc"}', '{"a":"b"}'),
        ('{"a":"b\x00c"}', '{"a":"b"}'),
        ('{"a":1,"b\nc":2}', '{"a":1}'),
        ('{"a":"b\\x"}', '{"a":"b"}'),
        ('{"a":"b\\u12g4"}', '{"a":"b"}'),
        ('{"a":"b\\ud83d\\x"}', '{"a":"b"}'),
        ('{"a":"b\\\n"}', '{"a":"b"}'),
        ('\ufeff{"a":1}', "{}"),
        ('{"a":1,\u00a0"b":2}', '{"a":1}'),
        ("}", "{}"),
        ("oops", "{}"),
    ],
)
def test_what_is_malformed_keeps_the_good_part_before_it(text: str, completed: str) -> None:
    for unfinished in (fed(text), fed(*text), fed(text, '"more":"text"}')):
        assert (unfinished.completed(), unfinished.broken) == (completed, True)
    json.loads(completed)


def test_the_text_is_kept_whole_even_when_it_is_broken() -> None:
    assert fed().text == ""
    assert fed("[1,", ",2", "]").text == "[1,,2]"


def test_a_cut_splices_without_parsing() -> None:
    unfinished = fed('{"path":"a.py","edits":[{"old":"x\\', 'n","new"', ":")
    assert unfinished.cut() == (len('{"path":"a.py","edits":[{"old":"x\\n"'), "}]}")
    unfinished.feed('"y')
    assert unfinished.cut() == (len(unfinished.text), '"}]}')


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
styles = st.sampled_from(
    [
        {},
        {"ensure_ascii": False},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
    ]
)


@settings(deadline=None, max_examples=50)  # each example reads every prefix
@given(values, styles)
def test_every_prefix_is_valid_json_and_the_whole_is_the_value(value: Any, style: dict[str, Any]) -> None:
    text = json.dumps(value, **style)
    unfinished = Unfinished()
    kept = 0
    for end in range(len(text) + 1):
        n, suffix = unfinished.cut()
        assert kept <= n <= end
        assert unfinished.completed() == text[:n] + suffix == fed(text[:end]).completed()
        json.loads(text[:n] + suffix)
        kept = n
        unfinished.feed(text[end : end + 1])
    assert not unfinished.broken
    assert unfinished.cut() == (len(text), "")
    assert json.loads(unfinished.completed()) == value


@settings(deadline=None)
@given(st.text('{}[]:,"\\u0d8c1-.eE+tfnrlas \n'), st.data())
def test_pieces_make_no_difference_and_nothing_makes_it_invalid(text: str, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, parts, chars = fed(text), fed(*pieces), fed(*text)
    assert (whole.cut(), whole.broken) == (parts.cut(), parts.broken) == (chars.cut(), chars.broken)
    json.loads(whole.completed())


def accepted(text: str) -> bool:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@settings(deadline=None)
@given(st.text('{}[]:,"\\u0d8c1-.eE+ \n', max_size=8))
def test_it_is_as_strict_as_a_parser(text: str) -> None:
    unfinished = fed(text)
    whole = unfinished.cut() == (len(text.rstrip()), "") and not unfinished.broken
    assert whole == accepted(text)


def time_to_feed(text: str) -> float:
    unfinished = Unfinished()
    start = process_time()
    for at in range(0, len(text), 20):
        unfinished.feed(text[at : at + 20])
        unfinished.cut()
    return process_time() - start


@pytest.mark.parametrize(
    "text",
    [
        '{"content":"' + 'def f():\\n    return \\"x\\"  # \\u00e4 \\ud83d\\ude00\\n' * 20_000,
        '{"content":"' + "x" * 1_000_000,
        '{"rows":[' + '{"a": 1.5, "b": [true, null, "c"]},\n  ' * 25_000,
        "[" * 50_000 + '{"a":' * 10_000,
        "1" * 1_000_000,
        " " * 1_000_000,
    ],
    ids=["code", "plain", "rows", "deep", "digits", "space"],
)
def test_a_long_text_costs_what_its_length_costs(text: str) -> None:
    quick(lambda: time_to_feed(text), 2)  # takes about 0.2 s; anything quadratic takes minutes


def test_what_is_nested_too_deeply_keeps_the_part_above_the_limit() -> None:
    fitting = "[" * MAX_RECEIVED_NESTING
    assert (fed(fitting).broken, fed(fitting).cut()) == (False, (len(fitting), "]" * len(fitting)))
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000):
        assert (fed(text).broken, fed(text).cut()) == (True, (len(fitting), "]" * len(fitting)))


def test_many_escapes_in_one_piece_are_all_kept() -> None:
    text = '{"command": "' + "echo 'gr\\u00fc\\u00dfe' \\\"x\\\"\\n" * 1_000
    for size in (3, 700, len(text)):
        unfinished = fed(*(text[at : at + size] for at in range(0, len(text), size)))
        assert unfinished.cut() == (len(text), '"}')
