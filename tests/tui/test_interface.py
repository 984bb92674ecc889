"""The whole program at a terminal: a prompt, the answer, the ways out."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from support.interface import Interface
from support.rpc_process import calls, endless


def test_a_prompt_is_answered_and_ctrl_d_leaves(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[{"text": "Hello *there*"}]) as tau:
        tau.start().send("hi")
        tau.wait("Hello there")
        tau.settle()
        tau.press("ctrl+d")
        assert tau.wait_end() == 0
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings)
        shown = tau.screen()
        assert "> hi" in shown and "Hello there" in shown
        assert not any(row.startswith("──") for row in shown)  # the box is erased
    assert tau.prompts() == ["hi"]


def test_keys_pressed_before_the_interface_is_drawn_are_in_the_editor(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.type("typed early")
        tau.wait(lambda shown: "──" in shown and "typed early" in shown)
        assert [row for row in tau.screen() if "typed early" in row] == ["typed early"]


def test_escape_stops_the_answer(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far "), {"text": "again"}]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.press("escape")
        tau.wait("Stopped")
        tau.settle()
        tau.send("more")
        tau.wait("again")


def test_enter_steers_and_alt_enter_follows_up(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[calls("sleep 1"), {"text": "one"}, {"text": "two"}]) as tau:
        tau.start().send("go")
        tau.wait("Working")
        tau.send("left")
        tau.wait("Steering: left")
        tau.type("later")
        tau.press("alt+enter")
        tau.wait("Follow-up: later")
        tau.wait("two")
        tau.settle()
    assert tau.prompts() == ["go", "left", "later"]


def test_alt_up_returns_queued_messages_to_the_editor(tmp_path: Path) -> None:
    with Interface(tmp_path, script=[calls("sleep 5"), {"text": "one"}]) as tau:
        tau.start().send("go")
        tau.wait("Working")
        tau.send("first")
        tau.wait("Steering: first")
        tau.type("rest")
        tau.press("alt+up")
        tau.wait(lambda shown: "Steering" not in shown)
        assert tau.box()[1:3] == ["first", "rest"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGQUIT, 131)]
)
def test_a_signal_restores_the_terminal(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with Interface(tmp_path, script=[endless("so far ")]) as tau:
        tau.start().send("go")
        tau.wait("so far")
        tau.signal(number)
        assert tau.wait_end() == code
        assert (tau.modes(), tau.settings_now()) == (set(), tau.settings)
