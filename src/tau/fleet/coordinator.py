"""The coordinator of a fleet: carries out what the scheduler decides, and writes everything to the ledger first.

Order of writing: the worker makes its result durable, says `done`; the coordinator stores the result (one transaction
for all that came within FLUSH_S), appends it to results.jsonl and acknowledges; then the worker removes its work tree.
Killed between any two of these, the next start goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tau import __version__
from tau.core.fleet.scheduler import Act, Again, Final, Limits, Scheduler, Start, StopAttempt, Work
from tau.core.fleet.tasks import NamedTask
from tau.fleet.engines import Engine, Lost
from tau.fleet.folder import FleetFolder
from tau.records.base import Value, encode, replace
from tau.records.fleet import (
    Acknowledge,
    Beat,
    Begun,
    Done,
    FromWorker,
    Hello,
    Limited,
    Order,
    Progress,
    Result,
    Stop,
)
from tau.store.ledger import Ledger

FLUSH_S = 0.05
COORDINATOR_ENDED = "the coordinator ended"


class FleetOptions(Value):
    """What holds for all attempts."""

    limits: Limits
    sandbox: str = "none"
    keep: str = "never"
    drain_s: float = 600.0
    mirror: str | None = None


class Coordinator:
    """`on_result` is called with every final result; `now` is the monotonic clock."""

    def __init__(
        self,
        folder: FleetFolder,
        ledger: Ledger,
        engine: Engine,
        tasks: Sequence[NamedTask],
        options: FleetOptions,
        bases: Mapping[str, str],
        on_result: Callable[[Result], None] = lambda result: None,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._engine = engine
        self._tasks = {task.id: task for task in tasks}
        self._options = options
        self._bases = bases
        self._on_result = on_result
        self.scheduler = Scheduler(map(_work, tasks), options.limits, attempts=ledger.numbers(), spent=ledger.spent())
        self._unwritten: list[tuple[str, Result]] = []  # results that are not in the ledger, with their workers
        self._changed = asyncio.Event()
        self.problems: list[str] = []

    async def run(self) -> None:
        """Until every task has its result, the money is spent, or `drain` was called and nothing is under way."""
        await self._engine.start()
        listening = asyncio.create_task(self._listen())
        try:
            while not (self.scheduler.finished or self.scheduler.out_of_money or listening.done()):
                await self._flush()
                now = time.monotonic()
                await self._do(self.scheduler.tick(now))
                if self.scheduler.finished:
                    break
                self._changed.clear()
                wait = FLUSH_S if self._unwritten else self.scheduler.next_tick(now) - now
                try:
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                        if self._unwritten:
                            await asyncio.sleep(FLUSH_S)
                except TimeoutError:
                    pass
        finally:
            await self._flush()
            listening.cancel()
            await self._engine.close()

    def drain(self) -> None:
        """Start nothing more; what is under way may end."""
        self.scheduler.draining = True
        self._changed.set()

    async def _listen(self) -> None:
        async for worker, line in self._engine.heard():
            await self._hear(worker, line, time.monotonic())
            self._changed.set()
        self._changed.set()

    async def _hear(self, worker: str, line: FromWorker | Lost, now: float) -> None:
        scheduler = self.scheduler
        match line:
            case Hello():
                await self._greet(worker, line, now)
            case Lost(reason):
                self._note("worker lost", f"{worker}: {reason}")
                await self._do(scheduler.lost(worker, now, reason))
            case Begun(attempt):
                task, number = _parts(attempt)
                self._ledger.begin(task, number, time.time())
                await self._do(scheduler.begun(task, number, now))
            case Beat(attempts):
                await self._do(scheduler.beat(worker, map(_parts, attempts), now))
            case Progress():
                await self._do(scheduler.progress(*_parts(line.attempt), line.cost, now))
            case Limited():
                await self._do(scheduler.limited(line.provider, now))
            case Done():
                await self._done(worker, line, now)

    async def _greet(self, worker: str, hello: Hello, now: float) -> None:
        if hello.version != __version__:
            self._note("worker refused", f"{worker} is tau {hello.version}, this is {__version__}: they must be equal")
            return
        await self._do(self.scheduler.joined(worker, hello.slots, hello.labels, now))

    async def _done(self, worker: str, line: Done, now: float) -> None:
        task, number = _parts(line.attempt)
        result = line.result
        acts = self.scheduler.done(task, number, result.outcome, result.cost, now, transient=line.transient)
        if not acts:  # it no longer counts: its files stay
            await self._engine.send(worker, Acknowledge(line.attempt))
            return
        if isinstance(acts[0], Final):
            self._unwritten.append((worker, replace(result, worker=worker)))
            acts = acts[1:]
        else:
            await self._engine.send(worker, Acknowledge(line.attempt))
        await self._do(acts)

    async def _flush(self) -> None:
        """Store the results that have come, and tell the workers."""
        if not self._unwritten:
            return
        taken, self._unwritten = self._unwritten, []
        stored = self._ledger.finish([result for _, result in taken], time.time())
        self._folder.append([encode(result) for result in stored])
        for worker, result in taken:
            await self._engine.send(worker, Acknowledge(attempt_id(result.id, result.attempt)))
        for result in stored:
            self._on_result(result)

    async def _do(self, acts: Sequence[Act]) -> None:
        starts = [act for act in acts if isinstance(act, Start)]
        if starts:
            self._ledger.claim([(act.task, act.number, act.worker) for act in starts], time.time())
        for act in acts:
            match act:
                case Start():
                    await self._engine.send(act.worker, self._order(act))
                case StopAttempt():
                    await self._engine.send(act.worker, Stop(attempt_id(act.task, act.number)))
                case Again():
                    self._ledger.end_attempt(act.task, act.number, act.reason, time.time())
                case Final():
                    await self._give_up(act)

    async def _give_up(self, act: Final) -> None:
        task = self._tasks[act.task]
        result = Result(act.task, act.number, act.outcome, task.hash, error=act.error, labels=task.task.labels)
        self._unwritten.append(("", result))

    def _order(self, act: Start) -> Order:
        task = self._tasks[act.task]
        return Order(
            attempt_id(act.task, act.number),
            act.number,
            replace(task.task, id=task.id),
            task.hash,
            str(self._folder.attempt(act.task, act.number)),
            base=self._bases.get(act.task),
            sandbox=self._options.sandbox,
            keep=self._options.keep,  # type: ignore[arg-type]
            mirror=self._options.mirror,
        )

    def _note(self, kind: str, about: str) -> None:
        self.problems.append(about)
        self._ledger.note(kind, about, time.time())


def recover(folder: FleetFolder, ledger: Ledger, tasks: Sequence[NamedTask]) -> list[Result]:
    """At a start: take results that workers have written and an earlier coordinator did not store."""
    under_way, found = ledger.open_attempts(), []
    for task in tasks:
        number = under_way.get(task.id, 0)
        result = folder.stored_result(task.id, number) if number else None
        if result is not None and result.task_hash == task.hash and result.outcome not in ("failed", "stopped"):
            found.append(result)
    stored = ledger.finish(found, time.time())
    ledger.end_open_attempts(COORDINATOR_ENDED, time.time())
    return stored


def attempt_id(task: str, number: int) -> str:
    return f"{task}#{number}"


def _parts(attempt: str) -> tuple[str, int]:
    task, _, number = attempt.rpartition("#")
    return task, int(number)


def _work(task: NamedTask) -> Work:
    given = task.task
    provider = given.provider or (given.model or "").partition("/")[0]
    return Work(
        task.id,
        provider=provider,
        repo=given.repo or "",
        retries=given.retries,
        priority=given.priority,
        time_limit=given.budget.time_limit or 3600.0,
        max_cost=given.budget.max_cost,
        needs=given.needs,
    )


def summary(counts: Mapping[str, int]) -> dict[str, Any]:
    """Counts of outcomes for people: waiting last."""
    return {**{name: count for name, count in counts.items() if name}, "waiting": counts.get("", 0)}
