"""The limit on nesting is ours: the same for every reader, on every version of Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.records.base import BadRecord, Raw, Record, decode, encode, parse, parse_stored, parse_text, wire_json
from tau.records.lines import UnknownEntry, message_json, read_entry, read_message, typed_messages
from tau.records.messages import Other
from tau.records.nesting import MAX_NESTING, MAX_RECEIVED_NESTING, depth, is_deeper, too_deep


class Loose(Record):
    known: Any = None
    id: Raw = Raw()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def levels_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(levels_of, value.values()), default=0)
    return 1 + max(map(levels_of, value), default=0) if isinstance(value, list) else 0


texts = st.text(alphabet='[]{}"\\/a\u00e9', max_size=6)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(values, st.booleans())
def test_the_depth_of_a_text_is_that_of_its_value(value: Any, ascii_only: bool) -> None:
    levels = levels_of(value)
    assert depth(json.dumps(value, ensure_ascii=ascii_only).encode()) == levels
    assert [is_deeper(value, limit) for limit in (levels - 1, levels)] == [levels > 0, False]


def test_brackets_in_strings_do_not_count() -> None:
    assert not too_deep(encode(["[{" * 10_000, '"' * 999 + "\\" * 999 + "[" * 9_999, {"{" * 5_000: 1}]))


READERS: dict[str, Callable[[bytes], Any]] = {
    "parse": parse,
    "parse_stored": parse_stored,
    "text": lambda data: parse_text(data.decode()),
    "text with half a character": lambda data: parse_text('["\ud800",' + data.decode() + "]"),
    "a field": lambda data: decode(Loose, b'{"known":' + data + b"}"),
    "an id": lambda data: decode(Loose, b'{"id":' + data + b"}"),
    "a field that is not read": lambda data: decode(Loose, b'{"other":' + data + b"}"),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_has_the_same_limit(name: str) -> None:
    outside = 0 if name in ("parse", "parse_stored", "text") else 1
    READERS[name](nested(MAX_NESTING - outside))
    for levels in (MAX_NESTING - outside + 1, 1_200, 5_000, 100_000):
        with pytest.raises(BadRecord, match=r"^nested too deeply$"):
            READERS[name](nested(levels))


def test_a_reader_can_have_a_lower_limit_or_none() -> None:
    parse(nested(MAX_RECEIVED_NESTING), MAX_RECEIVED_NESTING)
    with pytest.raises(BadRecord, match="nested too deeply"):
        parse(nested(MAX_RECEIVED_NESTING + 1), MAX_RECEIVED_NESTING)
    assert parse(nested(MAX_NESTING + 100), nesting=None)


CALL = '{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"1","name":"x","arguments":'
CALL_END = '}],"api":"a","provider":"p","model":"m","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,'
CALL_END += '"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop",'
CALL_END += '"timestamp":0}}'
RESULT = (
    '{"type":"message","message":{"role":"toolResult","toolCallId":"1","toolName":"x","content":[],"isError":false,'
)


@pytest.mark.parametrize(
    ("start", "end", "outside"),
    [(f'{CALL}{{"a":', "}" + CALL_END, 5), (f'{RESULT}"details":', ',"timestamp":0}}', 2)],
    ids=["arguments", "details"],
)
def test_messages_of_a_session_have_the_same_limit_one_by_one_and_in_blocks(start: str, end: str, outside: int) -> None:
    def line(levels: int) -> bytes:
        return f"{start}{nested(levels).decode()}{end}".encode()

    fine, deep = line(MAX_NESTING - outside), line(MAX_NESTING - outside + 1)
    assert depth(fine) == MAX_NESTING and not isinstance(read_message(message_json(fine)), Other)
    assert typed_messages(2, fine + b"\n" + fine) is not None
    assert typed_messages(2, fine + b"\n" + deep) is None
    with pytest.raises(BadRecord, match="nested too deeply"):
        message_json(deep)


def test_an_entry_that_is_too_deep_keeps_its_place_and_its_bytes() -> None:
    line = b'{"type":"custom","id":"a","parentId":"b","customType":"x","data":' + nested(MAX_NESTING) + b"}"
    entry = read_entry(line)
    assert (type(entry), entry.id, entry.parent_id, wire_json(entry)) == (UnknownEntry, "a", "b", line)


def test_what_is_at_the_limit_can_be_written_with_half_characters_and_numbers_that_json_does_not_have() -> None:
    value: Any = ["\ud800", float("nan")]
    for _ in range(MAX_NESTING - 1):
        value = {"a": value}
    assert levels_of(parse(encode(value))) == MAX_NESTING


@pytest.mark.parametrize("inner", [1, "\ud800"])
def test_a_value_that_is_too_deep_to_be_written_is_refused_in_words(inner: object) -> None:
    for _ in range(500_000):  # Python 3.14 writes more than 100,000 levels with a stack of 8 MB
        inner = [inner]
    with pytest.raises(BadRecord, match="nested too deeply"):
        encode(inner)
    while isinstance(inner, list):  # letting go of it all at once would be another recursion
        inner = inner.pop()
