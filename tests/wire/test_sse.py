from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.errors import ModelError
from tau.wire.sse import SSEDecoder

Events = list[tuple[str, str]]


def read(*portions: bytes, limit: int = 1000) -> Events:
    decoder = SSEDecoder(limit)
    return [event for portion in portions for event in decoder.feed(portion)]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


LAWS: dict[str, tuple[str, Events]] = {
    "an event has a name and data": ('event: x\ndata: {"a": 1}\n\n', [("x", '{"a": 1}')]),
    "without a name it is a message": ("data: 1\n\n", [("message", "1")]),
    "an empty name is no name": ("event: \ndata: 1\n\nevent\ndata: 2\n\n", [("message", "1"), ("message", "2")]),
    "a name holds for one event": ("event: x\ndata: 1\n\ndata: 2\n\n", [("x", "1"), ("message", "2")]),
    "the last name counts": ("event: x\nevent: y\ndata: 1\n\n", [("y", "1")]),
    "the name may come after the data": ("data: 1\nevent: x\n\n", [("x", "1")]),
    "data lines are joined": ("data: 1\ndata: 2\ndata:\ndata\n\n", [("message", "1\n2\n\n")]),
    "one space goes, no more": (
        "data:1\n\ndata:  1 \n\nevent:  x\ndata:\t1\n\n",
        [("message", "1"), ("message", " 1 "), (" x", "\t1")],
    ),
    "empty data is data": ("data\n\ndata:\n\ndata: \n\n", [("message", "")] * 3),
    "an event without data is not given": ("event: x\n\ndata: 1\n\n", [("message", "1")]),
    "comments are passed over": (": ping\n\n:\nevent: x\n: ping\ndata: 1\n\n: ping\n\n", [("x", "1")]),
    "id, retry and strangers are passed over": ("id: 7\nretry: 9\nData: 0\ndatas: 0\ndata: 1\n\n", [("message", "1")]),
    "an error without data is an event": (
        'error: {"code":500}\n\nerror: x\ndata: 1\n\n',
        [("error", '{"code":500}'), ("message", "1")],
    ),
    "more empty lines change nothing": ("\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n\n", [("message", "1"), ("message", "2")]),
    "CRLF ends lines": ("event: x\r\ndata: 1\r\ndata: 2\r\n\r\n", [("x", "1\n2")]),
    "a lone CR ends lines": ("event: x\rdata: 1\rdata: 2\r\r", [("x", "1\n2")]),
    "line ends may be mixed": ("event: x\rdata: 1\r\ndata: 2\n\rdata: 3\r\n\n", [("x", "1\n2"), ("message", "3")]),
    "U+2028 does not end a line": ("data: a\u2028b\u0085c\x0b\x0c\n\n", [("message", "a\u2028b\u0085c\x0b\x0c")]),
    "a BOM at the start is passed over": ("\ufeffdata: 1\n\n", [("message", "1")]),
    "a BOM elsewhere is content": (
        "data: 1\n\n\ufeffdata: 2\n\ndata: \ufeff\n\n",
        [("message", "1"), ("message", "\ufeff")],
    ),
    "a BOM after an empty line is not at the start": ("\n\ufeffdata: 1\n\n", []),
    "what is not ended is not given": ("data: 1\n\ndata: 2\n", [("message", "1")]),
    "colons belong to the value": ("data: a: b\n\n", [("message", "a: b")]),
    "characters stay whole": ("event: ü\ndata: 日本 🎉\n\n", [("ü", "日本 🎉")]),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_rules_of_the_standard(law: str) -> None:
    stream, events = LAWS[law]
    data = stream.encode()
    assert read(data) == events
    assert read(*byte_by_byte(data)) == events
    assert [read(data[:i], data[i:]) for i in range(len(data))] == [events] * len(data)


def test_bytes_that_are_not_utf8_are_replaced_and_do_not_swallow_the_line_end() -> None:
    data = b"event: \xe2\ndata: \xf0\x9f\n\ndata: \xff!\n\n"
    assert read(data) == read(*byte_by_byte(data)) == [("\ufffd", "\ufffd"), ("message", "\ufffd!")]


def test_a_cr_ends_its_line_at_once_and_an_lf_that_follows_later_adds_no_empty_line() -> None:
    decoder = SSEDecoder()
    said = [
        decoder.feed(portion) for portion in (b"event: x\r", b"\ndata: 1\r", b"", b"\n\r", b"\n", b"data: 2\r\r", b"\n")
    ]
    assert said == [[], [], [], [("x", "1")], [], [("message", "2")], []]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["data", "event", ": ", ":", "a", "é🎉", "\u2028", "\ufeff", "\n", "\r", "\n\n", "\r\n"])),
    st.data(),
)
def test_portions_make_no_difference(tokens: list[str], draw: st.DataObject) -> None:
    data = "".join(tokens).encode()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)))))
    portions = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(*portions) == read(data) == read(*byte_by_byte(data))


def test_an_event_of_just_the_limit_is_taken() -> None:
    data = b"data: 1234\n\ndata: 5678\n\n" * 3
    assert read(data, limit=10) == read(*byte_by_byte(data), limit=10) == [("message", "1234"), ("message", "5678")] * 3


@pytest.mark.parametrize(
    "stream", [b"data: 12345", b"data: 12345\n\n", b"data: 1\n\ndata: 12345\n\n", b"data: 1\n\n:\n:\n:\n:\n:\n:"]
)
def test_an_event_over_the_limit_is_the_end_of_the_stream(stream: bytes) -> None:
    for portions in ([stream], byte_by_byte(stream)):
        with pytest.raises(ModelError, match=r"^The model server sent an event of more than 10 bytes\.$"):
            read(*portions, limit=10)


def test_the_limit_is_reported_in_mebibytes() -> None:
    decoder = SSEDecoder()
    with pytest.raises(ModelError, match=r"^The model server sent an event of more than 16 MiB\.$"):
        for _ in range(300):
            decoder.feed(b"x" * 65536)


def test_an_event_in_many_small_pieces_takes_little_more_memory_than_its_bytes() -> None:
    decoder, pieces = SSEDecoder(), 100_000
    decoder.feed(b"data: ")
    tracemalloc.start()
    try:
        for at in range(pieces):
            decoder.feed(b"%d" % (10 + at % 90))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 15 * pieces  # two bytes each; as objects of their own they would take forty
    ((name, data),) = decoder.feed(b"\n\n")
    assert (name, len(data)) == ("message", 2 * pieces)
