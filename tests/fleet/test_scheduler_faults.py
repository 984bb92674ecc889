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


def silent(**limits: float) -> Scheduler:
    """Attempt 1 of `t` was given up with its worker `w`, and may go on."""
    work = [Work("t", max_cost=1.0, priority=9, time_limit=600.0), Work("u", max_cost=0.5)]
    scheduler = Scheduler(work, Limits(concurrency=1, **limits))  # type: ignore[arg-type]
    assert scheduler.joined("w", 1, {}, 0.0) == [Start("t", 1, "w")]
    scheduler.begun("t", 1, 0.0)
    for now in range(0, int(LEASE_S) + 11, 10):
        scheduler.tick(float(now))
    assert not scheduler.knows("w")
    return scheduler


@pytest.mark.promise("W14")
def test_what_a_silent_worker_spends_counts_and_what_it_may_spend_is_reserved() -> None:
    scheduler = silent(max_cost=1.5)
    assert started(scheduler.joined("v", 1, {}, 70.0)) == ["u"], "another attempt of t could exceed the budget"
    scheduler.progress("t", 1, 0.4, 71.0)
    scheduler.progress("t", 1, 0.9, 72.0)
    assert scheduler.spent == pytest.approx(0.9)
    assert started(scheduler.done("u", 1, "done", 0.1, 73.0)) == []
    assert scheduler.done("t", 1, "done", 0.95, 74.0) == []
    assert scheduler.done("t", 1, "done", 0.95, 75.0) == []
    assert scheduler.spent == pytest.approx(1.05)
    assert scheduler.out_of_money


@pytest.mark.promise("W14")
@pytest.mark.parametrize("end", ["done", "dead", "not at work"])
def test_the_money_of_an_attempt_that_was_given_up_is_free_when_it_has_ended(end: str) -> None:
    scheduler = silent(max_cost=1.9)
    scheduler.joined("v", 1, {}, 70.0)
    scheduler.done("u", 1, "done", 0.5, 71.0)
    assert (scheduler.assign(72.0), scheduler.out_of_money) == ([], False)
    if end == "done":
        scheduler.done("t", 1, "stopped", 0.2, 73.0)
    elif end == "dead":
        scheduler.progress("t", 1, 0.2, 73.0)
        scheduler.lost("w", 73.0)
    else:
        scheduler.progress("t", 1, 0.2, 73.0)
        scheduler.beat("w", [("t", 1)], 74.0)
        scheduler.beat("w", [], 84.0)
        assert scheduler.assign(84.0) == []
        scheduler.beat("w", [], 94.0)
    acts = scheduler.tick(95.0)
    assert (scheduler.running, scheduler.number("t"), scheduler.out_of_money) == (1, 2, False), acts
    assert scheduler.spent == pytest.approx(0.7)


@pytest.mark.promise("W14")
def test_a_worker_that_stays_silent_does_not_keep_the_fleet_waiting_for_ever() -> None:
    scheduler = silent(max_cost=1.9)
    scheduler.joined("v", 1, {}, 70.0)
    scheduler.done("u", 1, "done", 0.5, 71.0)
    scheduler.tick(72.0)
    assert not scheduler.out_of_money
    for now in range(80, 2000, 10):
        scheduler.beat("v", [], float(now))
        assert scheduler.tick(float(now)) == []
    assert scheduler.out_of_money


def test_what_an_attempt_costs_after_it_was_stopped_counts() -> None:
    scheduler = Scheduler([Work("t", max_cost=1.0)], Limits(max_cost=3.0))
    scheduler.joined("w", 1, {}, 0.0)
    scheduler.progress("t", 1, 0.2, 1.0)
    assert scheduler.stop("t", 2.0)[0] == StopAttempt("t", 1, "w", "it was stopped")
    scheduler.progress("t", 1, 0.3, 3.0)
    assert scheduler.spent == pytest.approx(0.3)


def test_what_an_attempt_of_an_earlier_coordinator_costs_counts_also_if_it_is_not_adopted() -> None:
    scheduler = Scheduler([Work("t", max_cost=1.0)], Limits(max_cost=1.5), attempts={"t": 2}, spent=0.4)
    scheduler.joined("w", 0, {}, 0.0)
    scheduler.not_adopted("t", 1, "w", 0.0, 0.4)
    assert scheduler.joined("v", 1, {}, 0.0) == []
    scheduler.done("t", 1, "done", 0.45, 1.0)
    assert scheduler.spent == pytest.approx(0.45)
    assert scheduler.tick(2.0) == [Start("t", 3, "v")]
