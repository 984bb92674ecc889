"""Tasks that wait: by priority, then in order, in a heap for each provider (and repository, if those are limited), so
that a blocked one costs nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple

Group = tuple[str, str]
"""provider and repository"""
Allowed = Callable[[str], bool]


class Entry(NamedTuple):
    """Compared by priority and order."""

    priority: int
    order: int
    task: str


class ReadyQueue:
    def __init__(self) -> None:
        self._heaps: dict[str, dict[str, list[Entry]]] = {}  # by provider, then by repository; none is empty
        self._count = 0
        self._order = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        """All tasks, in no order."""
        return (entry.task for repos in self._heaps.values() for heap in repos.values() for entry in heap)

    def push(self, task: str, group: Group, priority: int) -> None:
        self._order += 1
        self.put_back(group, Entry(-priority, self._order, task))

    def put_back(self, group: Group, entry: Entry) -> None:
        """What `pop` gave, to its old place."""
        provider, repo = group
        heapq.heappush(self._heaps.setdefault(provider, {}).setdefault(repo, []), entry)
        self._count += 1

    def pop(self, provider_allowed: Allowed, repo_allowed: Allowed) -> tuple[Group, Entry] | None:
        """The first task of an allowed group, with its group."""
        heads = [
            (heap[0], provider, repo)
            for provider, repos in self._heaps.items()
            if provider_allowed(provider)
            for repo, heap in repos.items()
            if repo_allowed(repo)
        ]
        if not heads:
            return None
        entry, provider, repo = min(heads)
        heap = self._heaps[provider][repo]
        heapq.heappop(heap)
        self._count -= 1
        self._drop_if_empty((provider, repo))
        return (provider, repo), entry

    def remove(self, task: str, group: Group) -> bool:
        """False if it is not here."""
        heap = self._heaps.get(group[0], {}).get(group[1], [])
        found = next((entry for entry in heap if entry.task == task), None)
        if found is None:
            return False
        heap.remove(found)
        heapq.heapify(heap)
        self._count -= 1
        self._drop_if_empty(group)
        return True

    def _drop_if_empty(self, group: Group) -> None:
        provider, repo = group
        if not self._heaps[provider][repo]:
            del self._heaps[provider][repo]
        if not self._heaps[provider]:
            del self._heaps[provider]


class DelayedTasks:
    """Tasks that wait for a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, task: str, at: float) -> None:
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, task))

    def next_at(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Iterator[str]:
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)[2]

    def remove(self, task: str) -> bool:
        """False if it is not here."""
        kept = [entry for entry in self._heap if entry[2] != task]
        was_here = len(kept) < len(self._heap)
        heapq.heapify(kept)
        self._heap = kept
        return was_here
