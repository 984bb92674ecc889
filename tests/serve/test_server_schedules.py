"""Seeded schedules of a host and its clients: random interleavings keep all rules, and known races are found.

`make fuzz` plays many more (tests/long/front_end_schedules.py). FIRST has, for each race, the first seed that finds it;
the test tries more, because any change of the program moves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from long.front_end_schedules import Playground
from tau.serve.dialog_watch import DialogWatch
from tau.serve.keys import Keys
from tau.serve.live_sessions import LiveSessions
from tau.serve.outgoing import Outgoing

SCHEDULES = 120
MORE = 250  # schedules after the first seed


@pytest.fixture
def ground() -> Iterator[Playground]:
    with Playground("server") as made:
        yield made


def test_a_schedule_depends_on_its_seed_alone(ground: Playground) -> None:
    def traces() -> list[list[str]]:
        return [ground.play(ground.case(seed)).trace for seed in range(8)]

    first = traces()
    assert first == traces()
    assert len({repr(trace) for trace in first}) == len(first)


@pytest.mark.parametrize("permute", [False, True])
def test_schedules_keep_all_rules(ground: Playground, permute: bool) -> None:
    broken = [(seed, ground.problems(seed, permute=permute)) for seed in range(SCHEDULES)]
    assert [one for one in broken if one[1]] == []


def test_a_client_that_attaches_again_in_an_answer_does_not_get_its_pieces_twice(ground: Playground) -> None:
    """It resumes where it was when it sent the command; until the response it gets more pieces."""
    plain = {**ground.case(0), "clients": 1, "scopes": ["admin"], "slow": [0], "stall": 0.2, "extensions": "none"}
    plain["answers"] = [{"blocks": [{"text": [*"abcdefgh"]}], "delayMs": 30}]
    opened = {"do": "open_session", "client": 0, "n": 0, "pick": 1, "at": 0.0}
    prompt = {"do": "prompt", "client": 0, "n": 1, "pick": 0, "at": 5.0}
    for seed in range(60):
        attach = {"do": "attach", "client": 0, "n": 2, "pick": 1, "on": ["message_update", 1 + seed % 4, seed % 3]}
        assert ground.play({**plain, "seed": seed, "operations": [opened, prompt, attach]}).problems == []


def hold_nothing(self: LiveSessions, live: Any, clients: int) -> None:
    """In the place of LiveSessions._hold."""


def find_nothing(self: Keys, key: Any) -> None:
    """In the place of Keys.find."""


def respond_at_once(self: Outgoing, now: float) -> bytes:
    """In the place of Outgoing._next: responses overtake events."""
    if self._urgent:
        return self._urgent.popleft() + b"\n"
    if self._waiting:
        return self._take_response()
    due = (reader.next(reader.stream.last, now) for reader in self.readers if reader.has_more)
    return next((lines for lines in due if lines), b"")


def name_another(self: DialogWatch, answer: Any, client: str) -> None:
    """In the place of DialogWatch.answer: another client is named than the one that answered."""
    if answer["id"] in self._open:
        self._answers[answer["id"]] = f"not {client}", "answered"
        self._dialogs.answer(answer)


FIRST: dict[str, tuple[Any, str, Any, str, int]] = {
    "a session is released before its client is attached": (LiveSessions, "_hold", hold_nothing, "live", 9),
    "a command with a key is carried out again": (Keys, "find", find_nothing, "keys", 89),
    "a response overtakes the events before it": (Outgoing, "_next", respond_at_once, "place", 1),
    "the wrong client is said to have answered": (DialogWatch, "answer", name_another, "question", 33),
}


@pytest.mark.parametrize("race", FIRST)
def test_a_race_is_found(ground: Playground, race: str) -> None:
    place, name, value, rule, first = FIRST[race]
    with patch.object(place, name, value):
        for seed in range(first, first + MORE):
            if any(broken == rule for broken, _ in ground.problems(seed)):
                return
    pytest.fail(f"no schedule breaks the rule {rule!r}")
