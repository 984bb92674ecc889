from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.extension_api.terminal_ui import escape_markup
from tau.records import terminal_requests as t
from tau.records.dialogs import Select, SetStatus, SetTitle, SetWidget
from tau.screen.cells import line_width
from tau.screen.extension_ui import MAX_KEYS, ExtensionUiState, WorkingLook
from tau.screen.lines import Span, plain_text
from tau.screen.notice_limit import BURST, NoticeLimit
from tau.screen.role_markup import styled_line

pytestmark = pytest.mark.unit


def test_statuses_are_one_line_sorted_by_key() -> None:
    state = ExtensionUiState()
    assert state.status_lines(40) == []
    for key, text in (("b", "two"), ("a", "one"), ("c", "three")):
        assert state.apply(SetStatus("1", key, text))
    assert [plain_text(line) for line in state.status_lines(40)] == ["one  two  three"]
    assert line_width(state.status_lines(8)[0]) <= 8
    state.apply(SetStatus("1", "b"))
    assert [plain_text(line) for line in state.status_lines(40)] == ["one  three"]


def test_a_widget_shows_ten_lines_and_says_how_many_more() -> None:
    state = ExtensionUiState()
    state.apply(SetWidget("1", "todo", [f"line {number}" for number in range(1, 14)]))
    state.apply(SetWidget("1", "below", ["x"], "belowEditor"))
    shown = [plain_text(line) for line in state.widget_lines("aboveEditor", 40)]
    assert shown == [*(f"line {number}" for number in range(1, 10)), "+4 more"]
    assert [plain_text(line) for line in state.widget_lines("belowEditor", 40)] == ["x"]
    state.apply(SetWidget("1", "todo"))
    assert state.widget_lines("aboveEditor", 40) == []


def test_header_footer_title_label_and_working_line_can_be_set_and_restored() -> None:
    state = ExtensionUiState()
    for request in (
        t.SetHeader("1", ["[accent]tau[/]"]),
        t.SetFooter("1", ["foot"]),
        SetTitle("1", "title"),
        t.SetHiddenThinkingLabel("1", "Hm"),
        t.SetWorkingMessage("1", "Cooking"),
        t.SetWorkingVisible("1", False),
        t.SetWorkingIndicator("1", ["a", "b"], 10),
    ):
        assert state.apply(request)
    assert state.header_lines(40) == [(Span("tau", "accent"),)]
    assert state.footer_lines(40) == [(Span("foot", "muted"),)]
    assert (state.title, state.hidden_thinking_label) == ("title", "Hm")
    assert state.working == WorkingLook("Cooking", False, ("a", "b"), 80)
    for request in (
        t.SetHeader("1"),
        t.SetFooter("1"),
        SetTitle("1", ""),
        t.SetHiddenThinkingLabel("1"),
        t.SetWorkingMessage("1"),
        t.SetWorkingVisible("1", True),
        t.SetWorkingIndicator("1"),
    ):
        assert state.apply(request)
    assert (state.header_lines(40), state.footer_lines(40)) == (None, None)
    assert (state.title, state.hidden_thinking_label, state.working) == (None, None, WorkingLook())
    assert not state.apply(Select("1", "t", ["a"]))


def test_a_flood_of_keys_costs_a_limited_amount_of_memory() -> None:
    state = ExtensionUiState()
    for number in range(10 * MAX_KEYS):
        state.apply(SetStatus("1", str(number), "x" * 100_000))
        state.apply(SetWidget("1", str(number), ["x"] * 10_000))
    assert len(state.statuses) == MAX_KEYS
    assert sum(map(len, state.statuses.values())) < 1_000_000
    assert len(state.widget_lines("aboveEditor", 10)) == 10 * MAX_KEYS


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("plain", (Span("plain"),)),
        ("", ()),
        ("[accent]a[/]b", (Span("a", "accent"), Span("b"))),
        ("[bold error]a", (Span("a", "bold error"),)),
        ("[accent]a[error]b[/]c[/]d", (Span("a", "accent"), Span("b", "error"), Span("c", "accent"), Span("d"))),
        ("[bold]a[error]b", (Span("a", "bold"), Span("b", "bold error"))),
        ("[bg:selectedBg accent]a", (Span("a", "bg:selectedBg accent"),)),
        ("[x] [1] [todo]", (Span("[x] [1] [todo]"),)),
        ("[[accent]a", (Span("["), Span("accent]a"))),
        ("a[/]b", (Span("a"), Span("b"))),
        ("a\nb", (Span("a b"),)),
        ("a\x1b[31mred\x1b[0m", (Span("a"), Span("red", "fg=1"))),
        ("a\x1b]0;title\x07\x1b[2Jb\u202e", (Span("ab\\u202e"),)),
    ],
)
def test_lines_of_extensions_have_tags_for_roles(text: str, spans: tuple[Span, ...]) -> None:
    assert styled_line(text) == spans


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    assert plain_text(styled_line(escape_markup(text))) == text


@given(st.text())
def test_no_text_of_an_extension_becomes_a_control(text: str) -> None:
    for span in styled_line(text):
        assert not any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in span.text)


def test_deep_tags_end() -> None:
    assert plain_text(styled_line("[bold]" * 500 + "a" + "[/]" * 500)) == "a"


def test_a_flood_of_notices_is_limited() -> None:
    limit = NoticeLimit()
    assert sum(limit.admit(0.0) for _ in range(1000)) == BURST
    assert limit.take_dropped() == 1000 - BURST
    assert limit.admit(1.0)
    assert limit.take_dropped() == 0
