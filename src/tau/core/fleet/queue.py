"""Tasks that wait: by priority, then in order, in a heap for each provider, so that a blocked one costs nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Entry(NamedTuple):
    """Compared by priority and order."""

    priority: int
    order: int
    task: str


class ReadyQueue:
    def __init__(self) -> None:
        self._heaps: dict[str, list[Entry]] = {}
        self._count = 0
        self._order = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        """All tasks, in no order."""
        return (entry.task for heap in self._heaps.values() for entry in heap)

    def push(self, task: str, provider: str, priority: int) -> None:
        self._order += 1
        self.put_back(provider, Entry(-priority, self._order, task))

    def put_back(self, provider: str, entry: Entry) -> None:
        """What `pop` gave, to its old place."""
        heapq.heappush(self._heaps.setdefault(provider, []), entry)
        self._count += 1

    def pop(self, allowed: Callable[[str], bool]) -> tuple[str, Entry] | None:
        """The first task of an allowed provider, with its provider."""
        heads = [(heap[0], provider) for provider, heap in self._heaps.items() if heap and allowed(provider)]
        if not heads:
            return None
        _, provider = min(heads)
        self._count -= 1
        return provider, heapq.heappop(self._heaps[provider])

    def remove(self, task: str, provider: str) -> bool:
        """False if it is not here."""
        heap = self._heaps.get(provider, [])
        kept = [entry for entry in heap if entry.task != task]
        self._count -= len(heap) - len(kept)
        heapq.heapify(kept)
        self._heaps[provider] = kept
        return len(kept) < len(heap)
