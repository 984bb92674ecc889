"""A fleet: tasks in, results out, the same from Python and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from tau import __version__
from tau.core.fleet.scheduler import Limits
from tau.core.fleet.tasks import NamedTask
from tau.errors import UsageError
from tau.fleet.added_tasks import Tasks, named_tasks
from tau.fleet.adoption import Orphans, adopting_engine, orphan_folder, wait_for_orphans
from tau.fleet.callbacks import Check, OnResult, Prepare, check_unstored, checking_engine
from tau.fleet.checks import check_money, check_sandbox, resolve_bases
from tau.fleet.cleanup import clean_up
from tau.fleet.coordinator import NOTHING, Coordinator, FleetOptions, Inherited, recover
from tau.fleet.engines import Engine
from tau.fleet.engines.choice import Place, make_engine
from tau.fleet.folder import FleetFolder
from tau.fleet.stopping import take_requests
from tau.fleet.variables import models_for_workers
from tau.fleet.workspace import remove_leftovers
from tau.records.base import Value, convert, encode, parse
from tau.records.fleet import Result, Task
from tau.store.fleet_sessions import announced
from tau.store.ledger import Ledger, StoredTask
from tau.store.paths import agent_dir

Changed = Literal["refuse", "redo", "keep"]


class FleetConfig(Value):
    """How a fleet runs. `workers` are command lines; without any, `worker_count` local processes.

    `concurrency` is the number of agents at once, `per_provider` and `per_repo` that for one provider or repository,
    `per_worker` that of one worker process. `max_cost` is in dollars, for the whole fleet: every task then needs a
    `maxCost` of its own. `sandbox` is for tasks that name none. `keep` says which work folders are kept ("never",
    "failed", "always"), `changed` what happens to tasks that are not what they were ("refuse", "redo", "keep").
    `mirror` is a folder for copies of repositories that a URL names. `after_loss` says how the next attempt begins when
    one was lost with its worker ("restart", "continue"), `orphans` what workers do whose coordinator was killed
    ("stop", "keep"). `serve` lists the running sessions in `tau serve` of the same user.
    """

    concurrency: int = 8
    per_provider: int | None = None
    per_repo: int | None = None
    max_cost: float | None = None
    worker_count: int = 0
    per_worker: int = 50
    workers: Sequence[str] = ()
    worker_memory: int = 2 * 1024**3
    engine: str = "local"
    sandbox: str = "none"
    keep: str = "never"
    changed: Changed = "refuse"
    drain_s: float = 600.0
    telemetry: bool = False
    mirror: str | None = None
    after_loss: Literal["restart", "continue"] = "restart"
    orphans: Literal["stop", "keep"] = "stop"
    serve: bool = False


class Fleet:
    """Tasks in, results out. `out` is the folder of the fleet; the same again goes on where it was.

        async with tau.fleet.Fleet("runs/today", concurrency=100) as fleet:
            await fleet.add(tasks)
            async for result in fleet.results():
                ...

    `prepare` is called with each task that is added and returns the task to use. `check` is called with each result
    whose outcome would be `done`, and says whether the task is solved. Both run in this process; `check` may be a
    coroutine function. `config` are the fields of `FleetConfig`.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        *,
        prepare: Prepare | None = None,
        check: Check | None = None,
        **config: Any,
    ) -> None:
        """Raises UsageError if another process works on the folder, or its ledger cannot be used."""
        self.config = FleetConfig(**config)
        self.folder = FleetFolder(Path(out).absolute())
        self.coordinator: Coordinator | None = None
        self._prepare = prepare
        self._check = check
        self._ledger: Ledger | None = None
        self._lock: Any = None

    async def __aenter__(self) -> Fleet:
        """Create or find the folder, and lock it."""
        self.folder.create()
        self._lock = self.folder.locked()
        self._lock.__enter__()
        try:
            self._ledger = self.folder.ledger()
        except UsageError:
            self._lock.__exit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._ledger is not None:
            self._ledger.close()
        self._lock.__exit__(None, None, None)

    @property
    def ledger(self) -> Ledger:
        """The ledger of the fleet."""
        if self._ledger is None:
            raise UsageError("Open the fleet first: `async with Fleet(…) as fleet`.")
        return self._ledger

    async def add(self, tasks: Tasks, defaults: Mapping[str, Any] | None = None) -> int:
        """Add tasks; those that are there already stay. Returns how many are new. Raises UsageError.

        `tasks` are records, mappings with the fields of the task file, or the path of a task file; `defaults` are
        fields for those that lack them.
        """
        before = len(self.ledger.tasks())
        await self.add_tasks(tasks, defaults)
        return len(self.ledger.tasks()) - before

    async def add_tasks(self, tasks: Tasks, defaults: Mapping[str, Any] | None = None) -> list[str]:
        """Add tasks, as `add` does. Returns their ids."""
        named = named_tasks(tasks, defaults or {}, self._prepare)
        known = {one.id: one.hash for one in self.ledger.tasks()}
        begun = self.ledger.numbers()
        different = [task for task in named if known.get(task.id, task.hash) != task.hash]
        changed = [task for task in different if task.id in begun]
        if changed and self.config.changed == "refuse":
            raise UsageError(
                f"Task {changed[0].id} is not what it was when it began"
                + (f", and {len(changed) - 1} more are not" if len(changed) > 1 else "")
                + ". Use --changed redo to do changed tasks again, or --changed keep to leave them."
            )
        kept = {task.id for task in changed} if self.config.changed == "keep" else ()
        replaced = [task for task in different if task.id not in kept]
        self.folder.copy_tasks(task.task for task in [*(task for task in named if task.id not in known), *replaced])
        with self.ledger.transaction():
            for task in replaced:
                self.ledger.replace_task(task.id, task.hash, task.task)
            self.ledger.add([(task.id, task.hash, task.task) for task in named], time.time())
        return [task.id for task in named]

    async def run(
        self, on_result: OnResult = lambda result: None, *, only: Sequence[str] | None = None
    ) -> Mapping[str, int]:
        """Work until every task has a result. Returns the number of tasks by outcome; "" counts those without one.

        `only` are ids, in the order in which they should begin; None means all tasks of the fleet.
        """
        await check_unstored(self.folder, self.ledger.open_attempts(), self._check)
        self._write_about()
        take_requests(self.folder)  # of those who wanted to stop an earlier run
        inherited = await self._recover(on_result)
        waiting = self._open_tasks(only)
        if waiting:
            config = self.config
            check_money(waiting, config.max_cost)
            bases = await resolve_bases(waiting, self.mirror)
            engine = adopting_engine(self._engine(inherited), self.folder.path, keep=config.orphans == "keep")
            self.coordinator = Coordinator(
                self.folder,
                self.ledger,
                checking_engine(engine, self._check),
                waiting,
                self._options(),
                bases,
                on_result=on_result,
                inherited=inherited,
            )
            try:
                with announced(agent_dir(), self.folder.path) if config.serve else nullcontext():
                    await self.coordinator.run(lambda: self._check_machine(waiting))
            finally:
                continues = config.after_loss == "continue" and bool(self.ledger.open_tasks())
                if config.keep == "never" and not continues:
                    await clean_up(self.folder.path / "local", self.mirror, self.folder.id(), waiting)
        return self.counts(only)

    async def _recover(self, on_result: OnResult) -> Inherited:
        """Take what an earlier coordinator has left: results that it did not store, and workers that live on."""
        attempts = self.ledger.open_attempts()
        orphans: Orphans = {}
        if self.config.orphans == "keep" and attempts:
            orphans = await wait_for_orphans(orphan_folder(self.folder.path), attempts)
        tasks = [_stored(one) for one in self.ledger.open_tasks()]
        for result in recover(self.folder, self.ledger, tasks, orphans):
            on_result(result)
        self.folder.rewrite_results(self.ledger.results())
        return Inherited(attempts, orphans)

    def _options(self) -> FleetOptions:
        config = self.config
        limits = Limits(config.concurrency, config.per_provider, config.per_repo, config.max_cost)
        return FleetOptions(
            limits,
            config.sandbox,
            config.keep,
            config.drain_s,
            config.mirror,
            after_loss=config.after_loss,
            orphans=config.orphans,
            models=self._models(),
        )

    async def _check_machine(self, waiting: Sequence[NamedTask]) -> None:
        """Raises UsageError if local workers cannot run commands in the sandbox."""
        if not self.config.workers and self.config.engine == "local":
            await check_sandbox(waiting, self.config.sandbox)

    async def results(self, *, only: Sequence[str] | None = None) -> AsyncIterator[Result]:
        """Run the fleet, and yield each final result when it is there; results of earlier runs first."""
        queue: asyncio.Queue[Result | None] = asyncio.Queue()
        wanted = None if only is None else set(only)
        for result in self.stored_results():
            if wanted is None or result.id in wanted:
                queue.put_nowait(result)

        async def run() -> None:
            try:
                await self.run(queue.put_nowait, only=only)
            finally:
                queue.put_nowait(None)

        running = asyncio.create_task(run())
        try:
            while (one := await queue.get()) is not None:
                yield one
            await running
        finally:
            running.cancel()
            await asyncio.wait([running])  # it ends its workers

    def stored_results(self) -> Iterator[Result]:
        """The final results that the ledger holds, in the order of the tasks."""
        for record in self.ledger.results():
            yield convert(parse(record), Result)

    def counts(self, only: Sequence[str] | None = None) -> dict[str, int]:
        """The number of tasks by outcome, of all or of some; "" counts those without a result."""
        if only is None:
            return dict(self.ledger.counts())
        outcomes = self.ledger.outcomes()
        return dict(Counter(outcomes.get(id, "") for id in only))

    def _open_tasks(self, ids: Sequence[str] | None) -> list[NamedTask]:
        found = {one.id: _stored(one) for one in self.ledger.open_tasks()}
        return list(found.values()) if ids is None else [found[id] for id in ids if id in found]

    @property
    def mirror(self) -> Path:
        """Where copies of repositories that a URL names are, on this machine."""
        return Path(self.config.mirror) if self.config.mirror else self.folder.path / "local" / "mirrors"

    def _engine(self, inherited: Inherited = NOTHING) -> Engine:
        config, root = self.config, self.folder.path / "local"
        if config.keep == "never" and config.after_loss == "restart" and not inherited.orphans:
            remove_leftovers(root)
        environment = {**os.environ, "TAU_TELEMETRY": "1"} if config.telemetry else None
        per_worker = min(config.per_worker, config.concurrency)
        count = config.worker_count or min(os.cpu_count() or 1, -(-config.concurrency // per_worker))
        logs = self.folder.path / "logs"
        place = Place(
            root, logs, per_worker, max(1, count), config.worker_memory, environment, config.orphans == "keep"
        )
        return make_engine("command" if config.workers else config.engine, config.workers, place)

    def _models(self) -> str:
        """The user's models.json for the workers. Raises UsageError if it cannot be read."""
        is_here = not self.config.workers and self.config.engine in ("local", "dask")
        return models_for_workers(agent_dir() / "models.json", with_keys=is_here)

    def _write_about(self) -> None:
        about = {
            "id": self.folder.id(),
            "tau": __version__,
            "python": platform.python_version(),
            "host": platform.node(),
            "started": time.time(),
            "config": json.loads(encode(self.config)),
        }
        self.folder.write_about(json.dumps(about, indent=2) + "\n")


async def run(
    tasks: Tasks,
    out: str | os.PathLike[str],
    *,
    defaults: Mapping[str, Any] | None = None,
    prepare: Prepare | None = None,
    check: Check | None = None,
    on_result: OnResult = lambda result: None,
    **config: Any,
) -> list[Result]:
    """Run tasks as a fleet and return their results, in the order of the tasks.

    `tasks` are records, mappings with the fields of the task file, or the path of a task file; `defaults` are fields
    for those that lack them. `out` is the folder of the fleet: called again with the same one, it goes on where it was.
    The other arguments are those of `Fleet`. Tasks without a result (`max_cost` was reached) are missing in the list.
    """
    async with Fleet(out, prepare=prepare, check=check, **config) as fleet:
        ids = await fleet.add_tasks(tasks, defaults)
        await fleet.run(on_result, only=ids)
        found = {result.id: result for result in fleet.stored_results()}
        return [found[id] for id in ids if id in found]


def _stored(stored: StoredTask) -> NamedTask:
    return NamedTask(stored.id, stored.hash, convert(parse(stored.line), Task))
