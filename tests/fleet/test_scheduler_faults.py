"""The scheduler of fleets: silence, pauses, full disks, refusing providers, and requests to stop."""

from __future__ import annotations

import random
import statistics

import pytest

from tau.core.fleet.scheduler import (
    LEASE_S,
    MAX_UNCOUNTED,
    Act,
    Again,
    Final,
    Limits,
    Scheduler,
    Start,
    StopAttempt,
    Work,
)
from tau.core.fleet.windows import GROWS_AFTER_S, RECOVERY_S, Window


def two(**limits: int) -> Scheduler:
    return Scheduler([Work("a"), Work("b")], Limits(**limits))


def started(acts: list[Act]) -> list[str]:
    return [act.task for act in acts if isinstance(act, Start)]


@pytest.mark.promise("W04")
def test_a_worker_that_speaks_again_after_it_was_given_up_can_work_again() -> None:
    scheduler = Scheduler([Work("a")], Limits())
    scheduler.joined("w", 1, {}, 0.0)
    scheduler.begun("a", 1, 0.0)
    scheduler.tick(LEASE_S + 1)
    assert not scheduler.knows("w")
    assert scheduler.beat("w", [("a", 1)], LEASE_S + 2) == [StopAttempt("a", 1, "w", "it no longer counts")]
    assert scheduler.joined("w", 1, {}, LEASE_S + 2) == [Start("a", 2, "w")]


def test_a_worker_under_a_known_name_is_a_new_process() -> None:
    scheduler = two(concurrency=2)
    assert started(scheduler.joined("w", 2, {}, 0.0)) == ["a", "b"]
    acts = scheduler.joined("w", 2, {}, 1.0)
    assert [act.number for act in acts if isinstance(act, Again)] == [1, 1]
    assert started(acts) == ["a", "b"]
    assert scheduler.running == 2


@pytest.mark.promise("W09")
def test_after_a_pause_of_the_coordinator_no_worker_is_late() -> None:
    scheduler = two()
    scheduler.joined("w", 2, {}, 0.0)
    for now in (0.0, 5.0, 10.0):
        assert scheduler.tick(now) == []
    assert scheduler.tick(10.0 + 10 * LEASE_S) == []
    assert scheduler.running == 2


def test_an_attempt_that_its_worker_does_not_know_is_lost() -> None:
    scheduler, acts = two(), list[Act]()
    scheduler.joined("w", 2, {}, 0.0)
    for now in range(10, 80, 10):
        acts += scheduler.beat("w", [("a", 1)], float(now)) + scheduler.tick(float(now))
    assert StopAttempt("b", 1, "w", "its worker does not know it") in acts
    assert Start("b", 2, "w") in acts
    assert scheduler.number("a") == 1


@pytest.mark.promise("W07")
def test_a_worker_without_slots_gets_no_orders_until_it_has_some() -> None:
    scheduler = two(concurrency=1)
    scheduler.joined("w", 2, {}, 0.0)
    scheduler.resized("w", 0, 1.0)
    assert started(scheduler.done("a", 1, "done", 0.0, 2.0)) == []
    assert started(scheduler.resized("w", 2, 3.0)) == ["b"]


@pytest.mark.promise("W06")
def test_nothing_is_started_while_the_ledger_cannot_be_written() -> None:
    scheduler = two()
    scheduler.paused = True
    assert scheduler.joined("w", 2, {}, 0.0) == []
    scheduler.paused = False
    assert started(scheduler.tick(1.0)) == ["a", "b"]


@pytest.mark.parametrize("running", [True, False])
def test_a_task_is_stopped_whether_it_waits_or_runs(running: bool) -> None:
    scheduler = two(concurrency=1)
    scheduler.joined("w", 1, {}, 0.0)
    task = "a" if running else "b"
    acts = scheduler.stop(task, 1.0)
    assert (StopAttempt("a", 1, "w", "it was stopped") in acts) == running
    assert Final(task, 1 if running else 0, "stopped", "stopped by the user") in acts
    assert scheduler.stop(task, 2.0) == []
    assert scheduler.done("a", 1, "done", 0.0, 3.0) == ([] if running else [Final("a", 1, "done")])


@pytest.mark.promise("W11")
def test_failures_outside_the_task_do_not_count_as_retries_and_end() -> None:
    scheduler, now = Scheduler([Work("a", retries=0)], Limits()), 0.0
    scheduler.joined("w", 1, {}, now)
    for _ in range(MAX_UNCOUNTED):
        acts = scheduler.done("a", scheduler.number("a"), "failed", 0.0, now, uncounted=True)
        assert isinstance(acts[0], Again)
        now += 60.0
        scheduler.beat("w", [], now)
        scheduler.tick(now)
    acts = scheduler.done("a", scheduler.number("a"), "failed", 0.0, now, uncounted=True)
    assert isinstance(acts[0], Final)


def test_refusals_of_what_was_running_before_do_not_halve_again() -> None:
    window = Window(40)
    window.refused(0.0, 40)
    for second in range(1, 20):
        window.refused(float(second), 40)
    assert window.size(19.0) == 20
    window.refused(21.0, 20)
    assert window.size(21.0) == 10
    assert window.size(21.0 + RECOVERY_S) == 18
    assert window.size(21.0 + RECOVERY_S + 3 * GROWS_AFTER_S) == 21


def test_a_window_settles_where_the_provider_refuses() -> None:
    """A provider that serves 20 at once, and 200 tasks that would all begin at once; an hour of virtual time."""
    source, now = random.Random(1), 0.0
    scheduler = Scheduler([Work(f"t{at}", provider="p") for at in range(4_000)], Limits(concurrency=200))
    running: dict[str, tuple[int, float]] = {}

    def take(acts: list[Act]) -> None:
        for act in acts:
            if isinstance(act, Start):
                running[act.task] = (act.number, now + source.uniform(20, 40))

    take(scheduler.joined("w", 200, {}, now))
    sizes: list[int] = []
    while now < 3600:
        now += 2.0
        if len(running) > 20:
            scheduler.limited("p", now)
        for task, (number, end) in list(running.items()):
            if end <= now:
                del running[task]
                take(scheduler.done(task, number, "done", 0.0, now))
        scheduler.beat("w", [(task, number) for task, (number, _) in running.items()], now)
        take(scheduler.tick(now))
        if now > 1800:
            sizes.append(len(running))
    assert 16 <= statistics.mean(sizes) <= 24
    assert max(sizes) <= 24
