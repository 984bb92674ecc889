"""The prompt editor, action by action."""

from __future__ import annotations

import pytest

from tau.screen.editor import Editor, Image, max_editor_rows, more_label
from tau.screen.editor.editor import Submission
from tau.screen.history import History, HistoryEntry
from tau.screen.lines import plain_text

IMAGE = Image(b"png", "image/png", "shot.png", 1200, 800)
LONG = "\n".join(f"line {number}" for number in range(123))


def editing(text: str = "", width: int = 80) -> Editor:
    """An editor with a text. `|` is the cursor; without one it is at the end."""
    editor = Editor()
    editor.view(width, 10)
    before, mark, after = text.partition("|")
    editor.insert(before + after)
    if mark:
        for _ in after:
            editor.perform("tui.editor.cursorLeft")
    return editor


def marked(editor: Editor) -> str:
    """The text with `|` at the cursor."""
    lines = editor._document.lines.copy()
    line, column = editor.cursor
    lines[line] = lines[line][:column] + "|" + lines[line][column:]
    return editor._markers.labels("\n".join(lines))


def do(editor: Editor, *actions: str) -> str:
    for action in actions:
        assert editor.perform(f"tui.{action}" if "." in action else f"tui.editor.{action}"), action
    return marked(editor)


def rows(editor: Editor, width: int = 80, max_rows: int = 100) -> list[str]:
    return [plain_text(line) for line in editor.view(width, max_rows).lines]


# Lines


def test_a_new_line_by_key_and_by_backslash_before_enter() -> None:
    editor = editing("a")
    assert do(editor, "input.newLine") == "a\n|"
    editor.insert("b\\")
    assert do(editor, "input.submit") == "a\nb\n|"


def test_enter_is_left_to_the_caller() -> None:
    editor = editing("a\\b")
    assert not editor.perform("tui.input.submit")
    assert not editor.perform("app.exit")
    assert editor.take().text == "a\\b"
    assert editor.empty


def test_long_lines_wrap_at_words() -> None:
    assert rows(editing("the quick brown fox"), 10) == ["the quick ", "brown fox"]
    assert rows(editing("abcdefghijkl"), 10) == ["abcdefghi", "jkl"]
    assert rows(editing("漢字かな交じり文"), 8) == ["漢字か", "な交じ", "り文"]


def test_the_editor_grows_to_a_third_of_the_rows_and_then_scrolls() -> None:
    assert [max_editor_rows(terminal) for terminal in (10, 15, 24, 60)] == [5, 5, 8, 20]
    editor = editing("\n".join("abcdefgh"))
    view = editor.view(80, 5)
    assert ([plain_text(line) for line in view.lines], view.above, view.below) == (list("defgh"), 3, 0)
    assert (more_label("↑", view.above), more_label("↓", view.below)) == ("↑ 3 more", "")
    for _ in range(7):
        editor.perform("tui.editor.cursorUp")
    view = editor.view(80, 5)
    assert (view.row, view.above, view.below) == (0, 0, 3)


def test_scrolling_moves_only_as_far_as_needed() -> None:
    editor = editing("\n".join("abcdefgh"))
    editor.view(80, 5)
    for _ in range(2):
        editor.perform("tui.editor.cursorUp")
        assert editor.view(80, 5).above == 3


def test_tabs_are_kept_and_shown_as_spaces() -> None:
    editor = editing("a\tb")
    assert rows(editor) == ["a    b"]
    assert editor.view(80, 5).column == 6
    assert editor.take().text == "a\tb"


def test_the_cursor_counts_cells() -> None:
    assert editing("漢字|").view(80, 5).column == 4
    assert editing("e\u0301|").view(80, 5).column == 1


def test_control_characters_never_get_in() -> None:
    editor = editing()
    editor.paste("a\x1b[31mb\x00\x9b\r\nc\rd\x7f\ud800")
    assert editor.expanded() == "a[31mb\nc\nd\ufffd"


def test_characters_that_reorder_text_are_spelled_out() -> None:
    assert rows(editing("a\u202eb")) == ["a\\u202eb"]


# Motion


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("foo bar|", "foo |bar"),
        ("foo  |", "|foo  "),
        ("foo.bar()|", "foo.bar|()"),
        ("foo.bar|", "foo.|bar"),
        ("snake_case|", "|snake_case"),
        ("a\n|b", "a|\nb"),
        ("漢字かな|", "漢字|かな"),
        ("naïve|", "|naïve"),
        ("cafe\u0301|", "|cafe\u0301"),
    ],
)
def test_word_left(text: str, left: str) -> None:
    assert do(editing(text), "cursorWordLeft") == left


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("|foo bar", "foo| bar"),
        ("foo| bar", "foo bar|"),
        ("foo|.bar", "foo.|bar"),
        ("a|\nb", "a\n|b"),
        ("|漢字かな", "漢字|かな"),
    ],
)
def test_word_right(text: str, right: str) -> None:
    assert do(editing(text), "cursorWordRight") == right


def test_a_grapheme_is_one_step() -> None:
    for cluster in ("👩\u200d👩\u200d👧", "🇩🇪", "e\u0301", "👍🏽", "한"):
        editor = editing(f"a{cluster}b|")
        do(editor, "cursorLeft", "cursorLeft")
        assert marked(editor) == f"a|{cluster}b"
        do(editor, "deleteCharForward")
        assert marked(editor) == "a|b"
    assert do(editing("🇩🇪🇫🇷|"), "deleteCharBackward") == "🇩🇪|"


def test_line_start_and_end() -> None:
    assert do(editing("a\nb|c"), "cursorLineStart") == "a\n|bc"
    assert do(editing("a\nb|c"), "cursorLineEnd") == "a\nbc|"


def test_up_and_down_keep_the_cell() -> None:
    editor = editing("abcdef\nx\nabcdef|")
    assert do(editor, "cursorUp") == "abcdef\nx|\nabcdef"
    assert do(editor, "cursorUp") == "abcdef|\nx\nabcdef"
    assert do(editor, "cursorDown", "cursorDown") == "abcdef\nx\nabcdef|"


def test_up_moves_by_rows_of_a_wrapped_line() -> None:
    editor = editing("the quick brown fox", width=10)
    assert do(editor, "cursorUp") == "the quick| brown fox"
    assert do(editor, "cursorUp") == "|the quick brown fox"


def test_pages() -> None:
    editor = editing("\n".join("abcdefgh"))
    editor.view(80, 3)
    do(editor, "pageUp")
    assert editor.cursor.line == 4
    do(editor, "pageUp", "pageUp")
    assert editor.cursor == (0, 0)
    do(editor, "pageDown", "pageDown", "pageDown")
    assert editor.cursor == (7, 1)


def test_jump_to_a_character() -> None:
    editor = editing("|one two\nthree")
    do(editor, "jumpForward")
    assert editor.waits_for_character
    editor.insert("t")
    assert marked(editor) == "one |two\nthree"
    do(editor, "jumpForward")
    editor.insert("t")
    assert marked(editor) == "one two\n|three"
    do(editor, "jumpBackward")
    editor.insert("o")
    assert marked(editor) == "one tw|o\nthree"
    do(editor, "jumpForward")
    editor.insert("z")
    assert marked(editor) == "one tw|o\nthree"


def test_a_jump_is_cancelled_by_its_key_and_by_other_actions() -> None:
    for action in ("jumpForward", "cursorLeft"):
        editor = editing("ab|")
        do(editor, "jumpForward", action)
        assert not editor.waits_for_character
        editor.insert("x")
        assert "x" in editor.text


# Deleting, kill ring


@pytest.mark.parametrize(
    ("text", "action", "result"),
    [
        ("foo bar|", "deleteWordBackward", "foo |"),
        ("|foo bar", "deleteWordForward", "| bar"),
        ("a\nfoo| bar", "deleteToLineStart", "a\n| bar"),
        ("a\n|b", "deleteToLineStart", "a|b"),
        ("foo| bar\nb", "deleteToLineEnd", "foo|\nb"),
        ("foo|\nb", "deleteToLineEnd", "foo|b"),
    ],
)
def test_what_is_killed_can_be_yanked(text: str, action: str, result: str) -> None:
    editor = editing(text)
    assert do(editor, action) == result
    do(editor, "yank")
    assert editor.text == text.replace("|", "")


def test_kills_in_a_row_are_one_text() -> None:
    editor = editing("one two three|")
    do(editor, "deleteWordBackward", "deleteWordBackward")
    assert do(editor, "yank") == "one two three|"
    editor = editing("|one two three")
    do(editor, "deleteWordForward", "deleteWordForward")
    assert do(editor, "yank") == "one two| three"


def test_yank_pop_replaces_by_older_kills() -> None:
    editor = editing("one two|")
    do(editor, "deleteWordBackward", "cursorLineEnd")
    do(editor, "deleteToLineStart")
    assert do(editor, "yank") == "one |"
    assert do(editor, "yankPop") == "two|"
    assert do(editor, "yankPop") == "one |"
    assert do(editor, "undo") == "|"
    assert do(editor, "yankPop") == "|"  # only after a yank


def test_backspace_joins_lines() -> None:
    assert do(editing("a\n|b"), "deleteCharBackward") == "a|b"
    assert do(editing("a|\nb"), "deleteCharForward") == "a|b"
    assert do(editing("|a"), "deleteCharBackward") == "|a"


# Undo


def test_undo_is_grouped_by_word() -> None:
    editor = Editor()
    for character in "hello brave world":
        editor.insert(character)
    assert do(editor, "undo") == "hello brave|"
    assert do(editor, "undo") == "hello|"
    assert do(editor, "redo") == "hello brave|"
    assert do(editor, "undo", "undo") == "|"
    assert do(editor, "undo") == "|"


def test_a_change_after_undo_ends_redo() -> None:
    editor = editing("a")
    do(editor, "undo")
    editor.insert("b")
    assert do(editor, "redo") == "b|"


def test_moving_starts_a_new_group() -> None:
    editor = Editor()
    editor.insert("a")
    do(editor, "cursorLeft", "cursorRight")
    editor.insert("b")
    assert do(editor, "undo") == "a|"


def test_clearing_can_be_undone() -> None:
    editor = editing("draft")
    editor.clear()
    assert editor.empty
    assert do(editor, "undo") == "draft|"


# Markers


def test_a_large_paste_is_a_marker_and_sent_whole() -> None:
    editor = editing("see ")
    editor.paste(LONG)
    editor.insert(" ")
    editor.paste("x" * 1234)
    assert editor.text == "see [paste #1 +123 lines] [paste #2 1234 chars]"
    assert rows(editor) == [editor.text]
    assert editor.expanded() == f"see {LONG} {'x' * 1234}"
    assert editor.take().text == f"see {LONG} {'x' * 1234}"


def test_ten_lines_or_a_thousand_characters_are_not_large() -> None:
    for text in ("\n".join("0123456789"), "x" * 1000):
        editor = editing()
        editor.paste(text)
        assert editor.text == text


def test_a_marker_is_one_unit() -> None:
    editor = editing("a")
    editor.paste(LONG)
    editor.insert("b")
    assert do(editor, "cursorLeft", "cursorLeft") == "a|[paste #1 +123 lines]b"
    assert do(editor, "cursorWordRight") == "a[paste #1 +123 lines]|b"
    assert do(editor, "deleteCharBackward") == "a|b"
    assert do(editor, "undo") == "a[paste #1 +123 lines]|b"
    assert do(editor, "deleteWordBackward") == "a|b"
    do(editor, "cursorLineEnd", "yank")
    assert editor.take().text == f"ab{LONG}"


def test_a_killed_marker_survives_sending() -> None:
    editor = editing()
    editor.paste(LONG)
    do(editor, "deleteWordBackward")
    editor.insert("first")
    editor.take()
    do(editor, "yank")
    assert editor.take().text == LONG


def test_numbers_start_again_after_sending() -> None:
    editor = editing()
    editor.paste(LONG)
    editor.take()
    editor.paste(LONG)
    assert editor.text == "[paste #1 +123 lines]"


def test_text_that_looks_like_a_marker_is_text() -> None:
    editor = editing("[paste #1 +123 lines]")
    editor.paste(LONG)
    assert editor.take().text == f"[paste #1 +123 lines]{LONG}"


def test_an_image_is_a_marker_and_sent_as_image() -> None:
    editor = editing("what is ")
    editor.insert_image(IMAGE)
    assert editor.text == "what is [image #1 shot.png 1200\u00d7800]"
    assert editor.take() == Submission("what is [image #1 shot.png 1200\u00d7800]", (IMAGE,))
    assert editor.history.entries[-1].text == "what is "


def test_an_image_that_was_deleted_is_not_sent() -> None:
    editor = editing("a")
    editor.insert_image(IMAGE)
    do(editor, "deleteCharBackward")
    assert editor.take() == Submission("a", ())


def test_a_label_wider_than_the_screen_wraps() -> None:
    editor = editing("a", width=10)
    editor.paste(LONG)
    assert rows(editor, 10) == ["a[paste ", "#1 +123 ", "lines]"]
    assert do(editor, "cursorUp") == "a|[paste #1 +123 lines]"
    assert do(editor, "cursorDown") == "a[paste #1 +123 lines]|"


def test_the_external_editor_gets_pastes_in_full_and_gives_them_back() -> None:
    editor = editing("before ")
    editor.paste(LONG)
    editor.insert(" after ")
    editor.insert_image(IMAGE)
    editor.set_expanded(f"new {editor.expanded()} end")
    assert editor.text == "new before [paste #1 +123 lines] after [image #1 shot.png 1200\u00d7800] end"
    editor.set_expanded(editor.expanded().replace("line 7\n", ""))
    assert "paste" not in editor.text
    assert editor.take().images == (IMAGE,)


def test_more_markers_than_there_are_codes() -> None:
    editor = editing()
    for _ in range(1100):
        editor.paste("x" * 1001)
    assert editor.expanded() == "x" * 1001 * 1100


def test_a_path_dropped_behind_a_word_is_separated() -> None:
    editor = editing("see")
    editor.paste("/tmp/a.txt")
    assert editor.text == "see /tmp/a.txt"


# History


def test_up_shows_older_prompts_and_down_returns_to_the_draft() -> None:
    editor = Editor(History([HistoryEntry("first"), HistoryEntry("second\nline")]))
    editor.insert("draft")
    editor.insert_image(IMAGE)
    draft = editor.text
    assert do(editor, "cursorUp") == f"|{draft}"
    assert do(editor, "cursorUp") == "|second\nline"
    assert do(editor, "cursorUp") == "|first"
    assert do(editor, "cursorUp") == "|first"
    assert do(editor, "cursorDown") == "second\nline|"
    assert do(editor, "cursorDown") == f"{draft}|"
    assert editor.take().images == (IMAGE,)


def test_a_changed_entry_is_a_text_of_its_own() -> None:
    editor = Editor(History([HistoryEntry("first"), HistoryEntry("second")]))
    do(editor, "cursorUp")
    editor.insert("x")
    assert do(editor, "cursorDown") == "xsecond|"
    assert do(editor, "cursorUp", "cursorUp") == "|second"
    assert do(editor, "cursorDown") == "xsecond|"


def test_history_ids_work_wherever_the_cursor_is() -> None:
    editor = Editor(History([HistoryEntry("first")]))
    editor.insert("a\nb\nc")
    assert do(editor, "historyPrevious") == "|first"
    assert do(editor, "historyNext") == "a\nb\nc|"


def test_pastes_are_markers_again_in_history() -> None:
    editor = editing("see ")
    editor.paste(LONG)
    editor.take()
    assert do(editor, "cursorUp") == "|see [paste #1 +123 lines]"
    assert editor.take().text == f"see {LONG}"


def test_recalling_can_be_undone() -> None:
    editor = Editor(History([HistoryEntry("first")]))
    editor.insert("draft")
    do(editor, "historyPrevious")
    assert do(editor, "undo") == "draft|"


def test_blank_and_repeated_prompts_are_not_kept() -> None:
    history = History()
    assert [history.add(HistoryEntry(text)) for text in ("a", "a", " \n", "b", "a")] == [True, False, False, True, True]
    assert [entry.text for entry in history.entries] == ["a", "b", "a"]


def test_history_is_bounded() -> None:
    history = History(HistoryEntry(str(number)) for number in range(1500))
    assert (len(history.entries), history.entries[0].text) == (1000, "500")


def test_history_is_searched_newest_first() -> None:
    history = History(HistoryEntry(text) for text in ("fix the parser", "write docs", "fix the lexer"))
    assert [entry.text for entry in history.search("")] == ["fix the lexer", "write docs", "fix the parser"]
    assert [entry.text for entry in history.search("fix par")] == ["fix the parser"]


def test_entries_of_other_processes_are_taken_over_but_not_while_browsing() -> None:
    editor = Editor(History([HistoryEntry("mine")]))
    do(editor, "historyPrevious")
    editor.history.replace([HistoryEntry("theirs")])
    assert editor.history.entries[0].text == "mine"
    do(editor, "historyNext")
    editor.history.replace([HistoryEntry("mine"), HistoryEntry("theirs")])
    assert do(editor, "historyPrevious") == "|theirs"


def test_queued_messages_come_back_before_the_text() -> None:
    editor = editing("draft ")
    editor.paste(LONG)
    editor.prepend("first\nsecond")
    assert marked(editor) == "first\nsecond\ndraft [paste #1 +123 lines]|"
    editor = editing()
    editor.prepend("first")
    assert marked(editor) == "first|"


def test_a_paste_can_be_shown_in_place() -> None:
    editor = editing("a")
    editor.paste(LONG)
    editor.insert("b")
    do(editor, "cursorLeft")
    assert editor.expand_marker()
    assert editor.text == f"a{LONG}b"
    assert not editor.expand_marker()
    assert do(editor, "undo") == "a[paste #1 +123 lines]|b"


def test_undo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tau.screen.editor.undo.MAX_CHARS", 5000)
    editor = Editor()
    for number in range(10):
        editor.set_text(str(number) * 1000)
    for _ in range(20):
        editor.perform("tui.editor.undo")
    assert editor.text == "7" * 1000
