"""Each terminal gets the notification that it knows."""

from __future__ import annotations

import re

import pytest

from tau.tui.notifications import notification


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color"}, b"\x07"),
        ({"TERM": "xterm-kitty"}, b"\x1b]99;e=1;dGF1OiBEb25l\x1b\\"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, b"\x1b]9;tau: Done\x1b\\"),
        ({"TERM": "xterm-ghostty"}, b"\x1b]9;tau: Done\x1b\\"),
        ({"TERM": "rxvt-unicode-256color"}, b"\x1b]777;notify;tau;Done\x1b\\"),
        (
            {"TERM": "tmux-256color", "TMUX": "/tmp/t", "TERM_PROGRAM": "ghostty"},
            b"\x1bPtmux;\x1b\x1b]9;tau: Done\x1b\x1b\\\x1b\\\x07",
        ),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/t", "TERM_PROGRAM": "tmux"}, b"\x07"),
    ],
)
def test_a_notification_is_what_the_terminal_knows(environment: dict[str, str], expected: bytes) -> None:
    assert notification("tau", "Done", environment) == expected


def test_a_notification_can_be_the_bell_alone() -> None:
    assert notification("tau", "Done", {"TERM": "xterm-kitty"}, bell_only=True) == b"\x07"


@pytest.mark.promise("T02")
@pytest.mark.parametrize("term", ["xterm-kitty", "xterm-ghostty", "foot"])
def test_a_text_cannot_end_the_sequence(term: str) -> None:
    data = notification("a\x1b\\;b\x07", "c\x9c\n\x1b]0;x\x07\ud800" + "d" * 1000, {"TERM": term})
    assert len(re.findall(rb"[\x00-\x1f\x7f]", data)) == 2  # ESC ] and ESC \
    assert "\x9c" not in data.decode()
    assert len(data) < 700


def test_an_empty_tmux_variable_counts_as_no_tmux() -> None:
    environment = {"TERM_PROGRAM": "ghostty", "TMUX": ""}
    assert notification("tau", "done", environment) == b"\x1b]9;tau: done\x1b\\"
