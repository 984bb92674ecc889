"""Width, wrapping and clipping of text in terminal cells."""

from __future__ import annotations

import subprocess
import sys

import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st

from tau.screen.cells import clip_line, graphemes, is_simple, line_width, pad_line, text_width, wrap_line
from tau.screen.lines import Line, Span, line, plain_text

words = st.lists(
    st.sampled_from(["a", "word", "verylongword", "日本語", "é", "👩‍👩‍👧", "🇫🇷", "नमस्ते", " ", "  ", "─"]), max_size=12
)
texts = words.map("".join) | words.map(" ".join)
lines = st.lists(
    st.tuples(texts, st.sampled_from(["", "accent", "bold"]), st.sampled_from(["", "http://a"])), max_size=4
).map(lambda spans: tuple(Span(*span) for span in spans))


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("abc", 3),
        ("日本", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("👍", 2),
        ("👩‍👩‍👧", 2),
        ("🇫🇷", 2),
        ("❤️", 2),
        ("─", 1),
    ],
)
def test_width_of_text(text: str, width: int) -> None:
    assert text_width(text) == width


def test_characters_of_simple_text_take_one_cell() -> None:
    simple = [character for character in map(chr, range(0x80, 0x3000)) if is_simple(character)]
    assert len(simple) > 2000
    assert {wcwidth.wcwidth(character) for character in simple} == {1}
    assert not any(is_simple(character) for character in "\u200d\ufe0f\u0301日👍\u25fd\u00ad\u202e")


def test_grapheme_clusters_are_whole() -> None:
    assert graphemes("ae\u0301👩‍👩‍👧🇫🇷") == ["a", "e\u0301", "👩‍👩‍👧", "🇫🇷"]


@given(texts)
def test_graphemes_are_the_text(text: str) -> None:
    assert "".join(graphemes(text)) == text


@given(lines, st.integers(2, 20), st.sampled_from(["", "  ", "> "]))
def test_wrapped_rows_fit_and_no_text_is_lost(spans: Line, width: int, indent: str) -> None:
    rows = wrap_line(spans, width, indent)
    assert all(line_width(row) <= width for row in rows)
    used = indent if width - len(indent) >= 2 else ""
    bodies = [plain_text(row) if index == 0 else plain_text(row).removeprefix(used) for index, row in enumerate(rows)]
    assert "".join(bodies).replace(" ", "") == plain_text(spans).replace(" ", "")


@given(lines, st.integers(2, 20))
def test_wrapping_keeps_styles_and_links(spans: Line, width: int) -> None:
    def cells(rows: list[Line]) -> list[tuple[str, str, str]]:
        return [(one, span.style, span.link) for row in rows for span in row for one in span.text if one != " "]

    assert cells(wrap_line(spans, width)) == cells([spans])


@given(lines, st.integers(0, 20))
def test_a_clipped_line_fits(spans: Line, width: int) -> None:
    clipped = clip_line(spans, width)
    assert line_width(clipped) <= width
    if line_width(spans) <= width:
        assert clipped == spans
    else:
        assert plain_text(spans).startswith(plain_text(clipped).removesuffix("…"))


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return [plain_text(row) for row in wrap_line(line(text), width, indent)]


def test_rows_break_at_spaces() -> None:
    assert wrapped("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrapped("the quick  brown", 9) == ["the quick", "brown"]
    assert wrapped("thé quick brown fox", 10) == ["thé quick", "brown fox"]


def test_a_word_that_is_wider_than_a_row_is_cut() -> None:
    assert wrapped("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrapped("x abcdefgh", 4) == ["x", "abcd", "efgh"]


def test_leading_spaces_stay_and_those_at_a_break_go() -> None:
    assert wrapped("    code here", 10) == ["    code", "here"]
    assert wrapped("    abcdefgh", 6) == ["    ab", "cdefgh"]
    assert wrapped("abc      ", 4) == ["abc"]


def test_continued_rows_are_indented() -> None:
    assert wrapped("- one two three", 8, "  ") == ["- one", "  two", "  three"]


def test_wide_characters_break_anywhere() -> None:
    assert wrapped("日本語日本語", 5) == ["日本", "語日", "本語"]
    assert wrapped("ab日本 語", 4) == ["ab日", "本", "語"]


def test_one_column_shows_a_sign_for_wide_characters() -> None:
    assert wrapped("a日b", 1) == ["a", "?", "b"]


def test_an_empty_line_is_one_row() -> None:
    assert wrap_line((), 10) == [()]
    assert wrapped("   ", 2) == [""]


def test_clipping_marks_the_cut_in_the_last_style() -> None:
    assert clip_line((Span("abc", "bold"), Span("def", "dim")), 5) == (
        Span("abc", "bold"),
        Span("d", "dim"),
        Span("…", "dim"),
    )
    assert clip_line(line("日本語"), 4) == (Span("日"), Span("…"))
    assert clip_line(line("abc"), 2, "") == (Span("ab"),)
    assert clip_line(line("abc"), 0) == ()


def test_padding_fills_up_to_the_width() -> None:
    assert pad_line(line("日"), 4, "bold") == (Span("日"), Span("  ", "bold"))
    assert pad_line(line("abcd"), 4) == line("abcd")


@pytest.mark.process
def test_simple_text_needs_no_table_of_widths() -> None:
    program = """if True:
        import sys
        from tau.screen.cells import *
        from tau.screen.lines import line
        text = "── Überschrift ↑ 3 more · … ✓ ⠋ Привет"
        text_width(text), graphemes(text), wrap_line(line(text), 3), clip_line(line(text), 2)
        print("wcwidth" in sys.modules)"""
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )
