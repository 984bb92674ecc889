from __future__ import annotations

import pytest

from tau.screen.attention import Attention, TitleState, window_title

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
    ("state", "title"),
    [
        (TitleState("tau"), "tau"),
        (TitleState("tau", "work"), "tau: work"),
        (TitleState("tau", "work", "parser"), "tau: parser"),
        (TitleState("tau", "work", "parser", working=True), "✳ tau: parser"),
        (TitleState("tau", "work", "parser", working=True, asking=True), "● tau: parser"),
        (TitleState("tau", "work", "parser", given="mine"), "mine"),
        (TitleState("tau", "a\x1b]0;b\x07"), "tau: a\\x1b]0;b\\x07"),
        (TitleState("pi", "work"), "π - work"),
        (TitleState("pi", "work", "parser", working=True, asking=True), "π - parser - work"),
        (TitleState("pi", "work", given="mine"), "mine"),
    ],
)
def test_the_title_says_what_tau_does(state: TitleState, title: str) -> None:
    assert window_title(state) == title
