"""The workers of a fleet: what they work on, how many more tasks they take, and which of them gets the next."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any


class Attempt:
    """An attempt that is under way. `missed`: beats of its worker, since it no longer counts, that did not name it."""

    def __init__(self, number: int, worker: str, now: float, deadline: float, max_cost: float = 0.0) -> None:
        self.number = number
        self.worker = worker
        self.begun = False
        self.heard = now
        self.deadline = deadline
        self.cost = 0.0
        self.missed = 0
        self._max_cost = max_cost

    @property
    def may_still_cost(self) -> float:
        return max(0.0, self._max_cost - self.cost)

    def end(self) -> None:
        """It has ended, and costs nothing more."""
        self._max_cost = 0.0


class Worker:
    def __init__(self, slots: int, labels: Mapping[str, Any], now: float) -> None:
        self.slots = slots
        self.labels = labels
        self.heard = now
        self.tasks: set[str] = set()

    @property
    def free(self) -> int:
        """A worker that takes fewer tasks than it has (it is being drained) has none free."""
        return max(0, self.slots - len(self.tasks))

    def has(self, needs: Mapping[str, Any]) -> bool:
        return all(self.labels.get(key) == value for key, value in needs.items())


class WorkerPool:
    """By name. `free` is the number of tasks that could be given away now."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._by_free: list[tuple[int, str]] = []  # a heap; entries that are no longer true are skipped
        self.free = 0

    def __contains__(self, name: object) -> bool:
        return name in self._workers

    def __getitem__(self, name: str) -> Worker:
        return self._workers[name]

    def items(self) -> list[tuple[str, Worker]]:
        return list(self._workers.items())

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def add(self, name: str, slots: int, labels: Mapping[str, Any], now: float) -> None:
        self._workers[name] = Worker(slots, labels, now)
        self._changed(name, 0)

    def remove(self, name: str) -> Worker | None:
        if (worker := self._workers.pop(name, None)) is not None:
            self.free -= worker.free
        return worker

    def resize(self, name: str, slots: int) -> None:
        if (worker := self._workers.get(name)) is not None:
            before, worker.slots = worker.free, slots
            self._changed(name, before)

    def take(self, name: str, task: str) -> None:
        before = self._workers[name].free
        self._workers[name].tasks.add(task)
        self._changed(name, before)

    def release(self, name: str, task: str) -> None:
        """Nothing happens if the worker is gone."""
        if (worker := self._workers.get(name)) is not None:
            before = worker.free
            worker.tasks.discard(task)
            self._changed(name, before)

    def hear(self, name: str, now: float) -> None:
        if name in self._workers:
            self._workers[name].heard = now

    def best_for(self, needs: Mapping[str, Any]) -> str | None:
        """The worker with the most free slots that has what a task needs; of equals the first by name."""
        if needs:
            fitting = [(-worker.free, name) for name, worker in self._workers.items() if worker.has(needs)]
            free, name = min(fitting, default=(0, ""))
            return name if free else None
        while self._by_free:
            free, name = self._by_free[0]
            if name in self._workers and self._workers[name].free == -free:
                return name
            heapq.heappop(self._by_free)
        return None

    def _changed(self, name: str, before: int) -> None:
        free = self._workers[name].free
        self.free += free - before
        if free:
            heapq.heappush(self._by_free, (-free, name))
        if len(self._by_free) > 8 * len(self._workers) + 64:
            self._by_free = [(-worker.free, name) for name, worker in self._workers.items() if worker.free]
            heapq.heapify(self._by_free)
