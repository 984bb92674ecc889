"""A simulated world for the scheduler of fleets: workers die, fall silent and come back; lines are late or lost.

Virtual time. The invariants: each task is final exactly once, no result of a lost attempt counts, all costs count, the
budget holds, the limits hold, and it ends.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from tau.core.fleet.scheduler import Act, Again, Final, Limits, Scheduler, Start, StopAttempt, Work
from tau.records.fleet import Outcome

PROVIDERS = ("a", "b", "c")


class World:
    def __init__(self, seed: int, tasks: int, workers: int, max_cost: float | None = None) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.final: dict[str, Outcome] = {}
        self.current: dict[str, int] = {}
        self.alive: set[str] = set()
        self.names = 0
        self.closed: dict[str, float] = {}  # until when a provider wants no requests
        self.limits = Limits(concurrency=max(4, workers * 5), per_provider=workers * 3, per_repo=40, max_cost=max_cost)
        self.work = {one.id: one for one in (self._work(number) for number in range(tasks))}
        self.scheduler = Scheduler(self.work.values(), self.limits)
        self.costs: dict[tuple[str, int], float] = {}  # what attempts have cost, as far as it was heard
        self.running: dict[str, tuple[int, str]] = {}
        self.at_worker: defaultdict[str, dict[str, int]] = defaultdict(dict)  # the same, by worker
        self.by_provider: Counter[str] = Counter()
        self.by_repo: Counter[str] = Counter()
        self._wanted = workers
        for _ in range(workers):
            self.later(self.random.random() * 5, self.join)
        self.later(1.0, self.tick)

    def _work(self, number: int) -> Work:
        source = self.random
        return Work(
            f"t{number}",
            provider=source.choice(PROVIDERS),
            repo=f"r{source.randrange(10)}",
            retries=source.randrange(4),
            priority=source.randrange(3),
            time_limit=source.choice([30.0, 300.0]),
            max_cost=1.0,
        )

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self.events, (self.now + seconds, self._count, what))

    def run(self, limit: float = 1e7) -> None:
        while self.events and not self.over:
            self.now, _, what = heapq.heappop(self.events)
            assert self.now < limit, f"it does not end: {self.scheduler.waiting} wait, {self.scheduler.running} run"
            what()
        assert self.over

    @property
    def over(self) -> bool:
        return self.scheduler.finished or self.scheduler.out_of_money

    # What happens to workers.

    def join(self) -> None:
        self.names += 1
        name = f"w{self.names}"
        self.alive.add(name)
        self.act(self.scheduler.joined(name, 5, {}, self.now))
        self.later(self.random.expovariate(1 / 400), lambda: self.die(name))
        self.later(10, lambda: self.beat(name))

    def die(self, name: str) -> None:
        """Killed, or silent for a while: then its lease ends, and it speaks again later."""
        if name not in self.alive:
            return
        self.alive.discard(name)
        if self.random.random() < 0.6:
            self.act(self.scheduler.lost(name, self.now))
        else:
            for task, number in self.at_worker[name].items():  # its late lines
                self.later(self.random.random() * 200, lambda task=task, number=number: self.late(task, number))
        self.later(self.random.random() * 20, self.join)

    def late(self, task: str, number: int) -> None:
        self.act(self.scheduler.beat("gone", [(task, number)], self.now))
        self.finish(task, number, "done", False)

    def beat(self, name: str) -> None:
        if name in self.alive:
            self.act(self.scheduler.beat(name, list(self.at_worker[name].items()), self.now))
            self.later(10, lambda: self.beat(name))

    def tick(self) -> None:
        self.act(self.scheduler.tick(self.now))
        self.later(max(0.5, self.scheduler.next_tick(self.now) - self.now), self.tick)

    # What happens to attempts.

    def act(self, acts: list[Act]) -> None:
        for act in acts:
            if isinstance(act, Start):
                self.start(act)
            elif isinstance(act, Final):
                assert act.task not in self.final, f"{act.task} is final twice"
                self.final[act.task] = act.outcome
                self.forget(act.task)
            elif isinstance(act, Again):
                self.forget(act.task)
            elif isinstance(act, StopAttempt) and self.running.get(act.task) == (act.number, act.worker):
                self.leave(act.task)

    def start(self, act: Start) -> None:
        assert act.task not in self.final, "a final task is started"
        assert act.task not in self.current, "two attempts of one task count"
        work = self.work[act.task]
        self.current[act.task] = act.number
        self.by_provider[work.provider] += 1
        self.by_repo[work.repo] += 1
        self.leave(act.task)
        self.running[act.task] = (act.number, act.worker)
        self.at_worker[act.worker][act.task] = act.number
        assert len(self.current) <= self.limits.concurrency
        assert self.limits.per_provider is not None and self.limits.per_repo is not None
        assert self.by_provider[work.provider] <= self.limits.per_provider
        assert self.by_repo[work.repo] <= self.limits.per_repo
        assert self.now >= self.closed.get(work.provider, 0.0), "a provider that asked for a pause gets a task"
        self.later(self.random.random(), lambda: self.begin(act))

    def forget(self, task: str) -> None:
        """The current attempt of a task counts no longer."""
        if self.current.pop(task, None) is not None:
            self.by_provider[self.work[task].provider] -= 1
            self.by_repo[self.work[task].repo] -= 1

    def leave(self, task: str) -> None:
        """No worker works on the attempt that was running last."""
        if (last := self.running.pop(task, None)) is not None:
            self.at_worker[last[1]].pop(task, None)

    def begin(self, act: Start) -> None:
        if act.worker not in self.alive:
            return
        self.act(self.scheduler.begun(act.task, act.number, self.now))
        if self.random.random() < 0.02:
            self.refuse(self.work[act.task].provider)
        took = self.random.expovariate(1 / 30) if self.random.random() < 0.97 else 1e6
        outcome: Outcome = self.random.choice(["done", "done", "solved", "unsolved", "failed"])
        transient = outcome == "failed" and self.random.random() < 0.7
        self.later(took, lambda: self.finish_at(act, outcome, transient))

    def refuse(self, provider: str) -> None:
        """A provider answers 429, sometimes with the time after which it wants to be asked again."""
        pause = self.random.choice([0.0, 0.0, 5.0, 20.0])
        self.closed[provider] = max(self.closed.get(provider, 0.0), self.now + pause)
        self.act(self.scheduler.limited(provider, self.now, pause))

    def finish_at(self, act: Start, outcome: Outcome, transient: bool) -> None:
        if act.worker in self.alive:
            self.finish(act.task, act.number, outcome, transient)
            if self.random.random() < 0.05:  # a line that comes twice
                self.later(1, lambda: self.finish(act.task, act.number, outcome, transient))

    def finish(self, task: str, number: int, outcome: Outcome, transient: bool) -> None:
        counted = self.current.get(task) == number
        cost = self.costs.setdefault((task, number), self.random.random())
        acts = self.scheduler.done(task, number, outcome, cost, self.now, transient=transient)
        assert counted or not acts, "a result of an attempt that no longer counts was taken"
        if self.running.get(task, (0, ""))[0] == number:
            self.leave(task)
        self.act(acts)
        if self.limits.max_cost is not None:
            assert self.scheduler.spent <= self.limits.max_cost + 1e-6


def simulate(seed: int, tasks: int, workers: int, max_cost: float | None = None) -> World:
    world = World(seed, tasks, workers, max_cost)
    world.run()
    assert abs(world.scheduler.spent - sum(world.costs.values())) < 1e-6, "a cost was not counted"
    if max_cost is None:
        assert set(world.final) == set(world.work), "a task has no result"
    return world


def facts(world: World) -> dict[str, Any]:
    return {"tasks": len(world.final), "seconds": world.now, "workers": world.names}
