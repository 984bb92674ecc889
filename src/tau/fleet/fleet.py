"""A fleet: tasks in, results out, the same from Python and from the command line."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tau import __version__
from tau.core.fleet.scheduler import Limits
from tau.core.fleet.tasks import Mistake, NamedTask, read_task, read_tasks
from tau.errors import UsageError
from tau.fleet.coordinator import Coordinator, FleetOptions, recover
from tau.fleet.engines import Engine
from tau.fleet.engines.choice import Place, make_engine
from tau.fleet.folder import FleetFolder
from tau.fleet.git import GitError, resolve
from tau.fleet.stopping import take_requests
from tau.fleet.workspace import remove_leftovers
from tau.records.base import Value, convert, encode, parse
from tau.records.fleet import Result, Task
from tau.store.ledger import Ledger, StoredTask
from tau.store.paths import agent_dir

Changed = Literal["refuse", "redo", "keep"]
MAX_SHOWN_MISTAKES = 20


class FleetConfig(Value):
    """How a fleet runs. `workers` are command lines; without any, `worker_count` local processes."""

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


class Fleet:
    """`async with Fleet("runs/today") as fleet: await fleet.add(tasks); async for result in fleet.results(): …`"""

    def __init__(self, out: str | os.PathLike[str], **config: Any) -> None:
        """Raises UsageError if another process works on the folder, or its ledger cannot be used."""
        self.config = FleetConfig(**config)
        self.folder = FleetFolder(Path(out).absolute())
        self._ledger: Ledger | None = None
        self._lock: Any = None
        self._results: asyncio.Queue[Result | None] = asyncio.Queue()
        self.coordinator: Coordinator | None = None

    async def __aenter__(self) -> Fleet:
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
        if self._ledger is None:
            raise UsageError("Open the fleet first: `async with Fleet(…) as fleet`.")
        return self._ledger

    async def add(self, tasks: Iterable[NamedTask | Mapping[str, Any]]) -> int:
        """Add tasks; those that are there already stay. Returns how many are new. Raises UsageError."""
        named = [task if isinstance(task, NamedTask) else _named(task) for task in tasks]
        known = {one.id: one.hash for one in self.ledger.tasks()}
        changed = [task for task in named if known.get(task.id, task.hash) != task.hash]
        if changed and self.config.changed == "refuse":
            raise UsageError(
                f"Task {changed[0].id} is not what it was when this fleet began"
                + (f", and {len(changed) - 1} more are not" if len(changed) > 1 else "")
                + ". Use --changed redo to do changed tasks again, or --changed keep to leave them."
            )
        kept = self.config.changed == "keep"
        self.folder.copy_tasks(
            task.task for task in named if task.id not in known or (known[task.id] != task.hash and not kept)
        )
        with self.ledger.transaction():
            if self.config.changed == "redo":
                for task in changed:
                    self.ledger.replace_task(task.id, task.hash, task.task)
            return self.ledger.add([(task.id, task.hash, task.task) for task in named], time.time())

    async def run(self, on_result: Callable[[Result], None] = lambda result: None) -> Mapping[str, int]:
        """Work until every task has a result. Returns the number of tasks by outcome; "" counts those without one."""
        self._write_about()
        take_requests(self.folder)  # of those who wanted to stop an earlier run
        tasks = [_stored(one) for one in self.ledger.open_tasks()]
        for result in recover(self.folder, self.ledger, tasks):
            on_result(result)
        self.folder.rewrite_results(self.ledger.results())
        tasks = [_stored(one) for one in self.ledger.open_tasks()]
        if not tasks:
            return self.ledger.counts()
        self._check_money(tasks)
        bases = await resolve_bases(tasks)
        config = self.config
        limits = Limits(config.concurrency, config.per_provider, config.per_repo, config.max_cost)
        options = FleetOptions(limits, config.sandbox, config.keep, config.drain_s)
        self.coordinator = Coordinator(
            self.folder, self.ledger, self._engine(), tasks, options, bases, on_result=on_result
        )
        await self.coordinator.run()
        return self.ledger.counts()

    async def results(self) -> AsyncIterator[Result]:
        """Run the fleet, and yield each final result when it is there."""

        async def run() -> None:
            try:
                await self.run(self._results.put_nowait)
            finally:
                self._results.put_nowait(None)

        running = asyncio.create_task(run())
        try:
            while (result := await self._results.get()) is not None:
                yield result
            await running
        finally:
            running.cancel()

    def _engine(self) -> Engine:
        config, root = self.config, self.folder.path / "local"
        self._share_models(root / "agent")
        if config.keep == "never":
            remove_leftovers(root)
        environment = {**os.environ, "TAU_TELEMETRY": "1"} if config.telemetry else None
        per_worker = min(config.per_worker, config.concurrency)
        count = config.worker_count or min(os.cpu_count() or 1, -(-config.concurrency // per_worker))
        logs = self.folder.path / "logs"
        place = Place(root, logs, per_worker, max(1, count), config.worker_memory, environment)
        return make_engine("command" if config.workers else config.engine, config.workers, place)

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

    def _write_about(self) -> None:
        about = {
            "tau": __version__,
            "python": platform.python_version(),
            "host": platform.node(),
            "started": time.time(),
            "config": json.loads(encode(self.config)),
        }
        self.folder.about.write_text(json.dumps(about, indent=2) + "\n")


async def run(tasks: Iterable[Mapping[str, Any]], out: str | os.PathLike[str], **config: Any) -> list[Result]:
    """Run tasks as a fleet and return their results, in the order of the tasks."""
    async with Fleet(out, **config) as fleet:
        await fleet.add(tasks)
        await fleet.run()
        return [convert(parse(record), Result) for record in fleet.ledger.results()]


def load_tasks(path: Path, defaults: Mapping[str, Any]) -> list[NamedTask]:
    """The tasks of a file. Raises UsageError with the line and field of the first mistakes."""
    try:
        with path.open("rb") as file:
            tasks, mistakes = read_tasks(_lines(file), defaults)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if mistakes:
        raise UsageError(_told(path, mistakes))
    if not tasks:
        raise UsageError(f"{path} has no tasks.")
    return tasks


def _lines(file: Any) -> Iterable[bytes]:
    """Lines, cut at 2 MiB: a longer one is refused anyway."""
    while line := file.readline(2 * 1024 * 1024):
        while not line.endswith(b"\n") and (more := file.readline(2 * 1024 * 1024)):
            if more.endswith(b"\n"):
                break
        yield line


def _told(path: Path, mistakes: Sequence[Mistake]) -> str:
    shown = [f"{path}:{mistake.line}: {mistake.text}" for mistake in mistakes[:MAX_SHOWN_MISTAKES]]
    more = len(mistakes) - len(shown)
    return "\n".join([*shown, *([f"… and {more} more"] if more else [])])


def _named(fields: Mapping[str, Any]) -> NamedTask:
    found = read_task(encode(dict(fields)), {})
    if isinstance(found, str):
        raise UsageError(f"A task is not valid: {found}")
    return found


def _stored(stored: StoredTask) -> NamedTask:
    return NamedTask(stored.id, stored.hash, convert(parse(stored.line), Task))


async def resolve_bases(tasks: Sequence[NamedTask]) -> dict[str, str]:
    """The commit of each task with a repository, resolved once. Raises UsageError."""
    known: dict[tuple[str, str | None], str] = {}
    bases: dict[str, str] = {}
    for task in tasks:
        repo, base = task.task.repo, task.task.base
        if repo is None or task.task.workspace in ("copy", "in-place"):
            continue
        if (repo, base) not in known:
            try:
                known[repo, base] = await resolve(repo, base)
            except (GitError, OSError) as error:
                raise UsageError(f"Task {task.id}: repo {repo}: {error}") from None
        bases[task.id] = known[repo, base]
    return bases
