"""Completion: what a text asks for, and the list of proposals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.screen.cells import text_width
from tau.screen.completion import Accepted, CompletionList, Proposal, Query, query_at
from tau.screen.lines import plain_text

FOUR = [Proposal(value, value) for value in ("one", "two", "three", "four")]


def asked(before: str, *, first_line: bool = True, forced: bool = False) -> tuple[str, str, str] | None:
    """The kind, the text, and what would be replaced."""
    query = query_at(before, first_line=first_line, forced=forced)
    if query is None:
        return None
    assert query.start + query.length == len(before)
    return query.kind, query.text, before[query.start :]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("/", ("command", "", "/")),
        ("/mod", ("command", "mod", "/mod")),
        ("/model ", ("argument", "", "")),
        ("/model son 4", ("argument", "son 4", "son 4")),
        ("/usr/bin", None),
        ("@", ("file", "", "@")),
        ("see @src/ma", ("file", "src/ma", "@src/ma")),
        ('see @"my fi', ("file", "my fi", '@"my fi')),
        ("(@a", ("file", "a", "@a")),
        ("见、@a", ("file", "a", "@a")),
        ("me@example", None),
        ("@a b", None),
        ('@"a b" c', None),
        ("/export @x", ("file", "x", "@x")),
        ("plain text", None),
        ("", None),
        ("!cat @x", None),
    ],
)
def test_what_a_text_asks_for(before: str, expected: tuple[str, str, str] | None) -> None:
    assert asked(before) == expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("see src/ma", ("path", "src/ma", "src/ma")),
        ('see "my fi', ("path", "my fi", '"my fi')),
        ("x=~/a", ("path", "~/a", "~/a")),
        ("", ("path", "", "")),
        ("!cat ./x", ("path", "./x", "./x")),
        ("/usr/bi", ("path", "/usr/bi", "/usr/bi")),
        ("/mo", ("command", "mo", "/mo")),
        ("\ud800src", ("path", "src", "src")),
    ],
)
def test_tab_completes_paths(before: str, expected: tuple[str, str, str]) -> None:
    assert asked(before, forced=True) == expected


def test_commands_are_only_in_the_first_line() -> None:
    assert asked("/mo", first_line=False) is None


def opened(before: str = "@x", proposals: list[Proposal] = FOUR, rows: int = 5) -> CompletionList:
    popup = CompletionList(rows)
    query = popup.text_changed(before, first_line=True)
    assert query is not None
    popup.offer(query, proposals)
    return popup


def test_the_list_opens_with_an_answer_and_closes_with_the_word() -> None:
    popup = CompletionList()
    query = popup.text_changed("@x", first_line=True)
    assert query == Query("file", "x", 0, 2)
    assert not popup.open
    assert popup.text_changed("@x", first_line=True) is None  # not asked twice
    popup.offer(query, FOUR)
    assert popup.open
    assert popup.text_changed("@x ", first_line=True) is None
    assert not popup.open


def test_a_late_answer_to_an_old_query_does_not_count() -> None:
    popup = CompletionList()
    old = popup.text_changed("@x", first_line=True)
    new = popup.text_changed("@xy", first_line=True)
    assert old and new
    popup.offer(old, FOUR)
    assert not popup.open
    popup.offer(new, FOUR[:1])
    popup.offer(old, FOUR)
    assert len(popup.proposals) == 1


def test_arrows_move_around_and_keys_for_the_editor_are_left() -> None:
    popup = opened()
    assert popup.handle(["tui.editor.cursorUp", "tui.select.up"]) is True
    assert popup.selected == 3
    popup.handle(["tui.select.down"])
    assert popup.selected == 0
    popup.handle(["tui.select.pageDown"])
    assert popup.selected == 3
    assert popup.handle(["tui.editor.cursorLeft"]) is False
    assert CompletionList().handle(["tui.select.up"]) is False


def test_enter_and_tab_accept() -> None:
    command = [Proposal("/model ", "model", submits=True)]
    assert opened("/mo", command).handle(["tui.input.submit", "tui.select.confirm"]) == Accepted(3, "/model ", True)
    assert opened("/mo", command).handle(["tui.input.tab"]) == Accepted(3, "/model ", False)
    popup = opened("see @x")
    popup.move(1)
    assert popup.handle(["tui.input.submit"]) == Accepted(2, "two", False)
    assert not popup.open


@pytest.mark.parametrize("key", ["tui.input.tab", "tui.select.confirm"])
def test_keys_typed_faster_than_the_answer_do_not_accept_a_row_for_an_older_text(key: str) -> None:
    levels = [Proposal(level, level, submits=True) for level in ("off", "low", "high")]
    listed = opened("/thinking ", levels)
    listed.text_changed("/thinking hi", first_line=True)  # the answer comes later
    accepted = listed.handle([key])
    assert isinstance(accepted, Accepted)
    assert (accepted.before, accepted.text) == (2, "high")

    listed = opened("/thinking ", levels)
    listed.text_changed("/thinking x", first_line=True)
    assert listed.handle([key]) is False
    assert not listed.open


def test_enter_submits_an_argument_that_is_complete_already() -> None:
    files = [Proposal("notes.txt", "notes.txt"), Proposal("notes.txt.bak", "notes.txt.bak")]
    assert opened("/import note", files).handle(["tui.input.submit"]) == Accepted(4, "notes.txt", False)
    assert opened("/import notes.txt", files).handle(["tui.input.submit"]) == Accepted(9, "notes.txt", True)


def test_the_closing_quote_is_not_doubled() -> None:
    assert opened('@"my').accept('" rest') == Accepted(4, "one", False, 1)


def test_escape_closes_the_list_for_this_word() -> None:
    popup = opened("a @x")
    assert popup.handle(["app.interrupt"]) is True
    assert not popup.open
    assert popup.text_changed("a @xy", first_line=True) is None
    assert popup.text_changed("a @xy ", first_line=True) is None
    assert popup.text_changed("a @xy @", first_line=True) is not None
    assert CompletionList().handle(["app.interrupt"]) is False


def test_the_selection_stays_when_better_answers_arrive() -> None:
    popup = opened()
    popup.move(1)
    query = popup.query
    assert query
    popup.offer(query, [Proposal("zero", "zero"), *FOUR])
    assert popup.proposals[popup.selected].value == "two"


def test_a_single_answer_to_tab_is_accepted_at_once() -> None:
    popup = CompletionList()
    query = popup.force("cat sr", first_line=True)
    assert query
    assert popup.offer(query, [Proposal("src/", "src/", partial=True)]) == Accepted(2, "src/")
    query = popup.force("cat sr", first_line=True)
    assert query
    assert popup.offer(query, FOUR) is None
    assert popup.open
    assert popup.text_changed("cat sr", first_line=True) is None  # follows the path
    assert popup.text_changed("cat src", first_line=True) is not None
    assert popup.open


def test_rows_show_the_selection_and_the_count() -> None:
    popup = opened(proposals=[Proposal(str(number), f"name{number}", "what it is") for number in range(20)], rows=3)
    for _ in range(5):
        popup.move(1)
    assert [plain_text(row) for row in popup.rows(60)] == [
        "  name4  what it is",
        "→ name5  what it is",
        "  name6  what it is",
        "  (6/20)",
    ]


def test_names_cannot_control_the_terminal() -> None:
    popup = opened(proposals=[Proposal("x", "a\x1b[31mb\u202ec\nd", "\x07")])
    text = "".join(plain_text(row) for row in popup.rows(60))
    assert text.isprintable()


@given(
    st.lists(st.tuples(st.text(max_size=50), st.text(max_size=80)), min_size=1, max_size=30),
    st.integers(0, 60),
    st.integers(1, 200),
)
def test_rows_are_never_too_wide(pairs: list[tuple[str, str]], moves: int, width: int) -> None:
    popup = opened(proposals=[Proposal("x", label, description) for label, description in pairs])
    popup.move(moves)
    rows = popup.rows(width)
    assert 1 <= len(rows) <= 6
    assert all(text_width(plain_text(row)) <= width for row in rows)
