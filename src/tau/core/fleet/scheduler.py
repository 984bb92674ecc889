"""The scheduler of a fleet: pure. It is told what happened and says what to do.

    waiting ──► claimed (an attempt, a worker, a lease) ──► final
       ▲              │ lost, or a failure that may pass
       └── backoff ───┘

A result counts only if it comes from the current attempt of its task: a worker that was given up may still speak. What
such an attempt costs counts too, and what it may still cost stays reserved until it is known to have ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tau.core.fleet.pool import Attempt, WorkerPool
from tau.core.fleet.queue import DelayedTasks, Entry, Group, ReadyQueue
from tau.core.fleet.windows import Window
from tau.records.base import Value
from tau.records.fleet import Outcome

LEASE_S = 60.0  # a worker that says nothing for this long is lost
MAX_LOSSES = 5  # attempts of one task that may be lost with their worker
BACKOFF_S = (2.0, 10.0, 30.0, 60.0)
GRACE_S = 120.0  # beyond the time limit of an attempt
LOOK_S = 2.0  # between two looks at all leases and deadlines
MAX_MISSED = 2  # beats that do not name an attempt: the first may be older than the order for it
MAX_PAUSE_S = 20.0  # without a tick: longer, and the coordinator itself was stopped, so no worker is late
MAX_PASSED_OVER = 1000  # tasks that may not begin yet, looked at for one that may
MAX_UNCOUNTED = 50  # attempts of one task that may fail for a reason outside it: a provider, a full disk


class Work(Value):
    """What the scheduler knows of a task. `time_limit` is that of an attempt: setup, agent and check."""

    id: str
    provider: str = ""
    repo: str = ""
    retries: int = 2
    priority: int = 0
    time_limit: float = 3600.0
    max_cost: float | None = None
    needs: Mapping[str, Any] = {}


class Limits(Value):
    """Limits of the whole fleet; None means no limit."""

    concurrency: int = 8
    per_provider: int | None = None
    per_repo: int | None = None
    max_cost: float | None = None


# What the scheduler asks for.


class Start(NamedTuple):
    task: str
    number: int
    worker: str


class StopAttempt(NamedTuple):
    """Abort an attempt that no longer counts."""

    task: str
    number: int
    worker: str
    reason: str


class Final(NamedTuple):
    """The task has its result: that of attempt `number`."""

    task: str
    number: int
    outcome: Outcome
    error: str | None = None


class Again(NamedTuple):
    """The task waits for another attempt. `lost`: this one was lost with its worker, and has no end of its own."""

    task: str
    number: int
    reason: str
    lost: bool = False


Act = Start | StopAttempt | Final | Again


class Scheduler:
    """`attempts` are the numbers that earlier runs used, `spent` what they cost."""

    def __init__(
        self, work: Iterable[Work], limits: Limits, *, attempts: Mapping[str, int] | None = None, spent: float = 0.0
    ) -> None:
        self.limits = limits
        self.spent = spent
        self.draining = False
        self.paused = False  # nothing is started while the ledger cannot be written
        self._work = {one.id: one for one in work}
        self._cheapest = min((one.max_cost or 0.0 for one in self._work.values()), default=0.0)
        self._numbers = dict(attempts or {})
        self._failures: dict[str, int] = {}
        self._losses: dict[str, int] = {}
        self._uncounted: dict[str, int] = {}
        self._attempts: dict[str, Attempt] = {}
        self._former: dict[tuple[str, int], Attempt] = {}  # they no longer count, and did not end by themselves
        self._lingering: dict[str, set[tuple[str, int]]] = {}  # those of them that may go on, by worker
        self._workers = WorkerPool()
        self._windows: dict[str, Window] = {}
        self._reserved = 0.0  # what the attempts under way, and those that linger, may still cost
        self._by_provider: dict[str, int] = {}
        self._by_repo: dict[str, int] = {}
        self._ready = ReadyQueue()
        self._delayed = DelayedTasks()
        self._ticked: float | None = None
        self._looked: float | None = None
        for one in self._work.values():
            self._queue(one.id)

    # State.

    @property
    def waiting(self) -> int:
        return len(self._ready) + len(self._delayed)

    @property
    def running(self) -> int:
        return len(self._attempts)

    @property
    def finished(self) -> bool:
        return not self._attempts and (self.draining or not self.waiting)

    @property
    def out_of_money(self) -> bool:
        """True if tasks wait and none may begin, because the budget of the fleet could be exceeded."""
        if not self._ready or self._attempts:
            return False
        freed = sum(self._former[key].may_still_cost for key in self._ending())
        return not any(self._can_pay((self._work[task].max_cost or 0.0) - freed) for task in self._ready)

    def _ending(self) -> Iterator[tuple[str, int]]:
        """Attempts that no longer count and will soon have ended. One that is late may be that of a dead machine."""
        for key in (key for keys in self._lingering.values() for key in keys):
            if self._ticked is None or self._ticked <= self._former[key].deadline:
                yield key

    def number(self, task: str) -> int:
        return self._numbers.get(task, 0)

    def is_current(self, task: str, number: int) -> bool:
        attempt = self._attempts.get(task)
        return attempt is not None and attempt.number == number

    # Facts.

    def joined(self, worker: str, slots: int, labels: Mapping[str, Any], now: float) -> list[Act]:
        """A worker has started, or speaks again after it was given up. Under a known name it is a new process."""
        acts = self.lost(worker, now, "the worker was started again") if worker in self._workers else []
        self._workers.add(worker, slots, labels, now)
        return acts + self.assign(now)

    def resized(self, worker: str, slots: int, now: float) -> list[Act]:
        """A worker takes fewer tasks at once, or more; 0 means that it takes no orders."""
        self._workers.resize(worker, slots)
        return self.assign(now)

    def knows(self, worker: str) -> bool:
        return worker in self._workers

    def lost(self, worker: str, now: float, reason: str = "the worker was lost") -> list[Act]:
        """A worker is gone, with what it worked on. What it had not begun loses no attempt."""
        acts = self._give_up(worker, now, reason)
        for key in list(self._lingering.get(worker, ())):
            self._end(key)
        return acts + self.assign(now)

    def _give_up(self, worker: str, now: float, reason: str) -> list[Act]:
        """A worker may live, but nothing is expected of it."""
        gone = self._workers.remove(worker)
        acts: list[Act] = []
        for task in sorted(gone.tasks) if gone is not None else ():
            acts += self._lose(task, now, reason)
        return acts

    def begun(self, task: str, number: int, now: float) -> list[Act]:
        if not self._hear(task, number, now):
            return []
        self._attempts[task].begun = True
        return []

    def beat(self, worker: str, tasks: Iterable[tuple[str, int]], now: float) -> list[Act]:
        """A worker lives, and works on these attempts. It is told to stop what no longer counts."""
        self._workers.hear(worker, now)
        named = list(tasks)
        for key in self._lingering.get(worker, set()).difference(named):
            self._former[key].missed += 1
            if self._former[key].missed >= MAX_MISSED:
                self._end(key)
        return [
            StopAttempt(task, number, worker, "it no longer counts")
            for task, number in named
            if not self._hear(task, number, now)
        ]

    def progress(self, task: str, number: int, cost: float, now: float) -> list[Act]:
        """An attempt has cost this much until now. It counts also if the attempt does not."""
        attempt = self._attempts[task] if self._hear(task, number, now) else self._former.get((task, number))
        if attempt is not None:
            before = attempt.may_still_cost
            self.spent += max(0.0, cost - attempt.cost)
            attempt.cost = max(attempt.cost, cost)
            self._reserved += attempt.may_still_cost - before
        return []

    def limited(self, provider: str, now: float, retry_after: float = 0.0) -> list[Act]:
        """A provider refused a request: fewer at once, none for `retry_after` seconds, and slowly more again."""
        running = max(1, self._by_provider.get(provider, 1))
        self._windows.setdefault(provider, Window(running)).refused(now, running, retry_after)
        return []

    def waits(self, task: str, number: int, seconds: float) -> None:
        """An attempt waits for its provider: its clock stands still."""
        attempt = self._attempts[task] if self.is_current(task, number) else self._former.get((task, number))
        if attempt is not None:
            attempt.deadline += seconds

    def adopted(self, task: str, number: int, worker: str, now: float, cost: float = 0.0) -> bool:
        """An attempt of an earlier coordinator is still under way at `worker`, which has joined.

        `cost` is a part of what was spent already. False if the task has its result, or another attempt.
        """
        if worker not in self._workers or task not in self._work or not self._forget(task):
            return False
        self._enter(task, number, worker, now)
        attempt = self._attempts[task]
        self._reserved -= attempt.may_still_cost
        attempt.begun, attempt.cost = True, cost
        self._reserved += attempt.may_still_cost
        return True

    def not_adopted(self, task: str, number: int, worker: str, now: float, cost: float = 0.0) -> None:
        """An attempt of an earlier coordinator is still under way at `worker`, and does not count. `cost` as above."""
        work = self._work.get(task)
        attempt = self._new_attempt(work, number, worker, now) if work else Attempt(number, worker, now, now)
        attempt.cost = cost
        self._reserved += attempt.may_still_cost
        self._let_linger(task, attempt)

    def under_way(self) -> list[tuple[str, int, str]]:
        """The current attempts: task, number and worker."""
        return [(task, attempt.number, attempt.worker) for task, attempt in self._attempts.items()]

    def done(
        self,
        task: str,
        number: int,
        outcome: Outcome,
        cost: float,
        now: float,
        *,
        transient: bool = False,
        uncounted: bool = False,
    ) -> list[Act]:
        """An attempt has ended. Empty if it does not count. `uncounted`: it failed for a reason outside the task."""
        self.progress(task, number, cost, now)
        if not self.is_current(task, number):
            self._end((task, number))
            return []
        self._free(self._release(task))
        if uncounted and outcome == "failed" and self._uncounted.get(task, 0) < MAX_UNCOUNTED:
            self._uncounted[task] = self._uncounted.get(task, 0) + 1
            self._queue(task, now + BACKOFF_S[min(self._uncounted[task], len(BACKOFF_S)) - 1])
            return [Again(task, number, "a failure outside the task"), *self.assign(now)]
        failures = self._failures.get(task, 0)
        if transient and outcome in ("failed", "stopped") and failures < self._work[task].retries and not self.draining:
            self._failures[task] = failures + 1
            self._queue(task, now + BACKOFF_S[min(failures, len(BACKOFF_S) - 1)])
            return [Again(task, number, "a failure that may pass"), *self.assign(now)]
        return [Final(task, number, outcome), *self.assign(now)]

    def stop(self, task: str, now: float) -> list[Act]:
        """Give up a task at the user's request, whether it waits or runs."""
        if task not in self._work or (task not in self._attempts and not self._forget(task)):
            return []
        acts: list[Act] = []
        if (attempt := self._attempts.get(task)) is not None:
            acts.append(StopAttempt(task, attempt.number, attempt.worker, "it was stopped"))
            self._let_linger(task, self._release(task))
        return [*acts, Final(task, self.number(task), "stopped", "stopped by the user"), *self.assign(now)]

    def _forget(self, task: str) -> bool:
        """Take a task out of the queues. False if it is in none."""
        return self._ready.remove(task, self._group(task)) or self._delayed.remove(task)

    def tick(self, now: float) -> list[Act]:
        """Look at leases, deadlines and delays."""
        acts: list[Act] = []
        self._forgive_pause(now)
        if self._looked is not None and now - self._looked < LOOK_S:
            return self.assign(now)
        self._looked = now
        for name, worker in self._workers.items():
            if now - worker.heard > LEASE_S:
                acts += self._give_up(name, now, "the worker said nothing for a minute")
        for task, attempt in list(self._attempts.items()):
            if now - attempt.heard > LEASE_S:  # its worker lives, and does not know it
                acts.append(StopAttempt(task, attempt.number, attempt.worker, "its worker does not know it"))
                acts += self._lose(task, now, "its worker does not know it")
                self._end((task, attempt.number))
            elif now > attempt.deadline:
                acts.append(StopAttempt(task, attempt.number, attempt.worker, "the time of the attempt is over"))
                acts += self._lose(task, now, "the time of the attempt is over")
        return acts + self.assign(now)

    def _forgive_pause(self, now: float) -> None:
        """After the coordinator itself was stopped, every worker gets its lease again: their lines are still unread."""
        pause = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        if pause > MAX_PAUSE_S:
            for worker in self._workers:
                worker.heard += pause
            for attempt in self._attempts.values():
                attempt.heard += pause
                attempt.deadline += pause
            for former in self._former.values():
                former.deadline += pause

    def next_tick(self, now: float) -> float:
        """When `tick` should be called next."""
        due = [now + 1.0] if self._windows else [now + 5.0]
        if (delayed := self._delayed.next_at()) is not None:
            due.append(delayed)
        return max(now + 0.01, min(due))

    # Decisions.

    def assign(self, now: float) -> list[Act]:
        """Start what may start."""
        for task in self._delayed.pop_due(now):
            self._push(task)
        acts: list[Act] = []
        if self.draining or self.paused:
            return acts
        passed_over: list[tuple[Group, Entry]] = []
        while self._ready and self._workers.free and len(self._attempts) < self.limits.concurrency:
            if not self._can_pay(self._cheapest):
                break
            first = self._ready.pop(lambda provider: self._has_room(provider, now), self._repo_has_room)
            if first is None:
                break
            task = first[1].task
            worker = self._workers.best_for(self._work[task].needs) if self._affordable(task) else None
            if worker is None:
                passed_over.append(first)
                if len(passed_over) > MAX_PASSED_OVER:
                    break
                continue
            acts.append(self._start(task, worker, now))
        for group, entry in passed_over:
            self._ready.put_back(group, entry)
        return acts

    def _group(self, task: str) -> Group:
        work = self._work[task]
        return work.provider, "" if self.limits.per_repo is None else work.repo

    def _has_room(self, provider: str, now: float) -> bool:
        """True if the limit and the window of a provider let one more task begin."""
        running, most = self._by_provider.get(provider, 0), self.limits.per_provider
        window = self._windows.get(provider)
        return (most is None or running < most) and (window is None or running < window.size(now))

    def _repo_has_room(self, repo: str) -> bool:
        most = self.limits.per_repo
        return most is None or not repo or self._by_repo.get(repo, 0) < most

    def _affordable(self, task: str) -> bool:
        """True if the fleet stays within its budget even if everything under way costs as much as it may."""
        return self._can_pay(self._work[task].max_cost or 0.0)

    def _can_pay(self, cost: float) -> bool:
        allowed = self.limits.max_cost
        return allowed is None or self.spent + self._reserved + cost <= allowed + 1e-9

    def _start(self, task: str, worker: str, now: float) -> Start:
        self._numbers[task] = number = self._numbers.get(task, 0) + 1
        self._enter(task, number, worker, now)
        return Start(task, number, worker)

    def _enter(self, task: str, number: int, worker: str, now: float) -> None:
        work = self._work[task]
        self._attempts[task] = self._new_attempt(work, number, worker, now)
        self._reserved += work.max_cost or 0.0
        self._workers.take(worker, task)
        self._by_provider[work.provider] = self._by_provider.get(work.provider, 0) + 1
        self._by_repo[work.repo] = self._by_repo.get(work.repo, 0) + 1

    def _new_attempt(self, work: Work, number: int, worker: str, now: float) -> Attempt:
        return Attempt(number, worker, now, now + work.time_limit + GRACE_S, work.max_cost or 0.0)

    def _lose(self, task: str, now: float, reason: str) -> list[Act]:
        attempt = self._release(task)
        self._let_linger(task, attempt)
        losses = self._losses.get(task, 0) + attempt.begun
        self._losses[task] = losses
        if losses > MAX_LOSSES:
            return [Final(task, attempt.number, "failed", f"{reason}, {losses} times")]
        self._queue(task, now + (BACKOFF_S[min(losses - 1, len(BACKOFF_S) - 1)] if losses > 1 else 0.0))
        return [Again(task, attempt.number, reason, lost=True)]

    def _release(self, task: str) -> Attempt:
        """The attempt of a task no longer counts. What it may still cost stays reserved."""
        attempt, work = self._attempts.pop(task), self._work[task]
        self._workers.release(attempt.worker, task)
        self._by_provider[work.provider] -= 1
        self._by_repo[work.repo] -= 1
        return attempt

    def _let_linger(self, task: str, attempt: Attempt) -> None:
        key = (task, attempt.number)
        self._former[key] = attempt
        self._lingering.setdefault(attempt.worker, set()).add(key)

    def _end(self, key: tuple[str, int]) -> None:
        """An attempt that no longer counts has ended. Its cost stays known, for lines that come late."""
        attempt = self._former.get(key)
        if attempt is None or key not in self._lingering.get(attempt.worker, ()):
            return
        self._lingering[attempt.worker].discard(key)
        if not self._lingering[attempt.worker]:
            del self._lingering[attempt.worker]
        self._free(attempt)
        attempt.end()

    def _free(self, attempt: Attempt) -> None:
        left = self._attempts or self._lingering
        self._reserved = self._reserved - attempt.may_still_cost if left else 0.0

    def _hear(self, task: str, number: int, now: float) -> bool:
        """Note a sign of life of an attempt. False if it does not count."""
        if not self.is_current(task, number):
            return False
        attempt = self._attempts[task]
        attempt.heard = now
        self._workers.hear(attempt.worker, now)
        return True

    def _queue(self, task: str, at: float | None = None) -> None:
        if at is None:
            self._push(task)
        else:
            self._delayed.push(task, at)

    def _push(self, task: str) -> None:
        self._ready.push(task, self._group(task), self._work[task].priority)
