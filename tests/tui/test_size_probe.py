"""The question for the size of tmux's grid before and after a frame."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tau.tui.size_probe import MAX_DIFFERENT, MAX_WITHOUT_ANSWER, QUESTION, TIMEOUT_S, SizeProbe


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Clock:
    """The part of an event loop that the probe uses."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, callback))
        return self.timers[-1]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.at <= self.now]
        self.timers = [timer for timer in self.timers if timer.at > self.now]
        for timer in due:
            if timer.callback is not None:
                timer.callback()


class Window:
    def __init__(self) -> None:
        self.clock = Clock()
        self.asked = 0
        self.answers: list[bool] = []
        self.probe = SizeProbe(self.clock, self.ask, lambda: (24, 80), self.answers.append)  # type: ignore[arg-type]

    def ask(self, data: bytes) -> None:
        assert data == QUESTION
        self.asked += 1


@pytest.fixture
def window() -> Window:
    return Window()


def test_a_frame_waits_for_the_answer_and_each_needs_its_own(window: Window) -> None:
    assert not window.probe.take() and not window.probe.take()
    assert window.asked == 1
    assert window.probe.reply("8;24;80")
    assert window.answers == [True]
    assert window.probe.take()
    assert not window.probe.take()
    assert window.asked == 2


def test_an_answer_is_good_only_for_a_frame_that_follows_at_once(window: Window) -> None:
    window.probe.take()
    window.probe.reply("8;24;80")
    window.clock.advance(0.05)
    assert not window.probe.take()


def test_an_answer_with_the_columns_first_is_the_same_size(window: Window) -> None:
    window.probe.take()
    window.probe.reply("8;80;24")  # as tmux 3.3 says it
    assert window.answers == [True] and window.probe.take()


def test_another_size_is_reported_and_the_frame_waits(window: Window) -> None:
    window.probe.take()
    window.probe.reply("8;30;90")
    assert window.answers == [False]
    assert not window.probe.take()
    assert not window.probe.misplaced


def test_a_frame_that_was_drawn_on_another_grid_is_misplaced(window: Window) -> None:
    window.probe.check()
    window.probe.take()
    window.probe.reply("8;30;90")
    assert window.probe.misplaced and window.answers == [False]
    window.probe.reply("8;24;80")
    assert window.answers == [False, True]


def test_a_terminal_without_answers_is_not_asked_for_long(window: Window) -> None:
    for _ in range(MAX_WITHOUT_ANSWER):
        assert not window.probe.take()
        window.clock.advance(TIMEOUT_S)
        assert window.probe.take()
    assert window.answers == [True] * MAX_WITHOUT_ANSWER
    assert window.probe.take() and window.asked == MAX_WITHOUT_ANSWER


def test_a_size_that_is_never_that_of_the_system_is_not_believed_for_long(window: Window) -> None:
    for _ in range(MAX_DIFFERENT):
        assert not window.probe.take()
        window.probe.reply("8;25;80")
    assert window.probe.take()


@pytest.mark.parametrize("value", ["4;24;80", "8;24", "8;a;b", "9"])
def test_other_replies_are_not_taken(window: Window, value: str) -> None:
    window.probe.take()
    assert not window.probe.reply(value)
    assert window.probe.waiting == 1


def test_a_late_answer_is_taken_and_the_terminal_is_asked_on(window: Window) -> None:
    for _ in range(2 * MAX_WITHOUT_ANSWER):
        assert not window.probe.take()
        window.clock.advance(TIMEOUT_S)
        assert window.probe.take()
        assert window.probe.reply("8;24;80")
    assert window.asked == 2 * MAX_WITHOUT_ANSWER
    assert not window.probe.misplaced
    assert window.probe.reply("8;24;81")
    assert window.probe.misplaced and window.answers[-1] is False
