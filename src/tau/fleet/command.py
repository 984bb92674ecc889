"""`tau fleet`: run a file of tasks, look at a fleet, export its results."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tau.cli.command_help import COMMAND_HELP
from tau.core.checks.exit_codes import ANSWERED, FAILED
from tau.core.fleet.tasks import NamedTask
from tau.errors import UsageError
from tau.fleet import display, worker
from tau.fleet.capacity import parse_bytes
from tau.fleet.coordinator import summary
from tau.fleet.dry_run import dry_run
from tau.fleet.engines import engine_class
from tau.fleet.engines.choice import check_dask
from tau.fleet.fleet import Fleet
from tau.fleet.progress import Progress
from tau.fleet.queries import add_queries
from tau.fleet.repair import repair_command
from tau.fleet.run_options import add_run_options, fleet_config, positive, selection, task_defaults
from tau.fleet.snapshot import take_snapshot
from tau.fleet.stopping import stop_command
from tau.fleet.task_files import load_tasks
from tau.runtime.terminal import emit, say
from tau.store.paths import agent_dir
from tau.store.settings import SettingsFile

STOPPED_BY_LIMIT = 3
INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        emit(COMMAND_HELP["fleet"])
        return ANSWERED
    given = _parser().parse_args(argv)
    handler: Any = given.handler
    code: int = handler(given)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tau fleet", description="Run many tasks, each by an agent of its own.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="run a file of tasks, or go on with it")
    run.set_defaults(handler=_run)
    run.add_argument("tasks", type=Path, help="JSON lines, one task each")
    run.add_argument("--out", type=Path, required=True, help="the folder of the fleet; made, or gone on with")
    add_run_options(run)
    run.add_argument("--workers", type=positive, default=0, help="local worker processes (one per processor)")
    run.add_argument("--per-worker", type=positive, default=50, help="agents of one worker (%(default)s)")
    run.add_argument("--worker", action="append", default=[], metavar="COMMAND", help="a command that starts a worker")
    run.add_argument("--engine", default="local", help="local or dask[:ADDRESS|:FILE.yaml]")
    run.add_argument("--worker-memory", type=parse_bytes, default=2 * 1024**3, metavar="2G", help="then it is replaced")
    run.add_argument("--telemetry", action="store_true", help="send traces and metrics of the workers")
    add_queries(commands)
    stopping = commands.add_parser("stop", help="let a running fleet start nothing more, or give up a task")
    stopping.set_defaults(handler=stop_command)
    stopping.add_argument("out", type=Path)
    stopping.add_argument("task", nargs="?")
    repaired = commands.add_parser("repair", help="make a damaged ledger again from the results; deletes nothing")
    repaired.set_defaults(handler=repair_command)
    repaired.add_argument("out", type=Path)
    made = commands.add_parser("credentials", help="write a certificate for a dask cluster on other machines")
    made.set_defaults(handler=_write_credentials)
    made.add_argument("folder", type=Path)
    work = commands.add_parser("worker", help="take orders on stdin (started by a fleet)")
    work.set_defaults(handler=lambda given: worker.main(given.root, given.slots, _labels(given.label), given.memory))
    work.add_argument("--root", default=str(Path.cwd() / ".tau-fleet"), help="folder for work trees")
    work.add_argument("--slots", type=positive, default=50)
    work.add_argument("--memory", type=int, default=0, help="bytes after which it ends and is replaced")
    work.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    return parser


def _write_credentials(given: argparse.Namespace) -> int:
    check_dask()
    folder = given.folder.absolute()
    engine_class("dask").write_credentials(folder)
    say(f"Made {folder}. It has a key: who can read it can run programs on the cluster as you. On every machine:")
    for command in ("dask scheduler", "dask worker tls://HOST:8786", "tau fleet run ... --engine dask:tls://HOST:8786"):
        say(f"    DASK_CONFIG={folder} {command}")
    return ANSWERED


def _labels(given: Sequence[str]) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    for one in given:
        name, _, value = one.partition("=")
        labels[name] = {"true": True, "false": False}.get(value, value)
    return labels


def _run(given: argparse.Namespace) -> int:
    chosen = selection(given)
    tasks = chosen.apply(load_tasks(given.tasks, task_defaults(given)))
    if not tasks:
        raise UsageError(f"No task of {given.tasks} matches --only {' '.join(given.only)}.")
    if given.shuffle and given.seed is None:
        say(f"--seed {chosen.seed}")
    if given.dry_run:
        return asyncio.run(dry_run(tasks, _config(given), given.out))
    return asyncio.run(_run_fleet(given, tasks))


def _config(given: argparse.Namespace) -> dict[str, Any]:
    return {
        **fleet_config(given),
        "worker_count": given.workers,
        "per_worker": given.per_worker,
        "workers": given.worker,
        "worker_memory": given.worker_memory,
        "engine": given.engine,
        "telemetry": given.telemetry or _telemetry_is_enabled(),
    }


async def _run_fleet(given: argparse.Namespace, tasks: Sequence[NamedTask]) -> int:
    async with Fleet(given.out, **_config(given)) as fleet:
        ids = await fleet.add_tasks(tasks)
        interrupts = _Interrupts(fleet, given.drain)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupts.received)
        interrupts.running = asyncio.create_task(fleet.run(only=ids))
        await _show_progress(fleet, interrupts.running, watch=given.watch)
        counts = fleet.counts(ids)
        _say_end(fleet, ids)
        say(f"{given.out}: " + ", ".join(f"{count} {name}" for name, count in summary(counts).items() if count))
        if counts.get("failed"):
            say(f"`tau fleet retry {given.out} --outcome failed` lets failed tasks run again.")
        if interrupts.count:
            return INTERRUPTED
        out_of_money = fleet.coordinator is not None and fleet.coordinator.scheduler.out_of_money
        return STOPPED_BY_LIMIT if out_of_money else _code(counts)


def _telemetry_is_enabled() -> bool:
    """True if the user's settings enable it; the variable TAU_TELEMETRY decides first, and the workers inherit it."""
    return not os.environ.get("TAU_TELEMETRY") and SettingsFile(agent_dir() / "settings.json").read().telemetry.enabled


async def _show_progress(fleet: Fleet, running: asyncio.Task[Any], *, watch: bool) -> None:
    """Until the fleet has ended, or was stopped."""
    started = time.time()
    with fleet.folder.view() as view:
        progress = Progress(lambda: take_snapshot(view, time.time(), started), sys.stderr, watch=watch)
        showing = asyncio.create_task(progress.run())
        try:
            with suppress(asyncio.CancelledError):
                await running
        finally:
            showing.cancel()
            progress.end()


def _say_end(fleet: Fleet, ids: Sequence[str]) -> None:
    """What happened, for people."""
    wanted = set(ids)
    for line in display.results_table([one for one in fleet.stored_results() if one.id in wanted]):
        say(line)
    for problem in fleet.coordinator.problems[-5:] if fleet.coordinator is not None else ():
        say(problem)


class _Interrupts:
    """Ctrl+C once: nothing more is started. Twice: what is under way is stopped."""

    def __init__(self, fleet: Fleet, drain_s: float) -> None:
        self.count = 0
        self.running: asyncio.Task[Any] | None = None
        self._fleet = fleet
        self._drain_s = drain_s

    def received(self) -> None:
        self.count += 1
        if self.count == 1 and self._fleet.coordinator is not None:
            say("No more tasks are started; those under way may end. Ctrl+C again stops them.")
            self._fleet.coordinator.drain()
            asyncio.get_running_loop().call_later(self._drain_s, self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        if self.running is not None:
            self.running.cancel()


def _code(counts: Mapping[str, int]) -> int:
    return ANSWERED if set(name for name, count in counts.items() if count) <= {"done", "solved"} else FAILED
