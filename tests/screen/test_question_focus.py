"""Keys that are meant for the editor never answer a question that appears while they are typed."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.records.dialogs import Select
from tau.records.permissions import PermissionDetails
from tau.screen.bindings import Bindings
from tau.screen.input_events import Key
from tau.screen.panels import Answer
from tau.screen.panels.focus import GUARD_S, QUIET_S, QuestionFocus
from tau.screen.panels.permission import permission_panel

pytestmark = pytest.mark.unit

OPTIONS = ["Allow once", "Allow for this session: bash with exactly this command", "Deny"]
DETAILS = PermissionDetails("c1", "bash", {}, ("make",), (), "/home/me/src", None, "--permissions ask")
BINDINGS = Bindings()


def key(name: str) -> Key:
    return Key("space", " ") if name == " " else Key(name, name if len(name) == 1 else "")


class Press(NamedTuple):
    at: float
    name: str


class Terminal:
    """An editor and one permission question, with the keys that a person presses."""

    def __init__(self, shown_at: float) -> None:
        self.focus = QuestionFocus()
        self.panel = permission_panel(Select("1", "Allow bash?", OPTIONS), DETAILS)
        self.text = ""
        self.sent: list[str] = []
        self.answers: list[Answer] = []
        self.focused_since: float | None = None
        self._shown_at: float | None = shown_at

    def press(self, press: Press) -> None:
        self.pass_time(press.at)
        pressed = key(press.name)
        actions = BINDINGS.actions(pressed)
        focused_since = self.focused_since
        wanted = not self.answers and self.panel.wants(pressed, actions)
        to = self.focus.route(pressed, actions, press.at, wanted=wanted)
        if to == "panel" and not self.answers and (answer := self.panel.key(pressed, actions)) is not None:
            self.answers.append(answer)
            self.focus.hide()
            if press.name != "escape":
                assert focused_since is not None
                assert press.at - focused_since >= GUARD_S
        if to == "editor":
            self._edit(press)
        self._observe(press.at)

    def pass_time(self, now: float) -> None:
        """What the program does on its own until then: show the question, and give it the focus in time."""
        if self._shown_at is not None and now >= self._shown_at:
            self.focus.show(self._shown_at, editor_empty=not self.text)
            self._observe(self._shown_at)
            self._shown_at = None
        while (due := self.focus.next_change(editor_empty=not self.text)) is not None and due <= now:
            self.focus.update(due, editor_empty=not self.text)
            self._observe(due)

    def _observe(self, now: float) -> None:
        if not self.focus.focused:
            self.focused_since = None
        elif self.focused_since is None:
            self.focused_since = now

    def _edit(self, press: Press) -> None:
        if press.name == "enter":
            self.sent += [self.text] if self.text else []
            self.text = ""
            self.focus.submitted()
        else:
            self.text += key(press.name).text


def played(presses: list[Press], shown_at: float) -> Terminal:
    terminal = Terminal(shown_at)
    for press in presses:
        terminal.press(press)
    terminal.pass_time(1e6)
    return terminal


def stream(names: st.SearchStrategy[str], max_gap: float) -> st.SearchStrategy[list[Press]]:
    gaps = st.lists(st.tuples(st.floats(0.001, max_gap), names), min_size=1, max_size=60)

    def at_times(pairs: list[tuple[float, str]]) -> list[Press]:
        now, presses = 0.0, list[Press]()
        for gap, name in pairs:
            now += gap
            presses.append(Press(now, name))
        return presses

    return gaps.map(at_times)


TYPED = st.sampled_from([*"abcyn123 .", "enter", "up", "down", "left", "backspace"])


@pytest.mark.promise("T04")
@given(stream(TYPED, 0.99 * QUIET_S), st.floats(0, 1))
def test_typing_that_began_before_a_question_never_answers_it(presses: list[Press], where: float) -> None:
    first, last = presses[0].at, presses[-1].at
    terminal = played(presses, shown_at=first + where * (last - first) + 1e-6)
    assert terminal.answers == []
    assert "".join(terminal.sent) + terminal.text == "".join(key(press.name).text for press in presses)


@pytest.mark.promise("T04")
@given(stream(TYPED, 0.99 * QUIET_S), st.floats(0, 0.99 * GUARD_S))
def test_typing_that_begins_just_after_a_question_never_answers_it(presses: list[Press], early: float) -> None:
    terminal = played(presses, shown_at=presses[0].at - early)
    assert terminal.answers == []
    assert "".join(terminal.sent) + terminal.text == "".join(key(press.name).text for press in presses)


@given(stream(st.sampled_from([*"abcyn."]), 5.0), st.floats(-5, 60))
def test_letters_never_answer_whenever_they_come(presses: list[Press], shown_at: float) -> None:
    terminal = played(presses, shown_at)
    assert terminal.answers == []
    assert terminal.text == "".join(press.name for press in presses)


@given(stream(st.sampled_from([*"ab12 ", "enter", "up", "down", "tab", "escape"]), 2.0), st.floats(-5, 30))
def test_a_key_answers_only_a_question_that_had_the_focus_for_half_a_second(
    presses: list[Press], shown_at: float
) -> None:
    terminal = played(presses, shown_at)  # `press` checks it
    assert len(terminal.answers) <= 1


@pytest.mark.promise("T04")
@pytest.mark.parametrize("shown_at", [-0.2, 0.0, 0.24, 0.26, 1.0, 5.0])
def test_enter_held_down_never_answers(shown_at: float) -> None:
    presses = [Press(0.25, "enter"), *(Press(0.75 + count / 30, "enter") for count in range(200))]
    assert played(presses, shown_at).answers == []


def test_a_quiet_and_empty_editor_gives_the_focus_after_a_second() -> None:
    focus = QuestionFocus()
    focus.typed(10.0)
    focus.show(10.2, editor_empty=True)
    assert not focus.focused
    assert focus.next_change(editor_empty=True) == 11.0
    assert focus.next_change(editor_empty=False) is None
    focus.update(10.9, editor_empty=True)
    assert not focus.focused
    focus.update(11.0, editor_empty=False)
    assert not focus.focused
    focus.update(11.0, editor_empty=True)
    assert focus.focused


def test_tab_gives_the_focus_to_a_question_above_the_editor_and_takes_it_back() -> None:
    terminal = Terminal(0.0)
    for press in [Press(-0.1, "a"), Press(0.6, "tab")]:
        terminal.press(press)
    assert terminal.focus.focused
    terminal.press(Press(0.7, "up"))
    terminal.press(Press(0.8, "tab"))
    assert not terminal.focus.focused
    terminal.text = ""
    terminal.pass_time(100)
    assert not terminal.focus.focused
    assert terminal.answers == []


def test_the_arrows_and_enter_answer_after_tab() -> None:
    terminal = Terminal(0.0)
    for press in [Press(-0.1, "a"), Press(0.6, "tab"), Press(0.7, "up"), Press(0.8, "up"), Press(1.2, "enter")]:
        terminal.press(press)
    assert terminal.answers == [Answer("Allow once")]
    assert terminal.text == "a"


def test_tab_right_after_a_question_appeared_is_for_the_editor() -> None:
    terminal = Terminal(0.0)
    for press in [Press(-0.1, "a"), Press(0.2, "tab")]:
        terminal.press(press)
    assert not terminal.focus.focused


def test_the_question_after_an_answered_one_keeps_the_focus_but_not_the_keys() -> None:
    focus = QuestionFocus()
    focus.show(0.0, editor_empty=True)
    focus.update(0.5, editor_empty=True)
    assert focus.route(key("1"), [], 1.0, wanted=True) == "panel"
    focus.show(1.0, editor_empty=True, follows_answer=True)
    assert focus.focused
    for at in (1.1, 1.5, 1.9):  # held down
        focus.update(at, editor_empty=True)
        assert focus.route(key("1"), [], at, wanted=True) == "nothing"
    focus.update(2.4, editor_empty=True)
    assert focus.route(key("1"), [], 2.5, wanted=True) == "panel"


def test_a_dialog_of_a_command_takes_the_focus_at_once_and_a_permission_question_does_not() -> None:
    for needs_quiet in (False, True):
        focus = QuestionFocus()
        focus.typed(1.0)
        focus.submitted()
        focus.show(1.1, editor_empty=True, needs_quiet=needs_quiet)
        assert focus.focused is not needs_quiet
        focus.update(1.9, editor_empty=True)  # less than a second after the last key
        assert focus.route(key("1"), [], 1.95, wanted=True) == "editor"


def test_keys_that_were_pressed_while_the_program_was_busy_do_not_answer() -> None:
    focus = QuestionFocus()
    focus.show(0.0, editor_empty=True)
    assert focus.focused
    # The program was busy for a second. Meanwhile a key was pressed, which is read after a frame was drawn.
    focus.update(1.0, editor_empty=True, input_waits=True)
    assert focus.route(key("1"), [], 1.0, wanted=True) == "editor"
    focus.show(10.0, editor_empty=True)
    # The same, and the key is read before the frame.
    assert focus.route(key("1"), [], 11.0, wanted=True) == "editor"
