"""The coordinator of a fleet: carries out what the scheduler decides, and writes everything to the ledger first.

Order of writing: the worker makes its result durable, says `done`; the coordinator stores the result (one transaction
for all that came within FLUSH_S), appends it to results.jsonl and acknowledges; then the worker removes its work tree.
Killed between any two of these, the next start goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from tau import __version__
from tau.core.fleet.attempt_ids import attempt_id, attempt_parts
from tau.core.fleet.scheduler import Act, Again, Final, Limits, Scheduler, Start, StopAttempt, Work
from tau.core.fleet.tasks import NamedTask, longest_attempt
from tau.errors import UsageError
from tau.fleet.adoption import Orphans, orphan_folder
from tau.fleet.engines import Engine, Lost
from tau.fleet.folder import FleetFolder
from tau.fleet.outbox import Outbox
from tau.fleet.stopping import WHOLE_FLEET, take_requests
from tau.records.base import Value, replace
from tau.records.fleet import (
    Acknowledge,
    Beat,
    Begun,
    Capacity,
    Done,
    FromWorker,
    Hello,
    Limited,
    Order,
    Progress,
    Result,
    Stop,
    Welcome,
)
from tau.store.ledger import Ledger, LedgerError, LedgerFull

FLUSH_S = 0.05
LOOK_S = 1.0  # for requests to stop, and for a disk that has room again
WARN_S = 30.0
COORDINATOR_ENDED = "the coordinator ended"
logger = logging.getLogger(__name__)


class FleetOptions(Value):
    """What holds for all attempts."""

    limits: Limits
    sandbox: str = "none"
    keep: str = "never"
    drain_s: float = 600.0
    mirror: str | None = None
    after_loss: Literal["restart", "continue"] = "restart"
    orphans: Literal["stop", "keep"] = "stop"
    models: str = ""


class Inherited(Value):
    """What an earlier coordinator has left: attempts that are lost (task and number), and workers that live on."""

    lost: Mapping[str, int] = {}
    orphans: Orphans = {}


NOTHING = Inherited()


class Coordinator:
    """`on_result` is called with every final result that is stored."""

    def __init__(
        self,
        folder: FleetFolder,
        ledger: Ledger,
        engine: Engine,
        tasks: Sequence[NamedTask],
        options: FleetOptions,
        bases: Mapping[str, str],
        on_result: Callable[[Result], None] = lambda result: None,
        inherited: Inherited = NOTHING,
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._tasks = {task.id: task for task in tasks}
        self._options = options
        self._bases = bases
        self._hellos: dict[str, Hello] = {}  # of workers that live
        self._run = folder.id()
        self.scheduler = Scheduler(map(_work, tasks), options.limits, attempts=ledger.numbers(), spent=ledger.spent())
        self._outbox = Outbox(folder, ledger, engine.send, on_result)
        self._lost = dict(inherited.lost)  # attempts without an end, which may be continued
        self._adopt(inherited.orphans, ledger)
        self._created = time.monotonic()
        self._claimed: dict[str, float] = {}  # when the current attempt of a task was claimed
        self._changed = asyncio.Event()
        self._warned = -WARN_S
        self.problems: list[str] = []

    def _adopt(self, orphans: Orphans, ledger: Ledger) -> None:
        """Go on with what the workers of an earlier coordinator work on."""
        now = time.monotonic()
        for worker, attempts in orphans.items():
            self._hellos[worker] = Hello(__version__, 0)
            self.scheduler.joined(worker, 0, {}, now)
            for task, number in attempts.items():
                cost, is_last = ledger.cost(task, number), number == self.scheduler.number(task)
                if not is_last or not self.scheduler.adopted(task, number, worker, now, cost):
                    self.scheduler.not_adopted(task, number, worker, now, cost)
                    self._end(task, number, COORDINATOR_ENDED, time.time())  # and it is told to stop when it beats

    async def run(self, ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Until every task has its result, the money is spent, or `drain` was called and nothing is under way.

        `ready` is awaited while the workers start, and before anything is sent to them.
        """
        try:
            await self._engine.start()
            if ready is not None:
                await ready()
        except BaseException:
            await self._engine.close()
            raise
        listening = asyncio.create_task(self._listen())
        try:
            while not listening.done():
                now = time.monotonic()
                await self._look_for_requests(now)
                self._do(self.scheduler.tick(now))
                flushed = await self._flush()
                if flushed and (self.scheduler.finished or self.scheduler.out_of_money):
                    break
                await self._wait(min(LOOK_S, self.scheduler.next_tick(now) - now))
            if listening.done():
                listening.result()  # raises what ended it
        finally:
            try:
                await self._flush()
            finally:
                listening.cancel()
                await self._stop_orphans()
                await self._engine.close()

    async def _stop_orphans(self) -> None:
        """Workers that would outlive a killed coordinator must know that this one ends on purpose."""
        if self._options.orphans == "keep":
            keep = self._options.after_loss == "continue"
            for task, number, worker in self.scheduler.under_way():
                await self._engine.send(worker, Stop(attempt_id(task, number), keep))

    async def _wait(self, seconds: float) -> None:
        """Until something happened, and then a little longer for what comes with it: one transaction for all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
                await asyncio.sleep(FLUSH_S)
        self._changed.clear()

    def drain(self) -> None:
        """Start nothing more; what is under way may end."""
        self.scheduler.draining = True
        self._changed.set()

    async def _look_for_requests(self, now: float) -> None:
        for task in take_requests(self._folder):
            if task == WHOLE_FLEET:
                self._note("stop", "The fleet was asked to stop: no more tasks are started.")
                self.drain()
            else:
                self._do(self.scheduler.stop(task, now))

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
                self._hellos.pop(worker, None)
                self._note("worker lost", f"{worker}: {reason}" if worker else reason)
                self._do(scheduler.lost(worker, now, reason))
            case Begun(attempt):
                task, number = attempt_parts(attempt)
                at = time.time()
                self._outbox.write(lambda ledger: ledger.begin(task, number, at))
                self._do(scheduler.begun(task, number, now))
            case Beat(attempts):
                self._do(scheduler.beat(worker, map(attempt_parts, attempts), now))
                self._rejoin(worker, now)
            case Progress():
                self._charge(line, now)
            case Capacity():
                self._resize(worker, line, now)
            case Limited():
                self._limited(line, now)
            case Done():
                self._done(worker, line, now)

    async def _greet(self, worker: str, hello: Hello, now: float) -> None:
        if hello.version != __version__:
            self._note("worker refused", f"{worker} is tau {hello.version}, this is {__version__}: they must be equal")
            await self._engine.drop(worker)
            return
        self._hellos[worker] = hello
        await self._engine.send(worker, Welcome(self._run, self._options.models))
        self._do(self.scheduler.joined(worker, hello.slots, hello.labels, now))

    def _rejoin(self, worker: str, now: float) -> None:
        """A worker that was given up speaks again: its attempts do not count, but it can work."""
        hello = self._hellos.get(worker)
        if hello is not None and not self.scheduler.knows(worker):
            self._note_event("worker back", worker)
            self._do(self.scheduler.joined(worker, hello.slots, hello.labels, now))

    def _resize(self, worker: str, line: Capacity, now: float) -> None:
        if (hello := self._hellos.get(worker)) is not None:
            self._hellos[worker] = replace(hello, slots=line.slots)
            self._note_event("capacity", f"{worker}: {line.slots} {line.reason}")
            self._do(self.scheduler.resized(worker, line.slots, now))

    def _charge(self, line: Progress, now: float) -> None:
        task, number = attempt_parts(line.attempt)
        if line.cost:
            self._outbox.write(lambda ledger: ledger.charge(task, number, line.cost))
        self._do(self.scheduler.progress(task, number, line.cost, now))

    def _limited(self, line: Limited, now: float) -> None:
        pause = "" if line.retry_after is None else f", again after {line.retry_after:g} s"
        self._note_event("limited", f"{line.provider}{pause}")
        if line.attempt:
            self.scheduler.waits(*attempt_parts(line.attempt), line.wait)
        self._do(self.scheduler.limited(line.provider, now, line.retry_after or 0.0))

    def _done(self, worker: str, line: Done, now: float) -> None:
        task, number = attempt_parts(line.attempt)
        result = line.result
        acts = self.scheduler.done(
            task, number, result.outcome, result.cost, now, transient=line.transient, uncounted=line.uncounted
        )
        if result.cost:
            self._outbox.write(lambda ledger: ledger.charge(task, number, result.cost))
        if acts and isinstance(acts[0], Final):
            waited = self._claimed.pop(task, self._created) - self._created
            seconds = replace(result.seconds, queue=round(waited, 3))
            self._outbox.finish(replace(result, worker=worker, seconds=seconds))
            acts = acts[1:]
        self._outbox.send(worker, Acknowledge(line.attempt))  # also if it no longer counts: its files stay
        self._do(acts)

    async def _flush(self) -> bool:
        """Store and send what was decided. False while the disk is full: nothing is started, results wait.

        Raises UsageError if the ledger is damaged.
        """
        try:
            await self._outbox.flush()
        except (LedgerFull, OSError) as error:
            self.scheduler.paused = True
            if time.monotonic() - self._warned >= WARN_S:
                self._warned = time.monotonic()
                text = f"{error}. No tasks are started until it can be written; results wait at the workers."
                self.problems.append(text)
                logger.warning("%s", text)
            return False
        except LedgerError as error:
            raise UsageError(str(error)) from None
        self.scheduler.paused = False
        return self._outbox.is_empty

    def _do(self, acts: Sequence[Act]) -> None:
        now = time.time()
        starts = [(act.task, act.number, act.worker) for act in acts if isinstance(act, Start)]
        if starts:
            self._outbox.write(lambda ledger: ledger.claim(starts, now))
        for act in acts:
            match act:
                case Start():
                    self._claimed[act.task] = time.monotonic()
                    self._outbox.send(act.worker, self._order(act))
                case StopAttempt():
                    self._outbox.send(act.worker, Stop(attempt_id(act.task, act.number)))
                case Again(task, number, reason):
                    if act.lost:
                        self._lost[task] = number
                    self._end(task, number, reason, now)
                case Final():
                    self._give_up(act)
        if acts:
            self._changed.set()

    def _end(self, task: str, number: int, reason: str, now: float) -> None:
        self._outbox.write(lambda ledger: ledger.end_attempt(task, number, reason, now))

    def _give_up(self, act: Final) -> None:
        task = self._tasks[act.task]
        result = Result(act.task, act.number, act.outcome, task.hash, error=act.error, labels=task.task.labels)
        self._outbox.finish(result)

    def _order(self, act: Start) -> Order:
        task, options = self._tasks[act.task], self._options
        lost = self._lost.pop(act.task, 0)
        return Order(
            attempt_id(act.task, act.number),
            act.number,
            replace(task.task, id=task.id),
            task.hash,
            str(self._folder.attempt(act.task, act.number)),
            base=self._bases.get(act.task),
            sandbox=options.sandbox,
            keep=options.keep,  # type: ignore[arg-type]
            run=self._run,
            mirror=options.mirror,
            after_loss=options.after_loss,
            continues=lost if options.after_loss == "continue" else 0,
            orphans=str(orphan_folder(self._folder.path)) if options.orphans == "keep" else None,
        )

    def _note(self, kind: str, about: str) -> None:
        """For the user and for the ledger."""
        self.problems.append(about)
        self._note_event(kind, about)

    def _note_event(self, kind: str, about: str) -> None:
        now = time.time()
        self._outbox.write(lambda ledger: ledger.note(kind, about, now))


def recover(
    folder: FleetFolder, ledger: Ledger, tasks: Sequence[NamedTask], orphans: Orphans | None = None
) -> list[Result]:
    """At a start: take results that workers have written and an earlier coordinator did not store.

    Ends the attempts that were under way, but for those of `orphans`.
    """
    under_way, found = ledger.open_attempts(), []
    for task in tasks:
        number = under_way.get(task.id, 0)
        result = folder.stored_result(task.id, number) if number else None
        if result is not None and result.task_hash == task.hash and result.outcome not in ("failed", "stopped"):
            found.append(result)
    stored = ledger.finish(found, time.time())
    adopted = [attempt for attempts in (orphans or {}).values() for attempt in attempts.items()]
    ledger.end_open_attempts(COORDINATOR_ENDED, time.time(), but=adopted)
    return stored


def _work(task: NamedTask) -> Work:
    given = task.task
    provider = given.provider or (given.model or "").partition("/")[0]
    return Work(
        task.id,
        provider=provider,
        repo=given.repo or "",
        retries=given.retries,
        priority=given.priority,
        time_limit=longest_attempt(given),
        max_cost=given.budget.max_cost,
        needs=given.needs,
    )


def summary(counts: Mapping[str, int]) -> dict[str, Any]:
    """Counts of outcomes for people: waiting last."""
    return {**{name: count for name, count in counts.items() if name}, "waiting": counts.get("", 0)}
