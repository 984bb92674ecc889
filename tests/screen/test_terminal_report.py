"""What a terminal can do, in sentences."""

from __future__ import annotations

import pytest

from tau.screen.terminal_report import answer_notes, environment_notes

pytestmark = pytest.mark.unit
KITTY = {"kittyFlags": "1", "mode 2026": "2", "background": "rgb:0000/0000/0000", "secondaryAttributes": "1;4000;0"}


def test_a_terminal_that_answers_everything_has_no_complaint() -> None:
    notes = answer_notes(KITTY, complete=True, extended_keys=True)
    assert all(note.good for note in notes)
    assert [note.text for note in notes][:3] == [
        "Keys: the kitty protocol, every key is told apart",
        "Frames without flicker (synchronized updates): yes",
        "Background: dark",
    ]


def test_a_silent_terminal_is_told_what_is_lost() -> None:
    lost = [note.text for note in answer_notes({}, complete=False, extended_keys=False) if not note.good]
    assert len(lost) == 2 and "Shift+Enter" in lost[1]


def test_options_of_tmux_that_are_off_have_the_line_to_add() -> None:
    tmux = {"extended-keys": "off", "focus-events": "on"}
    notes = environment_notes({"TERM": "tmux-256color", "TMUX": "/tmp/x"}, "auto", tmux)
    lost = [note.text for note in notes if not note.good]
    assert any(text.endswith("Add to ~/.tmux.conf: set -s extended-keys on") for text in lost)
    assert any("terminal-features" in text for text in lost)
    assert any(note.good and note.text == "tmux focus-events: on" for note in notes)


@pytest.mark.parametrize(
    ("environment", "colours"),
    [({"TERM": "xterm", "COLORTERM": "truecolor"}, "24 bits"), ({"TERM": "xterm-256color"}, "256"), ({}, "none")],
)
def test_the_number_of_colours_is_named(environment: dict[str, str], colours: str) -> None:
    assert f"Colours: {colours}" in [note.text for note in environment_notes(environment, "auto", {})]
