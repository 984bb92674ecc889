"""A fleet: tasks in, results out, the same from Python and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau import __version__
from tau.core.fleet.scheduler import Limits
from tau.core.fleet.tasks import NamedTask, is_url, read_task
from tau.errors import UsageError
from tau.fleet.callbacks import Check, OnResult, Prepare, check_unstored, checking_engine
from tau.fleet.coordinator import Coordinator, FleetOptions, recover
from tau.fleet.engines import Engine
from tau.fleet.engines.pipes import PipeEngine, local_command
from tau.fleet.folder import FleetFolder
from tau.fleet.git import GitError, resolve
from tau.fleet.mirror import mirrored
from tau.fleet.probe import sandbox_problem
from tau.fleet.task_files import load_tasks, with_absolute_paths
from tau.records.base import Value, convert, encode, parse, replace
from tau.records.fleet import Result, Task
from tau.store.ledger import Ledger, StoredTask
from tau.store.paths import agent_dir

Changed = Literal["refuse", "redo", "keep"]
Tasks = str | os.PathLike[str] | Iterable[NamedTask | Task | Mapping[str, Any]]


class FleetConfig(Value):
    """How a fleet runs. `workers` are command lines; without any, `worker_count` local processes."""

    concurrency: int = 8
    """agents at once"""
    per_provider: int | None = None
    """agents at once for one provider"""
    per_repo: int | None = None
    """agents at once for one repository"""
    max_cost: float | None = None
    """dollars for the whole fleet; every task then needs a `maxCost` of its own"""
    worker_count: int = 0
    """local worker processes; 0: one per processor"""
    per_worker: int = 50
    """agents of one worker"""
    workers: Sequence[str] = ()
    """commands that start workers"""
    engine: str = "local"
    """what starts the workers"""
    sandbox: str = "none"
    """sandbox level of tasks that name none"""
    keep: str = "never"
    """which work folders are kept: "never", "failed" or "always\""""
    changed: Changed = "refuse"
    """tasks that are not what they were: "refuse", "redo" or "keep\""""
    drain_s: float = 600.0
    """seconds for tasks to end after the first Ctrl+C"""
    mirror: str | None = None
    """folder for copies of repositories that a URL names"""


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
        self._ledger = self.folder.ledger()
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
        usual = defaults or {}
        given = load_tasks(Path(tasks), usual) if isinstance(tasks, str | os.PathLike) else tasks
        named = [_named(task, number, usual, self._prepare) for number, task in enumerate(given, 1)]
        if repeated := [id for id, count in Counter(task.id for task in named).items() if count > 1]:
            raise UsageError(f"Two tasks have the id {repeated[0]}.")
        known = {one.id: one.hash for one in self.ledger.tasks()}
        changed = [task for task in named if known.get(task.id, task.hash) != task.hash]
        if changed and self.config.changed == "refuse":
            raise UsageError(
                f"Task {changed[0].id} is not what it was when this fleet began"
                + (f", and {len(changed) - 1} more are not" if len(changed) > 1 else "")
                + ". Use --changed redo to do changed tasks again, or --changed keep to leave them."
            )
        with self.ledger.transaction():
            if self.config.changed == "redo":
                for task in changed:
                    self.ledger.replace_task(task.id, task.hash, task.task)
            self.ledger.add([(task.id, task.hash, task.task) for task in named], time.time())
        return [task.id for task in named]

    async def run(self, on_result: OnResult | None = None, tasks: Sequence[str] | None = None) -> Mapping[str, int]:
        """Work until every task has a result. Returns the number of tasks by outcome; "" counts those without one.

        `tasks` are ids, in the order in which they should begin; None means all tasks of the fleet.
        """
        self._write_about()
        tell = on_result or (lambda result: None)
        await check_unstored(self.folder, self.ledger.open_attempts(), self._check)
        for result in recover(self.folder, self.ledger, self._open_tasks(None)):
            tell(result)
        self.folder.rewrite_results(self.ledger.results())
        waiting = self._open_tasks(tasks)
        if waiting:
            self._check_money(waiting)
            bases = await resolve_bases(waiting, self.mirror)
            await self._check_sandbox(waiting)
            config = self.config
            limits = Limits(config.concurrency, config.per_provider, config.per_repo, config.max_cost)
            options = FleetOptions(limits, config.sandbox, config.keep, config.drain_s, config.mirror)
            engine = checking_engine(self._engine(), self._check)
            self.coordinator = Coordinator(self.folder, self.ledger, engine, waiting, options, bases, on_result=tell)
            await self.coordinator.run()
        return self.counts(tasks)

    async def results(self, tasks: Sequence[str] | None = None) -> AsyncIterator[Result]:
        """Run the fleet, and yield each final result when it is there; results of earlier runs first."""
        queue: asyncio.Queue[Result | None] = asyncio.Queue()
        wanted = None if tasks is None else set(tasks)
        for result in self.stored_results():
            if wanted is None or result.id in wanted:
                queue.put_nowait(result)

        async def run() -> None:
            try:
                await self.run(queue.put_nowait, tasks)
            finally:
                queue.put_nowait(None)

        running = asyncio.create_task(run())
        try:
            while (one := await queue.get()) is not None:
                yield one
            await running
        finally:
            running.cancel()

    def stored_results(self) -> Iterator[Result]:
        """The final results that the ledger holds, in the order of the tasks."""
        for record in self.ledger.results():
            yield convert(parse(record), Result)

    def counts(self, tasks: Sequence[str] | None = None) -> dict[str, int]:
        """The number of tasks by outcome; "" counts those without a result."""
        if tasks is None:
            return dict(self.ledger.counts())
        outcomes = self.ledger.outcomes()
        return dict(Counter(outcomes.get(id, "") for id in tasks))

    def _open_tasks(self, ids: Sequence[str] | None) -> list[NamedTask]:
        found = {one.id: _stored(one) for one in self.ledger.open_tasks()}
        return list(found.values()) if ids is None else [found[id] for id in ids if id in found]

    @property
    def mirror(self) -> Path:
        """Where copies of repositories that a URL names are, on this machine."""
        return Path(self.config.mirror) if self.config.mirror else self.folder.path / "local" / "mirrors"

    def _engine(self) -> Engine:
        config, root = self.config, self.folder.path / "local"
        self._share_models(root / "agent")
        if config.workers:
            return PipeEngine(list(config.workers), self.folder.path / "logs")
        per_worker = min(config.per_worker, config.concurrency)
        count = config.worker_count or min(os.cpu_count() or 1, -(-config.concurrency // per_worker))
        return PipeEngine([local_command(root, per_worker)] * max(1, count), self.folder.path / "logs")

    def _share_models(self, to: Path) -> None:
        """Workers know the user's models, and nothing else of their folder; keys come from the environment."""
        to.mkdir(parents=True, exist_ok=True, mode=0o700)
        source = agent_dir() / "models.json"
        if source.exists():
            shutil.copyfile(source, to / "models.json")

    def _check_money(self, tasks: Sequence[NamedTask]) -> None:
        if self.config.max_cost is not None:
            without = next((task.id for task in tasks if task.task.budget.max_cost is None), None)
            if without is not None:
                raise UsageError(f"Task {without} has no budget.maxCost: with --max-cost every task needs one.")

    async def _check_sandbox(self, tasks: Sequence[NamedTask]) -> None:
        """Raises UsageError if this machine has no sandbox; workers elsewhere say so for each task."""
        config = self.config
        if config.workers or config.engine != "local":
            return
        for level in sorted({task.task.sandbox or config.sandbox for task in tasks}):
            if (problem := await sandbox_problem(level)) is not None:
                raise UsageError(
                    f"The sandbox {level} does not work here: {problem.rstrip('.')}. "
                    "With --sandbox none, commands of tasks run without it."
                )

    def _write_about(self) -> None:
        about = {
            "tau": __version__,
            "python": platform.python_version(),
            "host": platform.node(),
            "started": time.time(),
            "config": json.loads(encode(self.config)),
        }
        self.folder.about.write_text(json.dumps(about, indent=2) + "\n")


async def run(
    tasks: Tasks,
    out: str | os.PathLike[str],
    *,
    defaults: Mapping[str, Any] | None = None,
    prepare: Prepare | None = None,
    check: Check | None = None,
    on_result: OnResult | None = None,
    **config: Any,
) -> list[Result]:
    """Run tasks as a fleet and return their results, in the order of the tasks.

    `tasks` are records, mappings with the fields of the task file, or the path of a task file; `defaults` are fields
    for those that lack them. `out` is the folder of the fleet: called again with the same one, it goes on where it was.
    The other arguments are those of `Fleet`. Tasks without a result (`max_cost` was reached) are missing in the list.
    """
    async with Fleet(out, prepare=prepare, check=check, **config) as fleet:
        ids = await fleet.add_tasks(tasks, defaults)
        await fleet.run(on_result, tasks=ids)
        found = {result.id: result for result in fleet.stored_results()}
        return [found[id] for id in ids if id in found]


def _named(
    task: NamedTask | Task | Mapping[str, Any], number: int, defaults: Mapping[str, Any], prepare: Prepare | None
) -> NamedTask:
    if isinstance(task, NamedTask):
        found: NamedTask | str = task
    elif isinstance(task, Task):
        found = read_task(encode(task), {})
    else:
        found = read_task(encode(dict(task)), defaults)
    if isinstance(found, NamedTask) and prepare is not None:
        found = read_task(encode(prepare(replace(found.task, id=found.id))), {})
    if isinstance(found, str):
        raise UsageError(f"Task {number} is not valid: {found}")
    return NamedTask(found.id, found.hash, with_absolute_paths(found.task, Path.cwd()))


def _stored(stored: StoredTask) -> NamedTask:
    return NamedTask(stored.id, stored.hash, convert(parse(stored.line), Task))


async def resolve_bases(tasks: Sequence[NamedTask], mirrors: Path) -> dict[str, str]:
    """The commit of each task with a repository, resolved once. Raises UsageError."""
    known: dict[tuple[str, str | None], str] = {}
    local: dict[str, str] = {}
    bases: dict[str, str] = {}
    for task in tasks:
        repo, base = task.task.repo, task.task.base
        if repo is None or task.task.workspace in ("copy", "in-place"):
            continue
        try:
            if is_url(repo) and repo not in local:
                local[repo] = await mirrored(mirrors, repo, refresh=True)
            if (repo, base) not in known:
                known[repo, base] = await resolve(local.get(repo, repo), base)
        except (GitError, OSError) as error:
            raise UsageError(f"Task {task.id}: repo {repo}: {error}") from None
        bases[task.id] = known[repo, base]
    return bases
