"""`tau fleet`: run a file of tasks, look at a fleet, export its results."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.cli.command_help import COMMAND_HELP
from tau.core.checks.exit_codes import ANSWERED, FAILED
from tau.errors import UsageError
from tau.fleet import worker
from tau.fleet.capacity import parse_bytes
from tau.fleet.coordinator import summary
from tau.fleet.export import FORMATS, export
from tau.fleet.fleet import Fleet, load_tasks
from tau.fleet.folder import FleetFolder
from tau.fleet.progress import Progress
from tau.fleet.repair import repair_command
from tau.fleet.stopping import stop_command
from tau.records.base import parse
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
    run.add_argument("--defaults", type=Path, help="a JSON file with fields for tasks that lack them")
    run.add_argument("--model", help="for tasks that name none")
    run.add_argument("--script", help="script of the scripted model, for tasks that name none")
    run.add_argument("--concurrency", type=_positive, default=8, help="agents at once (%(default)s)")
    run.add_argument("--concurrency-per-provider", type=_positive)
    run.add_argument("--concurrency-per-repo", type=_positive)
    run.add_argument("--max-cost", type=float, help="dollars, for the whole fleet")
    run.add_argument("--workers", type=_positive, default=0, help="local worker processes (one per processor)")
    run.add_argument("--per-worker", type=_positive, default=50, help="agents of one worker (%(default)s)")
    run.add_argument("--worker", action="append", default=[], metavar="COMMAND", help="a command that starts a worker")
    run.add_argument("--engine", default="local", help="local, dask[:ADDRESS|:FILE.yaml] or ray[:ADDRESS]")
    run.add_argument("--worker-memory", type=parse_bytes, default=2 * 1024**3, metavar="2G", help="then it is replaced")
    run.add_argument("--sandbox", choices=("workspace", "strict", "none"), default="workspace")
    run.add_argument("--keep", choices=("never", "failed", "always"), default="never", help="keep work trees")
    run.add_argument("--changed", choices=("refuse", "redo", "keep"), default="refuse", help="tasks that changed")
    run.add_argument("--first", type=_positive, metavar="N", help="only the first N tasks")
    run.add_argument("--drain", type=float, default=600.0, help="seconds for tasks to end after Ctrl+C")
    run.add_argument("--telemetry", action="store_true", help="send traces and metrics of the workers")
    status = commands.add_parser("status", help="what a fleet has done")
    status.set_defaults(handler=_status)
    status.add_argument("out", type=Path)
    show = commands.add_parser("show", help="the result of one task")
    show.set_defaults(handler=_show)
    show.add_argument("out", type=Path)
    show.add_argument("task")
    retry = commands.add_parser("retry", help="let tasks with an outcome wait again")
    retry.set_defaults(handler=_retry)
    retry.add_argument("out", type=Path)
    retry.add_argument("--outcome", action="append", required=True)
    stopping = commands.add_parser("stop", help="let a running fleet start nothing more, or give up a task")
    stopping.set_defaults(handler=stop_command)
    stopping.add_argument("out", type=Path)
    stopping.add_argument("task", nargs="?")
    repaired = commands.add_parser("repair", help="make a damaged ledger again from the results; deletes nothing")
    repaired.set_defaults(handler=repair_command)
    repaired.add_argument("out", type=Path)
    exported = commands.add_parser("export", help="write the results in a format")
    exported.set_defaults(handler=_export)
    exported.add_argument("out", type=Path)
    exported.add_argument("--format", choices=sorted(FORMATS), default="jsonl")
    exported.add_argument("-o", "--output", type=Path)
    work = commands.add_parser("worker", help="take orders on stdin (started by a fleet)")
    work.set_defaults(handler=lambda given: worker.main(given.root, given.slots, _labels(given.label), given.memory))
    work.add_argument("--root", default=str(Path.cwd() / ".tau-fleet"), help="folder for work trees")
    work.add_argument("--slots", type=_positive, default=50)
    work.add_argument("--memory", type=int, default=0, help="bytes after which it ends and is replaced")
    work.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _labels(given: Sequence[str]) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    for one in given:
        name, _, value = one.partition("=")
        labels[name] = {"true": True, "false": False}.get(value, value)
    return labels


def _defaults(given: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.defaults is not None:
        try:
            found = parse(given.defaults.read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(f"--defaults {given.defaults}: {error}") from None
    for name in ("model", "script"):
        if (value := getattr(given, name)) is not None:
            found[name] = value
    return found


def _run(given: argparse.Namespace) -> int:
    tasks = load_tasks(given.tasks, _defaults(given))[: given.first]
    return asyncio.run(_run_fleet(given, tasks))


async def _run_fleet(given: argparse.Namespace, tasks: Sequence[Any]) -> int:
    config = {
        "concurrency": given.concurrency,
        "per_provider": given.concurrency_per_provider,
        "per_repo": given.concurrency_per_repo,
        "max_cost": given.max_cost,
        "worker_count": given.workers,
        "per_worker": given.per_worker,
        "workers": given.worker,
        "worker_memory": given.worker_memory,
        "engine": given.engine,
        "sandbox": given.sandbox,
        "keep": given.keep,
        "changed": given.changed,
        "drain_s": given.drain,
        "telemetry": given.telemetry or _telemetry_is_enabled(),
    }
    async with Fleet(given.out, **config) as fleet:
        await fleet.add(tasks)
        progress = Progress(len(fleet.ledger.tasks()), fleet.ledger.counts(), sys.stderr)
        interrupts = _Interrupts(fleet, given.drain)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupts.received)
        running = asyncio.create_task(fleet.run(progress.on_result))
        interrupts.running = running
        try:
            counts = await running
        except asyncio.CancelledError:
            counts = fleet.ledger.counts()
        progress.end()
        out_of_money = fleet.coordinator is not None and fleet.coordinator.scheduler.out_of_money
        for problem in fleet.coordinator.problems[-5:] if fleet.coordinator is not None else ():
            say(problem)
        say(f"{given.out}: " + ", ".join(f"{count} {name}" for name, count in summary(counts).items() if count))
        if interrupts.count:
            return INTERRUPTED
        return STOPPED_BY_LIMIT if out_of_money else _code(counts)


def _telemetry_is_enabled() -> bool:
    """True if the user's settings enable it; the variable TAU_TELEMETRY decides first, and the workers inherit it."""
    return not os.environ.get("TAU_TELEMETRY") and SettingsFile(agent_dir() / "settings.json").read().telemetry.enabled


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


def _status(given: argparse.Namespace) -> int:
    ledger = FleetFolder(given.out).ledger(read_only=True)
    for name, count in summary(ledger.counts()).items():
        say(f"{name:10} {count:>8,}")
    say(f"{'cost':10} {ledger.spent():>8.2f}")
    return ANSWERED


def _show(given: argparse.Namespace) -> int:
    folder = FleetFolder(given.out)
    record = folder.ledger(read_only=True).result(given.task)
    if record is None:
        raise UsageError(f"{given.task} has no result in {given.out}.")
    emit(json.dumps(json.loads(record), indent=2, ensure_ascii=False))
    return ANSWERED


def _retry(given: argparse.Namespace) -> int:
    folder = FleetFolder(given.out)
    with folder.locked():
        count = folder.ledger().forget_results(given.outcome)
    say(f"{count} tasks wait again: tau fleet run … --out {given.out}")
    return ANSWERED


def _export(given: argparse.Namespace) -> int:
    export(FleetFolder(given.out), given.format, given.output)
    return ANSWERED
