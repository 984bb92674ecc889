"""Seeded schedules of the ACP server: random interleavings keep all rules, and known races are found.

`make fuzz` plays many more (tests/long/front_end_schedules.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from long.front_end_schedules import Playground
from support.schedule_cases import Json
from tau.acp.client import Client
from tau.acp.turns import TurnQueue

SCHEDULES = 45
MORE = 100


@pytest.fixture
def ground() -> Iterator[Playground]:
    with Playground("acp") as made:
        yield made


def test_a_schedule_depends_on_its_seed_alone(ground: Playground) -> None:
    first, second = ([ground.play(ground.case(seed)).trace for seed in range(6)] for _ in range(2))
    assert first == second


def test_schedules_keep_all_rules(ground: Playground) -> None:
    broken = [(seed, ground.problems(seed, permute=seed % 3 == 2)) for seed in range(SCHEDULES)]
    assert [one for one in broken if one[1]] == []


def test_a_request_that_is_cancelled_at_any_moment_leaves_no_task(ground: Playground) -> None:
    plain: Json = {**ground.case(0), "stall": 0.0, "answers": [{"text": "ok"}], "slow": False}
    new: Json = {"do": "new", "n": 0, "pick": 0, "at": 0.0}
    for seed in range(6):
        for passes in range(10):
            cancel = {"do": "cancel_request", "n": 1, "pick": 1, "on": ["opened", 1, passes]}
            assert ground.play({**plain, "seed": seed, "operations": [new, cancel]}).problems == []


def test_a_session_is_closed_whole_even_if_that_is_cancelled(ground: Playground) -> None:
    answer = {"blocks": [{"text": "so"}, {"tool": "bash", "arguments": {"command": "work 5 t1"}}]}
    plain: Json = {**ground.case(0), "answers": [answer], "slow": False, "asks": False, "extensions": "none"}
    new, prompt = {"do": "new", "n": 0, "pick": 0, "at": 0.0}, {"do": "prompt", "n": 1, "pick": 0, "at": 1.0}
    close, load = {"do": "close", "n": 2, "pick": 0, "at": 2.0}, {"do": "load", "n": 4, "pick": 0, "at": 3.0}
    for seed in range(5):
        for passes in range(6):
            cancel = {"do": "cancel_request", "n": 3, "pick": 3, "on": ["ask session/close", 1, passes]}
            done = ground.play({**plain, "seed": seed, "operations": [new, prompt, close, cancel, load]})
            assert done.problems == []
            assert any('"configOptions"' in line for line in done.trace if '"id": 5' in line), done.trace


def forget_the_next(self: TurnQueue, turn: Any) -> None:
    """In the place of TurnQueue.finish: the prompts that wait are not run."""
    self._active = None


def withdraw_nothing(self: Client, id: Any) -> None:
    """In the place of Client.withdraw."""
    self._waiting.pop(id, None)


# The first seed that finds it, and some more: any change of the program moves it.
RACES: dict[str, tuple[Any, str, Any, str, int]] = {
    "a prompt that waits is forgotten": (TurnQueue, "finish", forget_the_next, "hang", 0),
    "a question is not withdrawn": (Client, "withdraw", withdraw_nothing, "question", 5),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_is_found(ground: Playground, race: str) -> None:
    place, name, value, rule, first = RACES[race]
    with patch.object(place, name, value):
        found = (broken for seed in range(first, first + MORE) for broken, _ in ground.problems(seed))
        assert any(broken == rule for broken in found), f"no schedule breaks the rule {rule!r}"
