from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.text.terminal_text import Cleaner, escape_for_display, escape_hidden, escape_message, strip_controls

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


# What a terminal would obey or not show is spelled out.

# Default_Ignorable_Code_Point, Unicode 14.0: ranges, both ends included.
IGNORABLE = (
    "00AD-00AD 034F-034F 061C-061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164-3164 FE00-FE0F "
    "FEFF-FEFF FFA0-FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)


def ignorable() -> list[int]:
    bounds = [[int(end, 16) for end in pair.split("-")] for pair in IGNORABLE.split()]
    return [code for first, last in bounds for code in range(first, last + 1)]


def test_every_character_without_a_glyph_is_spelled_out() -> None:
    assert len(ignorable()) == 4174
    for code in [*ignorable(), 0x2800, 0x1D159, 0x16FE4, 0xFFFC, 0x00A0, 0x3000]:
        spelled = chr(code).encode("unicode_escape").decode()
        assert escape_hidden(f"a{chr(code)}b") == f"a{spelled}b"
        assert escape_for_display(f"a{chr(code)}b") == f"a{spelled}b"


def test_no_control_or_format_character_is_shown_as_it_is() -> None:
    hidden = [one for one in map(chr, range(0x110000)) if unicodedata.category(one)[0] == "C"]
    for at in range(0, len(hidden), 1000):  # a call for each of them would take seconds
        shown = escape_hidden("a".join(hidden[at : at + 1000]))
        assert shown.isascii() and shown.isprintable()
    for one in hidden[:10_000:10]:
        assert escape_hidden(one) != one and escape_hidden(one).isascii()


@given(st.text(st.characters()))
def test_whatever_is_spelled_out_can_be_seen(text: str) -> None:
    for shown in (
        escape_hidden(text),
        escape_for_display(text, ""),
        escape_message(text).replace("\n", "").replace("\t", ""),
    ):
        assert all(unicodedata.category(one)[0] != "C" for one in shown)
    assert escape_hidden(escape_hidden(text)) == escape_hidden(text)


def test_letters_symbols_and_their_accents_are_shown_as_they_are() -> None:
    for text in ("plain", "naïve", "e\u0301", "日本語", "עברית", "👍", "→", "क्षि"):
        assert escape_hidden(text) == escape_for_display(text) == text


def test_an_accent_without_a_letter_is_spelled_out() -> None:
    assert escape_hidden("\u0301") == "\\u0301"
    assert escape_hidden("a \u0301b") == "a \\u0301b"
    assert escape_hidden("\u3164\u0301") == "\\u3164\\u0301"


def test_the_selector_for_emoji_stays_after_a_symbol_but_not_where_a_decision_is_made() -> None:
    assert escape_for_display("⚠\ufe0f careful") == "⚠\ufe0f careful"
    assert escape_for_display("a\ufe0f") == "a\\ufe0f"
    assert escape_for_display("⚠\ufe0f\ufe0f") == "⚠\ufe0f\\ufe0f"
    assert escape_hidden("⚠\ufe0f careful") == "⚠\\ufe0f careful"


def test_a_line_feed_in_a_message_cannot_begin_a_line_of_ours() -> None:
    assert escape_message("one\nError: two\n\n  three\x1b\r") == "one\n  Error: two\n\n  three\\x1b\\r"


def test_an_answer_keeps_its_joiners_and_loses_what_reorders_it() -> None:
    assert strip_controls("👩\u200d💻 ⚠\ufe0f\u202eabc\u2066\x1b\x9b\r\n") == "👩\u200d💻 ⚠\ufe0f\\u202eabc\\u2066\n"
