"""The scheduler of fleets, against a world in which everything fails."""

from __future__ import annotations

import pytest

from support.fleet_world import simulate
from tau.core.fleet.scheduler import LEASE_S, MAX_LOSSES, Act, Again, Final, Limits, Scheduler, Start, StopAttempt, Work


@pytest.mark.promise("W19")
@pytest.mark.parametrize("seed", range(20))
def test_every_task_has_one_result_whatever_dies(seed: int) -> None:
    world = simulate(seed, tasks=200, workers=8)
    assert len(world.final) == 200


@pytest.mark.promise("W14")
@pytest.mark.parametrize("seed", range(10))
def test_the_budget_of_the_fleet_is_never_exceeded(seed: int) -> None:
    world = simulate(seed, tasks=100, workers=6, max_cost=20.0)
    assert world.scheduler.spent <= 20.0
    assert world.final


def one(**work: object) -> Scheduler:
    return Scheduler([Work("t", **work)], Limits())  # type: ignore[arg-type]


def test_what_a_lost_worker_had_not_begun_loses_nothing() -> None:
    scheduler = one()
    for number in range(1, 20):
        assert scheduler.joined(f"w{number}", 1, {}, 0.0) == [Start("t", number, f"w{number}")]
        assert scheduler.lost(f"w{number}", 0.0)[0] == Again("t", number, "the worker was lost", lost=True)
        assert scheduler.waiting == 1
        scheduler.tick(0.0)


@pytest.mark.promise("W18")
def test_a_task_that_takes_its_workers_along_ends_as_failed() -> None:
    scheduler, now, acts = one(), 0.0, []
    for number in range(1, MAX_LOSSES + 2):
        now += 100
        scheduler.joined(f"w{number}", 1, {}, now)
        scheduler.begun("t", scheduler.number("t"), now)
        acts = scheduler.lost(f"w{number}", now)
    assert isinstance(acts[0], Final)
    assert acts[0].outcome == "failed"


@pytest.mark.promise("W04")
def test_a_silent_worker_is_given_up_and_its_late_result_does_not_count() -> None:
    scheduler = one()
    scheduler.joined("w", 1, {}, 0.0)
    scheduler.begun("t", 1, 1.0)
    assert scheduler.tick(LEASE_S + 2)[0] == Again("t", 1, "the worker said nothing for a minute", lost=True)
    assert scheduler.joined("v", 1, {}, LEASE_S + 3) == [Start("t", 2, "v")]
    assert scheduler.done("t", 1, "done", 0.0, LEASE_S + 4) == []
    assert scheduler.beat("w", [("t", 1)], LEASE_S + 5) == [StopAttempt("t", 1, "w", "it no longer counts")]
    assert scheduler.done("t", 2, "done", 0.0, LEASE_S + 6)[0] == Final("t", 2, "done")


def test_an_attempt_beyond_its_deadline_is_stopped() -> None:
    scheduler = one(time_limit=10.0)
    scheduler.joined("w", 1, {}, 0.0)
    acts = scheduler.begun("t", 1, 0.0)
    for now in range(10, 150, 10):
        acts += scheduler.beat("w", [("t", 1)], float(now)) + scheduler.tick(float(now))
    assert StopAttempt("t", 1, "w", "the time of the attempt is over") in acts


def test_a_worker_needs_the_labels_of_a_task() -> None:
    scheduler = one(needs={"gpu": True})
    assert scheduler.joined("plain", 4, {}, 0.0) == []
    assert scheduler.joined("big", 4, {"gpu": True}, 0.0) == [Start("t", 1, "big")]


def test_higher_priority_goes_first_and_priority_is_no_barrier() -> None:
    work = [Work("low"), Work("blocked", priority=5, needs={"gpu": True}), Work("high", priority=3)]
    acts = Scheduler(work, Limits()).joined("w", 2, {}, 0.0)
    assert [act.task for act in acts if isinstance(act, Start)] == ["high", "low"]


@pytest.mark.promise("W15")
def test_a_refusing_provider_gets_half_and_slowly_more() -> None:
    work = [Work(f"t{number}", provider="p") for number in range(100)]
    scheduler = Scheduler(work, Limits(concurrency=100))
    assert len(scheduler.joined("w", 40, {}, 0.0)) == 40
    scheduler.limited("p", 1.0)
    for number in range(30):
        scheduler.done(f"t{number}", 1, "done", 0, 1.5)
    assert scheduler.running == 20
    scheduler.beat("w", [], 32.0)
    scheduler.tick(32.0)
    assert scheduler.running == 36  # nine tenths of what was refused


def test_a_provider_that_asks_for_a_pause_gets_nothing_until_it_is_over() -> None:
    scheduler = Scheduler([Work("a", provider="p"), Work("b", provider="p")], Limits(concurrency=1))
    scheduler.joined("w", 2, {}, 0.0)
    scheduler.limited("p", 1.0, retry_after=40.0)
    assert scheduler.done("a", 1, "done", 0.0, 2.0) == [Final("a", 1, "done")]
    scheduler.beat("w", [], 40.9)
    assert scheduler.tick(40.9) == []
    assert scheduler.tick(41.0) == [Start("b", 1, "w")]


def test_the_clock_of_an_attempt_stands_still_while_it_waits_for_its_provider() -> None:
    scheduler, acts = one(time_limit=10.0), list[Act]()
    scheduler.joined("w", 1, {}, 0.0)
    scheduler.waits("t", 1, 100.0)
    scheduler.waits("t", 7, 1e9)  # another attempt
    for now in range(10, 240, 10):
        acts += scheduler.beat("w", [("t", 1)], float(now)) + scheduler.tick(float(now))
        assert (acts == []) == (now <= 230)
    for now in range(240, 260, 10):
        acts += scheduler.beat("w", [("t", 1)], float(now)) + scheduler.tick(float(now))
    assert StopAttempt("t", 1, "w", "the time of the attempt is over") in acts


def test_a_worker_that_is_drained_does_not_take_slots_from_others() -> None:
    scheduler = Scheduler([Work(f"t{number}") for number in range(20)], Limits(concurrency=100))
    assert len(scheduler.joined("full", 10, {}, 0.0)) == 10
    scheduler.resized("full", 0, 1.0)
    assert len(scheduler.joined("fresh", 5, {}, 2.0)) == 5


def test_tasks_of_a_full_repository_do_not_hide_those_behind_them() -> None:
    work = [Work(f"a{number}", repo="big") for number in range(2_000)] + [Work("b", repo="small")]
    acts = Scheduler(work, Limits(concurrency=10, per_repo=2)).joined("w", 10, {}, 0.0)
    assert [act.task for act in acts if isinstance(act, Start)] == ["a0", "a1", "b"]


def test_an_adopted_attempt_counts_and_its_worker_gets_nothing_else() -> None:
    scheduler = Scheduler([Work("a"), Work("b")], Limits(), attempts={"a": 3})
    scheduler.joined("orphan", 0, {}, 0.0)
    assert scheduler.adopted("a", 3, "orphan", 0.0)
    assert not scheduler.adopted("a", 3, "orphan", 0.0)
    assert scheduler.joined("w", 2, {}, 0.0) == [Start("b", 1, "w")]
    assert scheduler.done("a", 3, "done", 0.0, 1.0) == [Final("a", 3, "done")]


def test_what_an_adopted_attempt_has_cost_is_not_counted_twice() -> None:
    work = [Work("a", max_cost=4.0), Work("b", max_cost=4.0)]
    scheduler = Scheduler(work, Limits(max_cost=7.0), attempts={"a": 1}, spent=3.0)
    scheduler.joined("orphan", 0, {}, 0.0)
    assert scheduler.adopted("a", 1, "orphan", 0.0, 3.0)
    assert scheduler.joined("w", 1, {}, 0.0) == []  # 3 spent, 1 may follow, 4 for the other
    scheduler.progress("a", 1, 3.5, 1.0)
    assert scheduler.spent == 3.5
    assert scheduler.done("a", 1, "done", 3.0, 2.0)[0] == Final("a", 1, "done")


def test_draining_starts_nothing_and_ends_when_the_last_attempt_ends() -> None:
    scheduler = Scheduler([Work("a"), Work("b")], Limits(concurrency=1))
    scheduler.joined("w", 1, {}, 0.0)
    scheduler.draining = True
    assert not scheduler.finished
    assert scheduler.done("a", 1, "done", 0.0, 1.0) == [Final("a", 1, "done")]
    assert scheduler.finished
