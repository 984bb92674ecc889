"""An event loop whose schedule is a pure function of a seed.

Time is virtual: when no callback is ready, it is at once the moment of the next timer. Threads are not started: their
work runs in the loop, at a later moment that the seed chooses. There is no selector; the loop has no descriptor.

Which orders are legal. asyncio runs callbacks in the order in which they were registered, and code may rely on that.
What it leaves open is when something from outside arrives: input, the result of a thread, the end of a process, a
timer after a slow callback. All of these arrive between two passes over the ready callbacks, behind those that are
ready already. So in the "ordered" model

    - ready callbacks run in the order of their registration;
    - between two passes, the clock may advance to the next timer although callbacks are ready (a slow callback),
      by at most MAX_STALL_S;
    - timers that are due at the same time run in any order;
    - the work of a thread takes effect and is reported after a latency that the seed draws.

Every schedule of this model can happen in a real process. In the "permuted" model, the ready callbacks of one pass
also run in any order, except that those of one task, and those that belong to no task, keep theirs. asyncio itself
does not do that, so a finding there may be a reliance on its order, not an error.

Sets of futures and tasks are iterated in an order that depends on their hashes, which are addresses otherwise. Here
they are numbers, so that a schedule can be repeated.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

MAX_STALL_S = 0.05
MAX_STEPS = 60_000
MAX_TIME_S = 4 * 3600.0
LATENCIES = (0.0, 0.0, 0.001, 0.004, 0.02, 0.1)  # of the work of a thread, in seconds


class Stuck(BaseException):
    """Nothing is left that could wake the loop, or it did too much. Not an Exception: nothing may swallow it."""


class _Future(asyncio.Future):  # type: ignore[type-arg]
    def __new__(cls, *args: Any, **named: Any) -> _Future:
        made = super().__new__(cls)
        made.number = next(named["loop"].numbers)
        return made

    def __hash__(self) -> int:
        return self.number  # type: ignore[no-any-return]


class _Task(asyncio.Task):  # type: ignore[type-arg]
    def __new__(cls, *args: Any, **named: Any) -> _Task:
        made = super().__new__(cls)
        made.number = next(named["loop"].numbers)
        return made

    def __hash__(self) -> int:
        return self.number  # type: ignore[no-any-return]


class ScheduleLoop(asyncio.BaseEventLoop):
    def __init__(self, seed: int, *, stall: float = 0.0, permute: bool = False) -> None:
        """`stall` is the probability that the clock advances between two passes although callbacks are ready."""
        self.numbers = itertools.count(1)
        self.random = Random(seed)
        self.steps = 0
        self.errors: list[str] = []  # what the exception handler was called with
        self.after_step: Callable[[], None] = lambda: None
        self._now = 0.0
        self._stall = stall
        self._permute = permute
        super().__init__()
        self._clock_resolution = 1e-9
        self.set_exception_handler(_record_error)
        self.set_task_factory(_task_factory)

    def time(self) -> float:
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    # Threads.

    def start_thread(self, target: Callable[[], object]) -> None:
        """Run the work of a thread later, in the loop."""
        self.call_later(self.random.choice(LATENCIES), target)

    def run_in_executor(self, executor: Any, work: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(work(*args))
            except Exception as error:
                done.set_exception(error)

        self.start_thread(run)
        return done

    # One pass.

    def _run_once(self) -> None:
        ready, random = self._ready, self.random  # type: ignore[attr-defined]
        self._advance(may_stall=bool(ready) and self._stall > 0 and random.random() < self._stall)
        self._take_due()
        batch = [ready.popleft() for _ in range(len(ready))]
        if self._permute and len(batch) > 1:
            batch = _permuted(batch, random)
        for at, handle in enumerate(batch):
            if not handle._cancelled:
                self.steps += 1
                handle._run()
                self.after_step()
            if self._stopping:  # type: ignore[attr-defined]
                ready.extendleft(reversed(batch[at + 1 :]))
                return
        if self.steps > MAX_STEPS:
            raise Stuck(f"more than {MAX_STEPS} steps")

    def _advance(self, *, may_stall: bool) -> None:
        timers = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        if self._ready and not may_stall:  # type: ignore[attr-defined]
            return
        if not timers:
            if self._ready:  # type: ignore[attr-defined]
                return
            raise Stuck("everything waits, and nothing will happen")
        when = timers[0]._when
        if self._ready and when > self._now + MAX_STALL_S:  # type: ignore[attr-defined]
            return
        self._now = max(self._now, when)
        if self._now > MAX_TIME_S:
            raise Stuck(f"not over after {MAX_TIME_S:g} s")

    def _take_due(self) -> None:
        timers, due = self._scheduled, []  # type: ignore[attr-defined]
        while timers and timers[0]._when <= self._now:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            if not handle._cancelled:
                due.append((handle._when, self.random.random(), handle))
        if len(due) > 1:
            due.sort(key=lambda one: one[:2])
        self._ready.extend(handle for _, _, handle in due)  # type: ignore[attr-defined]

    # What the base class expects of a loop with a selector.

    def _process_events(self, events: Any) -> None:
        raise AssertionError("this loop has no descriptors")

    def _write_to_self(self) -> None:
        pass


def _task_factory(loop: Any, work: Coroutine[Any, Any, T], **named: Any) -> asyncio.Task[T]:
    return _Task(work, loop=loop, **named)


def _record_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, ScheduleLoop)
    loop.errors.append(f"{context.get('message')}: {context.get('exception')!r}")


def _permuted(batch: list[Any], random: Random) -> list[Any]:
    """Any order in which the callbacks of one task, and those without a task, keep theirs."""
    queues: dict[Any, deque[Any]] = {}
    for handle in batch:
        owner = getattr(handle._callback, "__self__", None)
        queues.setdefault(owner if isinstance(owner, asyncio.Task) else None, deque()).append(handle)
    order = [owner for owner, queue in queues.items() for _ in queue]
    random.shuffle(order)
    return [queues[owner].popleft() for owner in order]
