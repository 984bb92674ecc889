"""Seeded schedules of the terminal interface: random interleavings keep all rules, and known races are found.

`make fuzz` plays many more (tests/long/front_end_schedules.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from long.front_end_schedules import Playground
from tau.screen.input_events import Key
from tau.screen.panels.focus import Destination, QuestionFocus
from tau.tui.terminal import Terminal

SCHEDULES = 25
MORE = 60


@pytest.fixture
def ground() -> Iterator[Playground]:
    with Playground("terminal") as made:
        yield made


def test_schedules_keep_all_rules_and_depend_on_their_seeds_alone(ground: Playground) -> None:
    played = [ground.play(ground.case(seed), permute=seed % 3 == 2) for seed in range(SCHEDULES)]
    assert [(seed, one.problems) for seed, one in enumerate(played) if one.problems] == []
    again = [ground.play(ground.case(seed), permute=seed % 3 == 2).trace for seed in range(4)]
    assert again == [one.trace for one in played[:4]]


def give_all_to_the_question(
    self: QuestionFocus, key: Key, actions: Sequence[str], now: float, *, wanted: bool
) -> Destination:
    """In the place of QuestionFocus.route."""
    return "panel"


def leave_as_it_is(self: Terminal) -> None:
    """In the place of Terminal._leave: no mode is undone."""
    self._state.active = False
    self._resize.cancel()
    self._input.stop()


RACES: dict[str, tuple[Any, str, Any, str]] = {
    "keys answer a question that is not shown": (QuestionFocus, "route", give_all_to_the_question, "question"),
    "modes are not undone": (Terminal, "_leave", leave_as_it_is, "restored"),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_is_found(ground: Playground, race: str) -> None:
    place, name, value, rule = RACES[race]
    with patch.object(place, name, value):
        found = (broken for seed in range(MORE) for broken, _ in ground.problems(seed))
        assert any(broken == rule for broken in found), f"no schedule breaks the rule {rule!r}"
