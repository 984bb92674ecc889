from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.clean import Cleaner

PIECES = ["\x1b", "\x9b", "[", "]", "P", "(", "\\", "3", "1", ";", "m", " ", "!", "\x07", "\x18", "\r", "\n", "\t", "é"]


def cleaned(*portions: str) -> str:
    cleaner = Cleaner()
    return "".join(map(cleaner.feed, portions)) + cleaner.end()


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m\r\nend\x01\n", "red\nend\n"),
        ("\x1b[38;2;1;2;3mx\x1b[?25l\x1b[2 qy", "xy"),
        ("\x9b1mbold", "bold"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://h/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0~~\x1b\\after", "after"),
        ("\x1b(B\x1b7\x1b=\x1bMx", "x"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("a\ud800b\udfffc\ufff9d\ufffbe", "abcde"),
        ("ends in half\x1b[3", "ends in half"),
    ],
)
def test_only_text_tabs_and_newlines_are_left(dirty: str, clean: str) -> None:
    assert cleaned(dirty) == clean
    assert cleaned(*dirty) == clean


def test_a_title_that_never_ends_ends_with_its_line() -> None:
    assert cleaned("a\x1b]0;title", " goes on", " and on\nb") == "a\nb"


def test_a_sequence_inside_another_ends_it() -> None:
    assert cleaned("a\x1b[3\x1b[31mb\x1b]0;t\x1b[0mc") == "abc"


def test_a_sequence_longer_than_any_real_one_is_text() -> None:
    digits = "1" * 1000
    assert cleaned("\x1b[" + digits) == cleaned("\x1b[", *digits) == "1" * 936


def test_what_is_held_back_stays_small() -> None:
    cleaner = Cleaner()
    cleaner.feed("\x1b]1337;File=:")
    for _ in range(100):
        assert cleaner.feed("QUJD" * 1000) == ""
    assert len(repr(vars(cleaner))) < 100
    assert cleaner.feed("\x07text") == "text"


@given(st.lists(st.text(st.sampled_from(PIECES))))
def test_the_portions_make_no_difference(portions: list[str]) -> None:
    assert cleaned(*portions) == cleaned("".join(portions))


@given(st.text(st.sampled_from(PIECES)))
def test_no_control_character_gets_through(text: str) -> None:
    assert set(cleaned(text)) <= {c for c in PIECES if c.isprintable()} | {"\n", "\t"}
