from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tau.wire.lines import LineDecoder, LineTooLong

Lines = list[bytes | LineTooLong]


def read(*portions: bytes, limit: int = 1000) -> Lines:
    decoder = LineDecoder(limit)
    return [line for portion in portions for line in decoder.feed(portion)] + decoder.end()


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"a\r\nb\r\r\n", [b"a", b"b\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\nlast", [b"a", b"last"]),
        (b"a\nlast\r", [b"a", b"last"]),
        ("a\u2028b\u0085c\x0bd\n".encode(), ["a\u2028b\u0085c\x0bd".encode()]),
    ],
)
def test_only_lf_ends_a_line_and_one_cr_before_it_goes(data: bytes, lines: Lines) -> None:
    assert read(data) == lines
    assert read(*byte_by_byte(data)) == lines


def test_a_line_is_given_as_soon_as_its_lf_is_there() -> None:
    decoder = LineDecoder()
    assert [decoder.feed(b"a"), decoder.feed(b"b\nc"), decoder.feed(b"\n")] == [[], [b"ab"], [b"c"]]


def test_the_end_leaves_nothing_behind() -> None:
    decoder = LineDecoder()
    decoder.feed(b"last")
    assert [decoder.end(), decoder.end()] == [[b"last"], []]


def test_a_line_of_just_the_limit_is_taken_and_a_longer_one_refused() -> None:
    assert read(b"1234\n12345\n12\n", limit=4) == [b"1234", LineTooLong(4), b"12"]


def test_a_line_is_refused_before_it_ends() -> None:
    decoder = LineDecoder(4)
    said = [decoder.feed(portion) for portion in (b"123", b"45", b"6789", b"0", b"\nnext\n")]
    assert said == [[], [LineTooLong(4)], [], [], [b"next"]]


def test_a_refused_line_at_the_end_is_reported_once() -> None:
    assert read(b"12345678", b"9", limit=4) == [LineTooLong(4)]


@settings(deadline=None)
@given(st.lists(st.text("ab\r\n\u2028").map(str.encode)), st.integers(0, 6))
def test_portions_make_no_difference(portions: list[bytes], limit: int) -> None:
    whole = b"".join(portions)
    assert read(*portions, limit=limit) == read(whole, limit=limit) == read(*byte_by_byte(whole), limit=limit)


@settings(deadline=None)
@given(st.lists(st.binary().filter(lambda line: b"\n" not in line and not line.endswith(b"\r"))))
def test_what_was_written_as_lines_is_read_as_lines(lines: list[bytes]) -> None:
    assert read(b"".join(line + b"\n" for line in lines)) == lines


def test_an_endless_line_does_not_fill_the_memory() -> None:
    decoder = LineDecoder(1024 * 1024)
    lines: Lines = []
    tracemalloc.start()
    try:
        for _ in range(320):
            lines += decoder.feed(b"x" * 65536)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == [LineTooLong(1024 * 1024)]
    assert held < 100_000
    assert peak < 1_500_000
    assert decoder.feed(b"\nnext\n") == [b"next"]


def test_a_line_in_many_small_pieces_takes_little_more_memory_than_its_bytes() -> None:
    decoder, pieces = LineDecoder(), 100_000
    tracemalloc.start()
    try:
        for at in range(pieces):
            decoder.feed(b"%d" % (10 + at % 90))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 15 * pieces  # two bytes each; as objects of their own they would take forty
    (line,) = decoder.feed(b"\n")
    assert isinstance(line, bytes) and len(line) == 2 * pieces
    assert decoder.feed(b"next\n") == [b"next"]
