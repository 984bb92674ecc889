"""Laws of the editor, for any text and any sequence of actions."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tau.screen.cells import text_width
from tau.screen.editor import Editor, Image, motion
from tau.screen.editor.editor import CHANGES, MOTIONS, OWN
from tau.screen.editor.layout import Layout
from tau.screen.editor.motion import clusters
from tau.screen.editor.view import Viewport
from tau.screen.lines import plain_text

LETTERS = [
    *"ab c-_.\n\t",
    *("é", "e\u0301", "\u0301", "好", "한", "カ", "ひ"),
    *("👩\u200d👦", "\u200d", "👍🏽", "🇩🇪", "🇩", "\u0915\u094d\u0937", "\u200b", "\ufe0f", "\u202e", "\u05d0"),
]
texts = st.lists(st.sampled_from(LETTERS), max_size=30).map("".join)
large = texts.map(lambda text: text + "\nx" * 11)
IMAGE = Image(b"", "image/png", "shot.png", 12, 8)

ACTIONS = sorted({*CHANGES, *MOTIONS, *OWN})
steps = st.one_of(
    st.sampled_from(ACTIONS).map(lambda action: ("perform", action)),
    texts.map(lambda text: ("insert", text)),
    st.sampled_from(LETTERS).map(lambda text: ("insert", text)),
    st.one_of(texts, large).map(lambda text: ("paste", text)),
    st.just(("image", "")),
    st.just(("take", "")),
)


def run(editor: Editor, step: tuple[str, str]) -> None:
    match step:
        case ("perform", action):
            editor.perform(action)
        case ("insert", text):
            editor.insert(text)
        case ("paste", text):
            editor.paste(text)
        case ("image", _):
            editor.insert_image(IMAGE)
        case _:
            editor.take()


def edges(line: str) -> set[int]:
    found, at = {0}, 0
    for cluster in clusters(line):
        at += len(cluster)
        found.add(at)
    return found


def editor_after(history: list[tuple[str, str]]) -> Editor:
    editor = Editor()
    editor.view(12, 5)
    for step in history:
        run(editor, step)
    return editor


@given(st.lists(steps, max_size=30))
def test_the_cursor_is_always_at_the_edge_of_a_grapheme(history: list[tuple[str, str]]) -> None:
    editor = Editor()
    editor.view(12, 5)
    for step in history:
        run(editor, step)
        line = editor._document.line
        assert editor.cursor.column in edges(line), (step, line)


@given(st.lists(steps, max_size=15), st.one_of(texts, large))
def test_undo_reverts_an_insertion(history: list[tuple[str, str]], text: str) -> None:
    editor = editor_after(history)
    editor.perform("tui.editor.cursorRight")  # ends a group
    before = (editor.text, editor.expanded(), editor.cursor)
    editor.paste(text)
    assume((editor.text, editor.expanded(), editor.cursor) != before)
    editor.perform("tui.editor.undo")
    assert (editor.text, editor.expanded(), editor.cursor) == before


@given(st.lists(steps, max_size=15), st.sampled_from(sorted(set(CHANGES) - {"tui.editor.undo", "tui.editor.redo"})))
def test_undo_reverts_every_change(history: list[tuple[str, str]], action: str) -> None:
    editor = editor_after(history)
    editor.perform("tui.editor.cursorLeft")
    before = (editor.text, editor.cursor, editor.version)
    editor.perform(action)
    assume(editor.version != before[2])
    after = (editor.text, editor.cursor)
    editor.perform("tui.editor.undo")
    assert (editor.text, editor.cursor) == before[:2]
    editor.perform("tui.editor.redo")
    assert (editor.text, editor.cursor) == after


@given(st.lists(steps.filter(lambda step: step[0] != "take"), max_size=30))
def test_undoing_everything_leaves_an_empty_editor(history: list[tuple[str, str]]) -> None:
    editor = editor_after(history)
    text = editor.text
    undone = 0
    while True:
        version = editor.version
        editor.perform("tui.editor.undo")
        if editor.version == version:
            break
        undone += 1
    assert editor.empty
    for _ in range(undone):
        editor.perform("tui.editor.redo")
    assert editor.text == text


KILLS = [action for action in CHANGES if "Word" in action or "ToLine" in action]


@given(st.lists(steps, max_size=15), st.sampled_from(KILLS))
def test_kill_and_yank_is_identity(history: list[tuple[str, str]], action: str) -> None:
    editor = editor_after(history)
    editor.perform("tui.editor.cursorLeft")
    before = editor.text, editor.expanded()
    editor.perform(action)
    assume(editor.text != before[0])
    editor.perform("tui.editor.yank")
    assert (editor.text, editor.expanded()) == before


@given(texts, st.integers(1, 30))
def test_all_text_is_visible_once_and_no_row_is_too_wide(text: str, width: int) -> None:
    editor = Editor()
    editor.insert(text)
    view = editor.view(width, 10_000)
    rows = [plain_text(row) for row in view.lines]
    assert all(text_width(row) <= width for row in rows)
    assert view.above == view.below == 0
    if width > 1:
        shown = "".join(rows)
        assert shown == editor.text.replace("\n", "").replace("\t", "    ").replace("\u202e", "\\u202e")


@given(st.lists(steps, max_size=20), st.integers(1, 30), st.integers(1, 8))
def test_the_cursor_is_inside_the_view(history: list[tuple[str, str]], width: int, rows: int) -> None:
    editor = editor_after(history)
    view = editor.view(width, rows)
    whole = editor.view(width, 100_000)
    assert 1 <= len(view.lines) <= rows
    assert 0 <= view.row < len(view.lines)
    assert 0 <= view.column < width
    assert all(text_width(plain_text(row)) <= width for row in view.lines)
    assert view.above + len(view.lines) + view.below == len(whole.lines)
    assert view.lines == whole.lines[view.above : view.above + len(view.lines)]
    assert (view.above + view.row, view.column) == (whole.row, whole.column)


@given(texts, st.integers(2, 20))
def test_down_visits_every_row_in_order(text: str, width: int) -> None:
    editor = Editor()
    editor.insert(text)
    editor.view(width, 5)
    for _ in range(len(text) + 1):
        editor.perform("tui.editor.pageUp")
    total = len(editor.view(width, 10_000).lines)
    seen = []
    for _ in range(total):
        seen.append(editor.view(width, 10_000).row)
        editor.perform("tui.editor.cursorDown")
    assert seen == sorted(seen)
    assert editor.view(width, 10_000).row == total - 1


@given(st.lists(steps, max_size=20))
def test_taking_returns_the_expanded_text_and_clears(history: list[tuple[str, str]]) -> None:
    editor = editor_after(history)
    expanded = editor.expanded()
    assert editor.take().text == expanded
    assert editor.empty
    assert editor.text == ""


@given(texts, st.integers(0, 60))
def test_edges_near_a_column_are_those_of_the_whole_line(text: str, column: int) -> None:
    line = line_of(text)
    known = sorted(edges(line))
    column = min(column, len(line))
    assert motion.next_edge(line, column) == next((edge for edge in known if edge > column), len(line))
    assert motion.previous_edge(line, column) == max([edge for edge in known if edge < column], default=0)
    assert motion.nearest_edge(line, column) == next(edge for edge in known if edge >= column)
    assert motion.word_left(line, column) in known
    assert motion.word_right(line, column) in known


def line_of(text: str) -> str:
    return text.replace("\n", "")


@given(st.lists(st.tuples(steps, st.integers(4, 30)), max_size=20))
def test_a_view_after_every_step_equals_a_fresh_one(history: list[tuple[tuple[str, str], int]]) -> None:
    editor = Editor()
    for step, width in history:
        run(editor, step)
        view = editor.view(width, 10_000)
        editor._viewport = Viewport(editor._layout)
        editor._layout.forget()
        assert editor.view(width, 10_000) == view


def test_a_key_measures_only_the_line_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor()
    editor.set_text("a long line that is wrapped\n" * 10_000)
    editor.view(12, 5)
    measured = 0
    height = Layout.height

    def counting(layout: Layout, line: str) -> int:
        nonlocal measured
        measured += 1
        return height(layout, line)

    monkeypatch.setattr(Layout, "height", counting)
    for action in ("cursorUp", "cursorLeft", "deleteCharBackward", "undo"):
        editor.perform(f"tui.editor.{action}")
        editor.view(12, 5)
    editor.insert("x\ny")
    editor.view(12, 5)
    assert measured < 10
