"""`tau fleet run --dry-run`: check files, repositories, commits, models, keys and the sandbox; start no task."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tau import __version__
from tau.core.checks.exit_codes import ANSWERED, USAGE
from tau.core.fleet.tasks import NamedTask, is_url
from tau.errors import UsageError
from tau.fleet.checks import check_money, resolve_bases
from tau.fleet.engines import Engine, Lost
from tau.fleet.fleet import Fleet
from tau.fleet.folder import FleetFolder
from tau.fleet.git import GitError, git
from tau.fleet.task_files import missing_files
from tau.records.base import encode, replace
from tau.records.fleet import Acknowledge, Done, Hello, Order, Task, Welcome
from tau.runtime.terminal import say

MAX_SHOWN = 20
MAX_SETUPS = 50  # different models, sandboxes, …: more are not tried one by one
WORKER_S = 60.0  # for workers to start, and for each of them to answer
SETTLE_S = 3.0  # for further workers of an engine that does not say how many it has
COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")


async def dry_run(tasks: Sequence[NamedTask], config: Mapping[str, Any], out: Path) -> int:
    """Exit code 0 if the tasks could begin, else 2."""
    problems = [*missing_files(tasks), *_compared(tasks, out, config), *await _repositories(tasks)]
    with tempfile.TemporaryDirectory(prefix="tau-fleet-", ignore_cleanup_errors=True) as scratch:
        is_local = not config["workers"] and config.get("engine", "local") == "local"
        # Local workers are all alike: one answers for all.
        fleet = Fleet(scratch, **{**config, "worker_count": 1} if is_local else config)
        problems += _money(tasks, fleet.config.max_cost)
        problems += await _workers(fleet, tasks, 1 if is_local else None)
    for problem in problems[:MAX_SHOWN]:
        say(problem)
    if len(problems) > MAX_SHOWN:
        say(f"… and {len(problems) - MAX_SHOWN:,} more")
    repos = len({task.task.repo for task in tasks if task.task.repo is not None})
    say(f"{len(tasks):,} tasks, {repos:,} repositories, {len(problems):,} problems; nothing was started.")
    return USAGE if problems else ANSWERED


def _compared(tasks: Sequence[NamedTask], out: Path, config: Mapping[str, Any]) -> list[str]:
    """Tasks that are not what they were in a fleet that exists."""
    if not os.path.exists(out / "ledger.db"):
        return []
    with closing(FleetFolder(out.absolute()).ledger(read_only=True)) as ledger:
        begun, ended = ledger.numbers(), ledger.outcomes()
        known = {one.id: one.hash for one in ledger.tasks()}
    say(f"{out} has {len(known):,} tasks, {len(ended):,} with a result.")
    if config["changed"] != "refuse":
        return []
    changed = [task for task in tasks if known.get(task.id, task.hash) != task.hash]
    return [f"Task {task.id} has changed" for task in changed if task.id in begun]


def _money(tasks: Sequence[NamedTask], max_cost: float | None) -> list[str]:
    try:
        check_money(tasks, max_cost)
    except UsageError as error:
        return [str(error)]
    return []


async def _repositories(tasks: Sequence[NamedTask]) -> list[str]:
    """Repositories that cannot be read, and commits that are not in them. Nothing is fetched."""
    problems, seen = [], set()
    for task in tasks:
        repo, base = task.task.repo, task.task.base
        if repo is None or (repo, base) in seen:
            continue
        seen.add((repo, base))
        try:
            if not is_url(repo):
                await resolve_bases([task], Path())
            elif base is None or COMMIT.match(base):
                await git(".", "ls-remote", "--quiet", "--", repo, "HEAD")
            else:
                await git(".", "ls-remote", "--quiet", "--exit-code", "--", repo, base)
        except UsageError as error:
            problems.append(str(error))
        except GitError as error:
            problems.append(f"Task {task.id}: repo {repo}, base {base or 'HEAD'}: {error}")
    return problems


# Workers.


def _setups(tasks: Sequence[NamedTask]) -> list[tuple[str, Task]]:
    """One task for everything that differs in what a worker needs for it."""
    found: dict[bytes, tuple[str, Task]] = {}
    for task in tasks:
        bare = replace(task.task, id="", prompt="-", prompt_file=None, attachments=[], labels={}, repo=None, base=None)
        bare = replace(bare, workspace=None, setup=None, check=None, output="none", output_schema=None, priority=0)
        bare = replace(bare, needs={})
        found.setdefault(encode(bare), (task.id, bare))
    return list(found.values())[:MAX_SETUPS]


async def _workers(fleet: Fleet, tasks: Sequence[NamedTask], expected: int | None) -> list[str]:
    """What workers lack, each asked for every setup."""
    setups = _setups(tasks)
    engine, run, models = fleet._engine(), fleet.folder.id(), fleet._models()
    await engine.start()
    problems: list[str] = []
    asked: dict[str, str] = {}  # attempt to task
    count = 0
    try:
        async for worker, line in _heard(engine, expected, asked):
            match line:
                case Hello(version) if version != __version__:
                    problems.append(f"{worker} is tau {version}, this is {__version__}: they must be equal")
                case Hello():
                    count += 1
                    await engine.send(worker, Welcome(run, models))
                    for number, (id, task) in enumerate(setups, 1):
                        order = _order(fleet, worker, run, number, task)
                        asked[order.attempt] = id
                        await engine.send(worker, order)
                case Done(attempt, result):
                    id = asked.pop(attempt, "")
                    await engine.send(worker, Acknowledge(attempt))
                    if result.error is not None:
                        problems.append(f"Task {id} on {worker}: {result.error}")
                case Lost(reason):
                    problems.append(f"{worker}: {reason}")
                    for attempt in [one for one in asked if one.startswith(f"{worker}#")]:
                        del asked[attempt]
    finally:
        await engine.close()
    if not count:
        problems.append(f"no worker started within {WORKER_S:.0f} s")
    return problems


def _order(fleet: Fleet, worker: str, run: str, number: int, task: Task) -> Order:
    folder = str(fleet.folder.attempt(worker, number))
    named = replace(task, id=f"dry-run-{worker}")
    sandbox = fleet.config.sandbox
    return Order(f"{worker}#{number}", number, named, "", folder, sandbox=sandbox, run=run, dry_run=True)


async def _heard(engine: Engine, expected: int | None, asked: Mapping[str, str]) -> AsyncIterator[tuple[str, Any]]:
    """Lines of workers, until all that are expected have answered everything, or time is over."""
    lines = engine.heard()
    loop = asyncio.get_running_loop()
    end = loop.time() + WORKER_S
    known: set[str] = set()
    while True:
        complete = len(known) >= (expected or 1) and not asked
        if complete and expected is not None:
            return
        try:
            async with asyncio.timeout(SETTLE_S if complete else max(0.0, end - loop.time())):
                worker, line = await anext(lines)
        except (TimeoutError, StopAsyncIteration):
            return
        known.add(worker)
        yield worker, line
