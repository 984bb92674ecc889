"""Seeded schedules: 2,000 random interleavings keep all rules, and known races are found.

`make fuzz` plays many more (tests/long/schedules.py). FIRST has, for each race that is put back in, the first seed
that finds it; the test tries a few more, because any change of the program moves it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from long.schedules import PORTION, Playground
from support.schedule_cases import case
from support.schedule_loop import ScheduleLoop, Stuck
from support.schedule_rules import KNOWN
from tau.records import commands as c
from tau.records.events import AgentSettled
from tau.rpc.commands import HANDLERS
from tau.runtime.extensions.lifecycle import ExtensionLifecycle
from tau.runtime.history.sync import BackgroundSync
from tau.runtime.runs.prompt_run import PromptRun
from tau.runtime.runs.queue import RunQueue
from tau.runtime.session import choices
from tau.runtime.session.navigation import Navigator

PORTIONS = 10
SCHEDULES = 120  # in each portion


@pytest.fixture
def ground() -> Iterator[Playground]:
    with Playground() as made:
        yield made


# The loop.


def played(work: Callable[[], Any], **options: Any) -> Any:
    loop = ScheduleLoop(1, **options)
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()


def test_ready_callbacks_keep_their_order_and_time_is_virtual() -> None:
    async def story() -> tuple[list[int], float]:
        loop, done = asyncio.get_running_loop(), list[int]()
        for number in range(20):
            loop.call_soon(done.append, number)
        await asyncio.sleep(3600)
        return done, loop.time()

    assert played(story) == (list(range(20)), 3600.0)


def test_the_permuted_model_reorders_tasks_but_not_the_steps_of_one() -> None:
    async def story() -> list[tuple[str, int]]:
        done: list[tuple[str, int]] = []

        async def steps(name: str) -> None:
            for number in range(4):
                done.append((name, number))
                await asyncio.sleep(0)

        await asyncio.gather(*(steps(name) for name in "abcdef"))
        return done

    ordered, permuted = played(story), played(story, permute=True)
    assert sorted(ordered) == sorted(permuted) != permuted
    assert [name for name, _ in ordered] == list("abcdef") * 4
    assert all([n for name, n in permuted if name == one] == [0, 1, 2, 3] for one in "abcdef")


def test_the_work_of_a_thread_runs_in_the_loop() -> None:
    assert played(lambda: asyncio.to_thread(lambda: asyncio.get_running_loop() is not None)) is True


def test_a_wait_that_nothing_ends_is_found_at_once() -> None:
    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="everything waits"):
        played(story)


# Schedules.


@pytest.mark.parametrize("permute", [False, True])
def test_a_schedule_depends_on_its_seed_alone(ground: Playground, permute: bool) -> None:
    def traces() -> list[Any]:
        return [ground.play(case(seed), permute=permute)[0].trace() for seed in range(40)]

    first = traces()
    assert first == traces()
    assert len({repr(trace) for trace in first}) == len(first)


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_schedules_keep_all_rules(ground: Playground, portion: int) -> None:
    broken = []
    for seed in range(portion * SCHEDULES, (portion + 1) * SCHEDULES):
        found = ground.play(case(seed), permute=portion % 5 == 4)[1]
        broken += [(seed, rule, text) for rule, text in found if rule not in KNOWN]
    assert broken == []


def test_an_interrupted_run_of_the_fuzzer_is_continued(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    arguments = {"seed": 0, "count": PORTION + 5, "permute": False}
    state.write_text(json.dumps({"arguments": arguments, "done": [0], "found": []}))
    command = [sys.executable, "tests/long/schedules.py", str(PORTION + 5), "--jobs", "1", "--state", str(state)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    first, second, *_ = ended.stdout.splitlines()
    assert first.startswith("1 of 2 portions were done before")
    assert second.startswith("5 schedules in ")
    assert not state.exists()


# Races that are put back in.


async def name_without_waiting(handle: Any, command: c.SetSessionName) -> None:
    await choices.set_name(handle._session, command.name)


async def do_not_wait(self: Navigator) -> None:
    """In the place of Navigator.wait_until_done."""


settle = RunQueue._settle


async def settle_twice(self: RunQueue, run: PromptRun) -> None:
    await settle(self, run)
    if run.outcome.aborted and run.retries.made:
        await self._owner.emit(AgentSettled(aborted=True))


def leave_nothing_over(self: PromptRun, end: Any) -> list[Any]:
    """In the place of PromptRun._left_over: what is queued at the end of a run stays there."""
    return []


def lose_what_is_left_over(self: PromptRun, end: Any) -> list[Any]:
    self._parts.queues.clear()
    return []


def ignore_second_reload(self: ExtensionLifecycle) -> None:
    if self._plan is not None and not self._ended and self._reloading is None:
        self._reload_wanted = True
        self._reloading = asyncio.create_task(self._reload_as_wanted(self._plan))


def keep_open(self: BackgroundSync, left: Any) -> None:
    """In the place of BackgroundSync._close."""
    OPEN.append(left)


OPEN: list[Any] = []
NAMES = HANDLERS._handlers
FIRST: dict[str, tuple[Any, Any, Any, str, int]] = {
    "set_session_name does not wait for a switch": (
        HANDLERS._handlers,
        c.SetSessionName,
        name_without_waiting,
        "place",
        10,
    ),
    "no command waits for a switch": (Navigator, "wait_until_done", do_not_wait, "place", 10),
    "a prompt that is aborted before a retry settles twice": (RunQueue, "_settle", settle_twice, "settled", 0),
    "a steer at the end of a run is stranded": (PromptRun, "_left_over", leave_nothing_over, "stranded", 138),
    "a steer at the end of a run is lost": (PromptRun, "_left_over", lose_what_is_left_over, "queues", 2),
    "a reload during a reload is ignored": (ExtensionLifecycle, "request_reload", ignore_second_reload, "reload", 30),
    "the file of a session that was left stays open": (BackgroundSync, "_close", keep_open, "descriptor left", 3),
}
MORE = 250  # schedules after the first seed


@pytest.mark.parametrize("race", FIRST)
def test_a_race_is_found(ground: Playground, race: str) -> None:
    place, name, value, rule, first = FIRST[race]
    patched = patch.dict(place, {name: value}) if isinstance(place, dict) else patch.object(place, name, value)
    with patched:
        for seed in range(first, first + MORE):
            if any(broken == rule for broken, _ in ground.play(case(seed))[1]):
                break
        else:
            pytest.fail(f"no schedule breaks the rule {rule!r}")
    for left in OPEN:
        left.close()
    OPEN.clear()
