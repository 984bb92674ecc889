from __future__ import annotations

import pytest

from tau.screen.attention import Attention, Method, TitleState, method_for, notification_bytes, window_title

pytestmark = pytest.mark.unit


def test_a_long_run_that_settles_without_the_focus_is_announced() -> None:
    attention = Attention()
    attention.run_started(0)
    assert attention.run_settled(100) is None  # focus unknown counts as focused
    attention.focus(False)
    attention.run_started(0)
    attention.run_started(9)
    assert attention.run_settled(75) == "Done after 1 min 15 s"
    attention.run_started(100)
    assert attention.run_settled(109) is None
    attention.run_started(200)
    attention.focus(True)
    assert attention.run_settled(300) is None


def test_a_question_that_waits_without_the_focus_is_announced_once() -> None:
    attention = Attention()
    attention.questions(1, 10)
    assert attention.next_change() is None
    attention.focus(False)
    assert attention.next_change() == 15
    attention.questions(2, 12)
    assert attention.waiting(14) is None
    assert attention.waiting(15) == "A question waits for your answer"
    assert attention.waiting(99) is None
    attention.questions(0, 100)
    attention.questions(1, 101)
    assert attention.next_change() == 106


@pytest.mark.parametrize(
    ("environment", "method"),
    [
        ({}, "bell"),
        ({"TERM": "xterm-256color"}, "bell"),
        ({"TERM": "xterm-kitty"}, "osc99"),
        ({"KITTY_WINDOW_ID": "1", "TERM": "tmux-256color"}, "osc99"),
        ({"TERM_PROGRAM": "WezTerm"}, "osc9"),
        ({"TERM": "foot-extra"}, "osc777"),
    ],
)
def test_the_terminal_decides_how_to_notify(environment: dict[str, str], method: str) -> None:
    assert method_for(environment) == method
    assert method_for(environment, "bell") == "bell"
    assert method_for(environment, "off") == "none"


@pytest.mark.parametrize(
    ("method", "tmux", "sent"),
    [
        ("osc9", False, b"\x1b]9;Done; now\x07"),
        ("osc777", False, b"\x1b]777;notify;tau;Done, now\x07"),
        ("osc99", False, b"\x1b]99;;Done; now\x1b\\"),
        ("bell", True, b"\x07"),
        ("none", True, b""),
        ("osc9", True, b"\x1bPtmux;\x1b\x1b]9;Done; now\x07\x1b\\"),
    ],
)
def test_a_notification_is_one_sequence(method: Method, tmux: bool, sent: bytes) -> None:
    assert notification_bytes("Done; now", method, tmux=tmux) == sent


@pytest.mark.parametrize("method", ["osc9", "osc777", "osc99"])
def test_a_notification_cannot_contain_another_sequence(method: Method) -> None:
    sent = notification_bytes("a\x1b\\\x07\x9c\x1b]52;c;x\x07\nb", method, tmux=False)
    assert sent.count(b"\x1b") == (2 if method == "osc99" else 1)
    assert sent.count(b"\x07") == (0 if method == "osc99" else 1)
    assert b"\xc2\x9c" not in sent


@pytest.mark.parametrize(
    ("state", "title"),
    [
        (TitleState(""), "tau"),
        (TitleState("parser"), "tau: parser"),
        (TitleState("parser", working=True), "✳ tau: parser"),
        (TitleState("parser", working=True, asking=True), "● tau: parser"),
        (TitleState("parser", given="mine"), "mine"),
        (TitleState("a\x1b]0;b\x07"), "tau: a\\x1b]0;b\\x07"),
    ],
)
def test_the_title_says_what_tau_does(state: TitleState, title: str) -> None:
    assert window_title(state) == title
