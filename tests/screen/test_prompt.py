"""Keys in the prompt: editing, the list of proposals, and what is left to the application."""

from __future__ import annotations

from tau.screen.bindings import Bindings
from tau.screen.completion import CompletionList, Proposal, Query
from tau.screen.editor import Editor
from tau.screen.history import History, HistoryEntry
from tau.screen.input_events import Key
from tau.screen.prompt import KeyResult, Prompt

BINDINGS = Bindings()
COMMANDS = [Proposal("/model ", "model", submits=True), Proposal("/import ", "import")]


def prompt(*history: str) -> Prompt:
    return Prompt(Editor(History(map(HistoryEntry, history))), CompletionList())


def press(on: Prompt, *names: str) -> KeyResult:
    result = KeyResult(False)
    for name in names:
        text = {"space": " "}.get(name, name if len(name) == 1 else "")
        result = on.key(Key(name, text), BINDINGS.actions(Key(name, text)))
    return result


def answer(on: Prompt, result: KeyResult, *proposals: Proposal) -> KeyResult:
    assert result.query
    return on.offer(result.query, proposals)


def test_typing_and_enter() -> None:
    on = prompt()
    assert press(on, "h", "space", "i") == KeyResult(True)
    assert press(on, "enter") == KeyResult(True, submit=True)
    assert on.editor.take().text == "h i"


def test_a_line_break_by_three_keys() -> None:
    on = prompt()
    for keys in (["shift+enter"], ["ctrl+j"], ["\\", "enter"]):
        press(on, "a", *keys)
    assert on.editor.take().text == "a\na\na\n"


def test_a_command_is_chosen_from_the_list_and_sent() -> None:
    on = prompt()
    assert press(on, "/").query == Query("command", "", 0, 1)
    answer(on, press(on, "m"), *COMMANDS)
    assert press(on, "enter") == KeyResult(True, submit=True)
    assert on.editor.text == "/model "


def test_a_command_with_an_argument_is_completed_with_enter() -> None:
    on = prompt()
    answer(on, press(on, "/"), *COMMANDS)
    press(on, "down")
    result = press(on, "enter")
    assert (on.editor.text, result.submit) == ("/import ", False)
    assert result.query == Query("argument", "", 8, 0, command="import")


def test_a_folder_is_completed_further() -> None:
    on = prompt()
    answer(on, press(on, "@", "s"), Proposal("@src/", "src/", partial=True))
    result = press(on, "tab")
    assert on.editor.text == "@src/"
    assert result.query == Query("file", "src/", 0, 5)


def test_tab_completes_a_single_path_at_once() -> None:
    on = prompt()
    result = press(on, "x", "space", "s", "tab")
    assert answer(on, result, Proposal("src/", "src/", partial=True)).used
    assert on.editor.text == "x src/"


def test_escape_closes_the_list_first_and_is_then_for_the_application() -> None:
    on = prompt()
    answer(on, press(on, "/"), *COMMANDS)
    assert press(on, "escape").used
    assert not on.completion.open
    assert not press(on, "escape").used


def test_up_and_down_are_for_the_list_while_it_is_open() -> None:
    on = prompt("older")
    answer(on, press(on, "/"), *COMMANDS)
    press(on, "up")
    assert on.completion.selected == 1
    press(on, "escape", "up", "up")
    assert on.editor.text == "older"


def test_a_command_of_the_history_does_not_open_the_list() -> None:
    on = prompt("/one", "/two")
    assert press(on, "up").query is None
    assert on.editor.text == "/two"
    press(on, "up")
    assert on.editor.text == "/one"


def test_keys_of_the_application_are_left() -> None:
    on = prompt()
    for name in ("ctrl+d", "ctrl+c", "escape", "ctrl+p", "alt+up", "?", "ctrl+l", "ctrl+z", "f5"):
        assert press(on, name) == KeyResult(False), name
    press(on, "a")
    assert press(on, "?").used
    assert press(on, "home", "ctrl+d").used
    assert on.editor.text == "?"


def test_a_key_that_the_file_gives_to_the_application_is_left() -> None:
    bindings, _ = Bindings.from_file({"app.redraw": ["ctrl+a", "§"]})
    on = prompt()
    for key in (Key("ctrl+a"), Key("§", "§")):
        assert on.key(key, bindings.actions(key)) == KeyResult(False)
    assert press(on, "L").used  # a key of the tree is text here


def test_the_mode_follows_the_text() -> None:
    on = prompt()
    modes = []
    for name in ("!", "!", "backspace", "backspace", "/", "x"):
        press(on, name)
        modes.append(on.mode)
    assert modes == ["bash", "bashExcluded", "bash", "prompt", "prompt", "command"]


def test_a_jump_takes_the_next_character_and_escape_cancels_it() -> None:
    on = prompt()
    press(on, "a", "b", "home", "ctrl+]", "b", "x")
    assert on.editor.text == "axb"
    assert press(on, "ctrl+]", "escape").used
    assert not on.editor.waits_for_character


def test_shift_does_not_matter_for_keys_without_text() -> None:
    on = prompt()
    press(on, "a", "b", "shift+backspace", "shift+left", "c")
    assert on.editor.text == "ca"


def test_a_paste_is_never_a_key() -> None:
    on = prompt()
    on.paste("\x1b[201~/quit\r\n")
    assert on.editor.text == "[201~/quit\n"


def test_only_actions_of_a_context() -> None:
    assert BINDINGS.actions(Key("ctrl+p"), "editor") == ["app.model.cycleForward"]
    assert BINDINGS.actions(Key("ctrl+d"), "tree") == ["app.tree.filter.default"]
    assert BINDINGS.actions(Key("enter"), "tree") == ["tui.select.confirm"]


def test_a_completion_that_is_found_after_the_text_was_cleared_is_not_inserted() -> None:
    on = prompt()
    press(on, *"open ./so")
    asked = press(on, "tab")
    on.editor.clear()
    assert answer(on, asked, Proposal("./some/", "some/")) == KeyResult(False)
    assert on.editor.text == ""
