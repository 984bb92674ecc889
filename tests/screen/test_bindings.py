"""Key bindings: the table of ids, the file of pi, key syntax, clashes, platforms."""

from __future__ import annotations

import json

import pytest

from tau.screen.bindings import Bindings, key_label, normalized, pressed
from tau.screen.editor.editor import CHANGES, MOTIONS, OWN
from tau.screen.input_events import Key
from tau.screen.key_table import KEYS, OLD_IDS

# Ids and default keys of pi 0.87.1 on Linux. Those of 0.73.1 are among them.
PI = """
tui.editor.cursorUp up
tui.editor.cursorDown down
tui.editor.historyPrevious
tui.editor.historyNext
tui.editor.cursorLeft left ctrl+b
tui.editor.cursorRight right ctrl+f
tui.editor.cursorWordLeft alt+left ctrl+left alt+b
tui.editor.cursorWordRight alt+right ctrl+right alt+f
tui.editor.cursorLineStart home ctrl+home ctrl+a
tui.editor.cursorLineEnd end ctrl+end ctrl+e
tui.editor.jumpForward ctrl+]
tui.editor.jumpBackward ctrl+alt+]
tui.editor.pageUp pageUp ctrl+pageUp
tui.editor.pageDown pageDown ctrl+pageDown
tui.editor.deleteCharBackward backspace
tui.editor.deleteCharForward delete ctrl+d
tui.editor.deleteWordBackward ctrl+w alt+backspace
tui.editor.deleteWordForward alt+d alt+delete
tui.editor.deleteToLineStart ctrl+u
tui.editor.deleteToLineEnd ctrl+k
tui.editor.yank ctrl+y
tui.editor.yankPop alt+y
tui.editor.undo ctrl+-
tui.input.newLine shift+enter ctrl+j
tui.input.submit enter
tui.input.tab tab
tui.input.copy ctrl+c
tui.select.up up
tui.select.down down
tui.select.pageUp pageUp
tui.select.pageDown pageDown
tui.select.confirm enter
tui.select.cancel escape ctrl+c
tui.altScreen.pageUp pageUp
tui.altScreen.pageDown pageDown
tui.altScreen.halfPageUp
tui.altScreen.halfPageDown
tui.altScreen.lineUp
tui.altScreen.lineDown
tui.altScreen.previousPrompt ctrl+shift+up ctrl+up
tui.altScreen.nextPrompt ctrl+shift+down ctrl+down
tui.altScreen.search ctrl+shift+f
tui.altScreen.searchNext enter ctrl+g
tui.altScreen.searchPrevious shift+enter ctrl+shift+g
tui.altScreen.searchClose escape
tui.altScreen.top home
tui.altScreen.bottom end
app.interrupt escape
app.clear ctrl+c
app.exit ctrl+d
app.suspend ctrl+z
app.editor.external ctrl+g
app.clipboard.pasteImage ctrl+v
app.session.new
app.session.tree
app.session.fork
app.session.resume
app.session.togglePath ctrl+p
app.session.toggleSort ctrl+s
app.session.toggleNamedFilter ctrl+n
app.session.rename ctrl+r
app.session.delete ctrl+d
app.session.deleteNoninvasive ctrl+backspace
app.model.select ctrl+l
app.model.cycleForward ctrl+p
app.model.cycleBackward shift+ctrl+p
app.models.save ctrl+s
app.thinking.cycle shift+tab
app.thinking.save ctrl+s
app.thinking.toggle ctrl+t
app.tools.expand ctrl+o
app.message.copy ctrl+x
app.message.followUp alt+enter
app.message.dequeue alt+up
app.tree.foldOrUp ctrl+left alt+left
app.tree.unfoldOrDown ctrl+right alt+right
app.tree.editLabel shift+l
app.tree.toggleLabelTimestamp shift+t
app.tree.filter.default ctrl+d
app.tree.filter.noTools ctrl+t
app.tree.filter.userOnly ctrl+u
app.tree.filter.labeledOnly ctrl+l
app.tree.filter.all ctrl+a
app.tree.filter.cycleForward ctrl+o
app.tree.filter.cycleBackward shift+ctrl+o
app.models.enableAll ctrl+a
app.models.clearAll ctrl+x
app.models.toggleProvider ctrl+p
app.models.reorderUp alt+up
app.models.reorderDown alt+down
"""
OWN_ACTIONS = {
    "tui.editor.historySearch": ("ctrl+r",),
    "tui.editor.redo": ("alt+-",),
    "app.transcript.open": ("alt+o",),
    "app.redraw": (),
    "app.help": ("?",),
    "app.permission.focus": ("tab",),
}


def test_every_id_of_pi_is_in_the_table_with_its_keys() -> None:
    bindings = Bindings()
    for line in PI.split("\n")[1:-1]:
        action, *keys = line.split(" ")
        assert set(bindings.keys(action)) == {normalized(key) for key in keys}, action
    assert {action.id for action in KEYS if not action.own} == {line.split(" ")[0] for line in PI.split("\n")[1:-1]}


def test_actions_of_tau_are_marked() -> None:
    assert {action.id: action.keys for action in KEYS if action.own} == OWN_ACTIONS


def test_the_table_is_consistent() -> None:
    ids = [action.id for action in KEYS]
    assert len(ids) == len(set(ids))
    assert set(OLD_IDS.values()) <= set(ids)
    for action in KEYS:
        for keys in (action.keys, *action.other_platforms.values()):
            assert [normalized(key) for key in keys] == list(keys), action.id
    assert {*CHANGES, *MOTIONS, *OWN} <= set(ids)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("shift+ctrl+p", "ctrl+shift+p"),
        ("Ctrl+PageUp", "ctrl+pageUp"),
        ("esc", "escape"),
        ("alt+return", "alt+enter"),
        ("super+k", "super+k"),
        ("alt+super+shift+ctrl+x", "ctrl+shift+alt+super+x"),
        ("ctrl++", "ctrl++"),
        ("+", "+"),
        ("ctrl+]", "ctrl+]"),
        ("F12", "f12"),
        ("ö", "ö"),
        ("f13", None),
        ("hyper+x", None),
        ("ctrl+ctrl+x", None),
        ("ctrl+", "ctrl++"),
        ("", None),
        ("ctrl+x ctrl+e", None),
    ],
)
def test_key_syntax(key: str, expected: str | None) -> None:
    assert normalized(key) == expected


def test_a_capital_letter_is_the_letter_with_shift() -> None:
    assert pressed(Key("L", "L")) == "shift+l"
    assert Bindings().actions(Key("L", "L")) == ["app.tree.editLabel"]
    assert pressed(Key("ctrl+P")) == "ctrl+shift+p"
    assert pressed(Key("shift+?", "?")) == "?"


def test_a_key_has_the_actions_of_all_contexts_in_the_order_of_the_table() -> None:
    assert Bindings().actions(Key("ctrl+d")) == [
        "tui.editor.deleteCharForward",
        "app.exit",
        "app.session.delete",
        "app.tree.filter.default",
    ]
    assert Bindings().actions(Key("x", "x")) == ()


def test_undo_works_where_the_terminal_cannot_tell_minus_from_underscore() -> None:
    assert Bindings().actions(Key("ctrl+_")) == ["tui.editor.undo"]


def test_a_file_of_pi_is_taken_unchanged() -> None:
    content = {"app.session.new": "ctrl+shift+n", "app.session.tree": ["ctrl+shift+t", "alt+shift+t"]}
    bindings, warnings = Bindings.parse(json.dumps(content))
    assert warnings == []
    assert bindings.actions(Key("ctrl+shift+n")) == ["app.session.new"]
    assert bindings.keys("app.session.tree") == ("ctrl+shift+t", "shift+alt+t")


def test_a_list_replaces_the_default_and_an_empty_one_unbinds() -> None:
    bindings, warnings = Bindings.from_file({"app.model.select": ["f2"], "app.suspend": []})
    assert warnings == []
    assert bindings.actions(Key("f2")) == ["app.model.select"]
    assert "app.model.select" not in bindings.actions(Key("ctrl+l"))
    assert bindings.actions(Key("ctrl+z")) == ()


def test_ids_of_old_versions_are_understood() -> None:
    bindings, warnings = Bindings.from_file({"interrupt": "f1", "cycleModelForward": ["f2"], "expandTools": []})
    assert warnings == []
    assert bindings.keys("app.interrupt") == ("f1",)
    assert bindings.keys("app.model.cycleForward") == ("f2",)
    assert bindings.keys("app.tools.expand") == ()


def test_a_new_id_counts_more_than_its_old_form() -> None:
    bindings, _ = Bindings.from_file({"interrupt": "f1", "app.interrupt": "f3"})
    assert bindings.keys("app.interrupt") == ("f3",)


def test_unknown_ids_and_keys_are_warnings_with_their_line() -> None:
    text = '{\n  "app.nothing": "f1",\n  "app.exit": "hyper+x",\n  "app.clear": 7,\n  "app.redraw": "ctrl+x ctrl+e"\n}'
    bindings, warnings = Bindings.parse(text)
    assert warnings == [
        "keybindings.json:2: there is no action 'app.nothing'",
        "keybindings.json:3: 'hyper+x' is not a key",
        "keybindings.json:4: 'app.clear' must be a key or a list of keys",
        "keybindings.json:5: 'ctrl+x ctrl+e' is a sequence of keys, which is not supported",
    ]
    assert bindings.keys("app.exit") == ("ctrl+d",)


def test_a_clash_in_one_context_is_a_warning_and_the_file_wins() -> None:
    bindings, warnings = Bindings.parse('{\n "cursorUp": ["up", "ctrl+p"]\n}')
    assert warnings == [
        "keybindings.json:2: ctrl+p is bound to tui.editor.cursorUp and to app.model.cycleForward;"
        " tui.editor.cursorUp comes first"
    ]
    assert bindings.actions(Key("ctrl+p"))[0] == "tui.editor.cursorUp"


@pytest.mark.parametrize(
    "content",
    [
        {"app.session.rename": "ctrl+g"},  # editor and session picker
        {"app.tree.filter.all": "ctrl+w"},  # editor and tree
        {"app.exit": "ctrl+d", "app.clear": "ctrl+c"},  # as by default
        {"tui.select.up": ["up", "ctrl+p"]},  # all lists, and that of the models of providers
        {"tui.select.up": "ctrl+p", "app.models.toggleProvider": "ctrl+p"},
        {"plannotator.open": "ctrl+alt+p"},  # of an extension
    ],
)
def test_the_same_key_in_two_contexts_is_no_clash(content: dict[str, object]) -> None:
    assert Bindings.from_file(content)[1] == []


def test_a_picker_has_the_keys_of_every_list() -> None:
    assert len(Bindings.from_file({"app.session.rename": "enter"})[1]) == 1


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"a": 1,}'])
def test_a_broken_file_leaves_the_default_keys(text: str) -> None:
    bindings, warnings = Bindings.parse(text)
    assert len(warnings) == 1
    assert bindings.keys("app.exit") == ("ctrl+d",)


def test_windows_and_wsl_have_keys_of_their_own() -> None:
    windows, wsl = Bindings("windows"), Bindings("wsl")
    assert (windows.keys("tui.editor.undo"), wsl.keys("tui.editor.undo")) == (("ctrl+z",), ("alt+z",))
    assert (windows.keys("app.suspend"), wsl.keys("app.suspend")) == ((), ("ctrl+z",))
    for bindings in (windows, wsl):
        assert bindings.keys("app.clipboard.pasteImage") == ("alt+v",)
        assert bindings.keys("app.model.cycleBackward") == ("alt+p",)
        assert bindings.keys("app.message.followUp") == ("ctrl+q",)
        assert bindings.keys("app.message.dequeue") == ("alt+q",)
        assert bindings.keys("tui.altScreen.search") == ("ctrl+f",)
        assert bindings.keys("tui.altScreen.previousPrompt") == ("ctrl+up",)
        assert bindings.keys("tui.altScreen.nextPrompt") == ("ctrl+down",)


def test_labels_are_as_people_write_them() -> None:
    assert key_label("ctrl+shift+p") == "Ctrl+Shift+P"
    assert key_label("alt+pageUp", "darwin") == "Option+PgUp"
    assert Bindings().label("app.interrupt") == "Esc"
    assert Bindings().label("app.redraw") == ""
