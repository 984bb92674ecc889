"""The session picker without a terminal: search, orders, filters, keys."""

from __future__ import annotations

import pytest

from tau.records.base import UNSET
from tau.records.replies import SessionRow
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.modals import Outcome
from tau.screen.modals.session_order import age_text, threaded
from tau.screen.modals.session_picker import PickerCalls, PickerFacts, SessionPicker
from tau.screen.modals.session_search import SessionItem, SessionQuery

DAY = 86_400_000


def item(
    id: str, *, name: str = "", first: str = "", cwd: str = "/work", age: int = 0, parent: str = "", text: str = ""
) -> SessionItem:
    row = SessionRow(f"/s/{id}.jsonl", id, cwd, name or UNSET, parent or UNSET, 0, 10 * DAY - age * DAY, 3, first)
    return SessionItem(row, text.lower(), complete=bool(text))


ITEMS = [
    item("a1", name="Parser work", first="fix the parser", age=1, text="fix the parser\nI changed Tokenizer.next"),
    item("b2", first="write the docs", age=2, text="write the docs\nDone with the manual"),
    item("c3", first="elsewhere", cwd="/other", age=3),
]


NO_CALLS = PickerCalls(lambda: None, lambda row, name: None, lambda row: None)


def picker(*items: SessionItem, current: str | None = None) -> SessionPicker:
    return SessionPicker(items or ITEMS, PickerFacts("/work", "/home/me", current, 10 * DAY), NO_CALLS)


def press(modal: SessionPicker, *keys: str) -> Outcome | None:
    outcome = None
    for key in keys:
        pressed = Key(key, key if len(key) == 1 else "")
        outcome = modal.key(pressed, Bindings().actions(pressed))
    return outcome


def labels(modal: SessionPicker) -> list[str]:
    return [row.label for row in modal.rows_shown]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("parser", ["a1"]),
        ("prswrk", ["a1"]),  # loosely, in a name
        ("tokenizer", ["a1"]),  # in a message
        ("tkn", []),  # messages match only exactly
        ('"the manual"', ["b2"]),
        ('"manual the"', []),
        ("the docs", ["b2"]),
        ('docs "with the', ["b2"]),  # the second quote is not typed yet
        ("re:token.*next", ["a1"]),
        ("re:(", []),
        ("b2", ["b2"]),
        ("other", ["c3"]),  # the folder
        ("", ["a1", "b2", "c3"]),
    ],
)
def test_the_search_knows_words_phrases_and_expressions(query: str, found: list[str]) -> None:
    parsed = SessionQuery.parse(query)
    assert [item.row.id for item in ITEMS if parsed.score(item) is not None] == found


def test_the_list_has_the_sessions_of_this_folder_and_tab_shows_all() -> None:
    modal = picker()
    assert labels(modal) == ["Parser work", "write the docs"]
    press(modal, "tab")
    assert labels(modal) == ["Parser work", "write the docs", "elsewhere"]
    assert "/other" in modal.rows_shown[2].detail
    press(modal, "tab")
    assert labels(modal) == ["Parser work", "write the docs"]


def test_ctrl_n_shows_only_named_sessions_and_ctrl_p_paths() -> None:
    modal = picker()
    press(modal, "ctrl+n", "ctrl+p")
    assert labels(modal) == ["Parser work"]
    assert "/s/a1.jsonl" in modal.rows_shown[0].detail


def test_forks_stand_below_their_sessions_and_a_search_shows_them_flat() -> None:
    root, fork, other = item("r", first="root", age=5), item("f", first="fork", age=1, parent="/s/r.jsonl"), ITEMS[1]
    modal = picker(root, other, fork)
    assert labels(modal) == ["root", "└ fork", "write the docs"]
    press(modal, *"fork")
    assert labels(modal) == ["fork"]
    press(modal, *["backspace"] * 4, "ctrl+s")  # by time
    assert labels(modal) == ["fork", "write the docs", "root"]


def test_sessions_that_name_each_other_as_parents_are_listed_once() -> None:
    items = [item("x", parent="/s/y.jsonl"), item("y", parent="/s/x.jsonl"), item("z", parent="/s/z.jsonl")]
    assert sorted(placed.row.id for placed, _ in threaded(items)) == ["x", "y", "z"]


def test_five_thousand_forks_of_forks_are_no_problem() -> None:
    items = [item(f"s{n}", parent=f"/s/s{n - 1}.jsonl") for n in range(5000)]
    assert len(threaded(items)) == 5000


def test_more_sessions_do_not_move_the_chosen_one() -> None:
    modal = picker()
    press(modal, "down")
    modal.add([item("n", first="newer", age=0)])
    modal.refresh()
    assert labels(modal)[0] == "newer"
    outcome = press(modal, "enter")
    assert outcome is not None and outcome.value.id == "b2"


def test_rename_and_delete_ask_in_place_of_the_list() -> None:
    done: list[tuple[str, ...]] = []
    calls = PickerCalls(
        lambda: None, lambda row, name: done.append(("rename", row.id, name)), lambda row: done.append((row.id,))
    )
    modal = SessionPicker(ITEMS, PickerFacts("/work", "/home/me", None, 10 * DAY), calls)
    assert press(modal, "ctrl+r", *["backspace"] * 11, *"new", "enter", "ctrl+r", "escape") is None
    assert done == [("rename", "a1", "new")]
    assert press(modal, "ctrl+d", "enter", "ctrl+d", "escape") is None  # kept
    assert press(modal, "ctrl+d", "down", "enter", "ctrl+backspace", "down", "enter") is None
    assert done[1:] == [("a1",), ("a1",)]
    assert press(modal, "p", "ctrl+backspace", "down", "enter") is not None  # there is a query: Enter opens a session
    assert press(modal, "escape") == Outcome("cancel")


@pytest.mark.parametrize(
    ("minutes", "text"), [(0, "now"), (5, "5m"), (125, "2h"), (1500, "1d"), (20_000, "1w"), (999_999, "1y")]
)
def test_an_age_is_one_number(minutes: int, text: str) -> None:
    assert age_text(minutes * 60_000) == text
