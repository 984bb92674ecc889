from __future__ import annotations

from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.text.terminal_text import Cleaner
from tau.core.text.truncate import CUT_OFF, Tail, byte_length, head, size, tail
from tau.core.text.truncate import cut as beginning
from tau.records.base import plain
from tau.records.tools import Truncation


def cut(content: str, by: str, total: tuple[int, int], output: tuple[int, int], **other: bool) -> dict[str, object]:
    return {
        "content": content,
        "truncated": True,
        "truncatedBy": by,
        "totalLines": total[0],
        "totalBytes": total[1],
        "outputLines": output[0],
        "outputBytes": output[1],
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2000,
        "maxBytes": 51200,
        **other,
    }


def after(*portions: bytes, max_lines: int = 2000, max_bytes: int = 51200) -> Truncation:
    stream = Tail(max_lines=max_lines, max_bytes=max_bytes)
    for portion in portions:
        stream.feed(portion)
    stream.end()
    return stream.truncation()


def numbers(last: int) -> str:
    return "".join(f"{n}\n" for n in range(1, last + 1))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KB"),
        (1280, "1.3KB"),
        (51200, "50.0KB"),
        (200000, "195.3KB"),
        (1024 * 1024, "1.0MB"),
        (157286400, "150.0MB"),
    ],
)
def test_sizes_read_as_in_javascript(count: int, text: str) -> None:
    assert size(count) == text


def test_the_record_has_the_names_and_the_order_clients_know() -> None:
    assert list(plain(head("a"))) == [
        *("content", "truncated", "truncatedBy", "totalLines", "totalBytes", "outputLines", "outputBytes"),
        *("lastLinePartial", "firstLineExceedsLimit", "maxLines", "maxBytes"),
    ]


# From the head


def test_what_fits_is_untouched() -> None:
    assert head("a\nb\n") == Truncation("a\nb\n", False, None, 3, 4, 3, 4, False, False, 2000, 51200)


def test_the_head_keeps_2000_lines() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 3001))
    kept = "\n".join(f"line {n}" for n in range(1, 2001))
    assert plain(head(text)) == cut(kept, "lines", (3001, 28893), (2000, 18892))


def test_the_head_keeps_whole_lines_only() -> None:
    line = "é" * 10000
    text = "\n".join([line] * 4)
    assert plain(head(text)) == cut(f"{line}\n{line}", "bytes", (4, 80003), (2, 40001))


def test_a_first_line_that_is_too_long_leaves_nothing() -> None:
    assert plain(head("x" * 60000)) == cut("", "bytes", (1, 60000), (0, 0), firstLineExceedsLimit=True)


def test_the_newline_between_lines_counts_as_a_byte() -> None:
    assert head("aa\nbb", max_bytes=5).truncated is False
    assert head("aa\nbb", max_bytes=4).content == "aa"


def test_a_lone_surrogate_counts_three_bytes() -> None:
    assert head("\udc80").total_bytes == 3


# From the tail


def test_a_stream_that_fits_is_whole() -> None:
    assert after(b"a\n", b"b\n") == Truncation("a\nb\n", False, None, 2, 4, 2, 4, False, False, 2000, 51200)


def test_the_tail_keeps_2000_lines_and_does_not_count_the_end_of_the_last() -> None:
    kept = "\n".join(map(str, range(3001, 5001)))
    assert plain(tail(numbers(5000))) == cut(kept, "lines", (5000, 23893), (2000, 9999))


def test_a_last_line_without_newline_counts() -> None:
    kept = "\n".join(map(str, range(3001, 5001)))
    assert plain(tail(numbers(5000).rstrip())) == cut(kept, "lines", (5000, 23892), (2000, 9999))


def test_exactly_the_limit_is_not_cut() -> None:
    assert tail(numbers(2000)).truncated is False
    assert tail("x" * 51200).truncated is False


def test_the_tail_keeps_whole_lines_only() -> None:
    line = "é" * 10000
    assert plain(tail(f"{line}\n" * 4)) == cut(f"{line}\n{line}", "bytes", (4, 80004), (2, 40001))


def test_lines_that_fill_the_limit_exactly_are_kept() -> None:
    assert after(b"zz\naa\nbb\n", max_bytes=5).content == "aa\nbb"
    assert after(b"zz\naaa\nbb\n", max_bytes=5).content == "bb"


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_line_that_is_too_long_keeps_its_end(end: str) -> None:
    text = "first\n" + "x" * 200000 + end
    total = (2, len(text))
    assert plain(tail(text)) == cut("x" * 51200, "bytes", total, (1, 51200), lastLinePartial=True)


def test_a_cut_never_goes_through_a_character() -> None:
    assert after("a€€€".encode(), max_bytes=8).content == "€€"


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_true_length_of_the_last_line_is_known(end: bytes) -> None:
    stream = Tail()
    for _ in range(5):
        stream.feed(b"ab\n" + b"x" * 100_000)
        stream.feed(b"y" * 100_000)
    stream.feed(end)
    assert stream.last_line_bytes == 200_000
    assert stream.total_lines == 6


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert after(b"a\xff\x00\xe2\x82", b"\x41").content == "a\ufffd\x00\ufffdA"


def test_half_a_character_at_the_end_is_shown_as_broken() -> None:
    assert after(b"a\xe2\x82").content == "a\ufffd"


def test_half_a_character_waits_for_its_other_half() -> None:
    stream = Tail()
    stream.feed(b"a\xe2\x82")
    assert stream.truncation().content == "a"
    stream.feed(b"\xac")
    assert stream.truncation().content == "a€"


@given(
    st.lists(
        st.lists(st.sampled_from([b"a", b"\n", b"\xe2\x82\xac", b"\xe2", b"\x82", b"\xf0\x9f", b"\xff", b"\xed\xa0"]))
    ),
    st.integers(1, 5),
    st.integers(1, 12),
)
def test_the_portions_make_no_difference(parts: list[list[bytes]], max_lines: int, max_bytes: int) -> None:
    portions = [b"".join(part) for part in parts]
    whole = b"".join(portions)
    expected = after(whole, max_lines=max_lines, max_bytes=max_bytes)
    assert after(*portions, max_lines=max_lines, max_bytes=max_bytes) == expected
    single = [whole[at : at + 1] for at in range(len(whole))]
    assert after(*single, max_lines=max_lines, max_bytes=max_bytes) == expected
    assert expected.total_bytes == len(whole.decode("utf-8", "replace").encode())
    assert expected.output_bytes == len(expected.content.encode()) <= max_bytes
    assert expected.output_lines <= max_lines


@given(st.text(st.sampled_from("ab\n")), st.integers(1, 4), st.integers(1, 8))
def test_the_tail_is_the_longest_row_of_whole_lines_that_fits(text: str, max_lines: int, max_bytes: int) -> None:
    got = tail(text, max_lines=max_lines, max_bytes=max_bytes)
    lines = text.removesuffix("\n").split("\n")
    rows = ["\n".join(lines[-n:]) for n in range(1, min(max_lines, len(lines)) + 1)]
    fitting = [row for row in rows if len(row) <= max_bytes]
    if not got.truncated:
        assert got.content == text
    elif got.last_line_partial:
        assert not fitting
        assert got.content == lines[-1][-max_bytes:]
    else:
        assert got.content == fitting[-1]


def test_a_stream_can_be_cleaned_on_the_way() -> None:
    stream = Tail(cleaner=Cleaner())
    for portion in (b"\x1b[3", b"1mred\x1b[0m\r", b"\nend\x01\xe2\x82", b"\xac\x1b["):
        stream.feed(portion)
    stream.end()
    assert stream.truncation().content == "red\nend€"
    assert stream.truncation().total_bytes == 10


def test_memory_does_not_grow_with_the_stream() -> None:
    stream = Tail()
    for _ in range(300):
        stream.feed(b"0123456789\n" * 6000)
    assert sum(map(getsizeof, vars(stream).values())) < 250_000
    assert stream.total_lines == 300 * 6000


@given(st.text("aé😀\n\ud800", max_size=400), st.integers(2, 20), st.integers(40, 200))
def test_a_text_that_is_cut_is_a_beginning_and_says_so(text: str, max_lines: int, max_bytes: int) -> None:
    kept = beginning(text, max_lines=max_lines, max_bytes=max_bytes)
    assert kept.count("\n") < max_lines and byte_length(kept) <= max_bytes
    if kept != text:
        assert kept.endswith(f"\n{CUT_OFF}") and text.startswith(kept.removesuffix(f"\n{CUT_OFF}"))
        assert text.count("\n") >= max_lines or byte_length(text) > max_bytes


def test_a_line_that_is_too_long_is_cut_within() -> None:
    assert beginning("é" * 100, max_bytes=61) == "é" * 19 + f"\n{CUT_OFF}"
