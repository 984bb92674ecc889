"""The list of keys, without a terminal."""

from __future__ import annotations

import pytest

from tau.screen.bindings import Bindings
from tau.screen.hotkeys import hotkeys, is_plain
from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.modals.hotkey_list import HotkeyList

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "key",
    ["a", "shift+l", "ctrl+a", "ctrl+]", "ctrl+-", "alt+enter", "shift+tab", "ctrl+up", "f1", "alt++"],
)
def test_every_terminal_sends_it(key: str) -> None:
    assert is_plain(key)


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+shift+p", "ctrl+i", "ctrl+1", "super+k", "ctrl+backspace"])
def test_only_some_terminals_send_it(key: str) -> None:
    assert not is_plain(key)


def test_keys_that_the_terminal_cannot_send_say_so() -> None:
    rows = {row.about: row for row in hotkeys(Bindings(), extended=False)}
    assert rows["Previous model"].missing == "this terminal does not send Ctrl+Shift+P"
    assert rows["Next model"].missing == ""
    assert not any(row.missing for row in hotkeys(Bindings(), extended=True))


def test_the_list_has_what_is_bound_now_and_leaves_out_what_is_not() -> None:
    bindings, _ = Bindings.from_file({"app.model.select": "f2", "app.tools.expand": []})
    rows = {row.about: row for row in hotkeys(bindings, extended=True)}
    assert (rows["Choose a model"].keys, rows["Choose a model"].group) == ("F2", "editor")
    assert "Collapse or expand tool output" not in rows


def test_a_character_closes_the_list_that_a_key_opened_and_is_not_lost() -> None:
    shown = HotkeyList(hotkeys(Bindings(), extended=True), peek=True)
    assert shown.key(Key("down"), ["tui.select.down"]) is None
    assert shown.key(Key("h", "h"), []) == Outcome("type", "h")
    assert shown.paste("text") == Outcome("type", "text")
    assert shown.key(Key("escape"), ["tui.select.cancel"]) == CANCELLED


def test_typing_searches_in_the_list_of_the_command() -> None:
    shown = HotkeyList(hotkeys(Bindings(), extended=True))
    for letter in "choose":
        assert shown.key(Key(letter, letter), []) is None
    lines = ["".join(span.text for span in line) for line in shown.rows(79, 10).lines]
    assert lines[2].startswith("→ Ctrl+L") and "Choose a model" in lines[2]
