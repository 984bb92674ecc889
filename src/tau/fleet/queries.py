"""`tau fleet status`, `show`, `retry`, `export` and `report`: what is asked of a fleet's folder."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from tau.core.checks.exit_codes import ANSWERED
from tau.core.fleet.estimate import duration
from tau.errors import UsageError
from tau.fleet import display
from tau.fleet.export import FORMATS, export
from tau.fleet.folder import FleetFolder
from tau.fleet.progress import REDRAW_S, Progress
from tau.fleet.report.writer import write_report
from tau.fleet.selection import Selection
from tau.fleet.snapshot import Snapshot, take_snapshot
from tau.records.fleet import Outcome
from tau.runtime.terminal import emit, say

OUTCOMES = get_args(Outcome)
ALIASES = {"error": "failed"}


def add_queries(commands: Any) -> None:
    """Add the subcommands to the parser of `tau fleet`."""

    def add(name: str, help: str, handler: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(name, help=help)
        parser.set_defaults(handler=handler)
        parser.add_argument("out", type=Path, help="the folder of the fleet")
        return parser

    status = add("status", "what a fleet has done", _status)
    status.add_argument("--watch", action="store_true", help="until it has ended")
    status.add_argument("--json", action="store_true", help="as an object, for programs")
    show = add("show", "a task, its attempts and its result", _show)
    show.add_argument("task")
    show.add_argument("--json", action="store_true", help="only the result, as an object")
    retry = add("retry", "let tasks wait again", _retry)
    retry.add_argument("--outcome", action="append", default=[], choices=[*OUTCOMES, *ALIASES], metavar="OUTCOME")
    retry.add_argument("--only", action="append", default=[], metavar="GLOB", help="tasks whose id matches")
    exported = add("export", "write the results in a format", _export)
    exported.add_argument("--format", choices=sorted(FORMATS), default="jsonl")
    exported.add_argument("-o", "--output", type=Path, metavar="FILE")
    report = add("report", "write the results as one HTML page", _report)
    report.add_argument("-o", "--output", type=Path, metavar="FILE", help="report.html in the folder of the fleet")


def snapshot_of(folder: FleetFolder) -> Snapshot:
    """What the fleet is doing now, seen from another process. Raises UsageError."""
    with folder.view() as view:
        return take_snapshot(view, time.time(), folder.started(), alive=folder.coordinator() is not None)


def _status(given: argparse.Namespace) -> int:
    folder = FleetFolder(given.out)
    if given.watch:
        return asyncio.run(_watch(folder))
    snapshot, pid = snapshot_of(folder), folder.coordinator()
    if given.json:
        emit(json.dumps(_fields(snapshot, pid)))
        return ANSWERED
    state = f"process {pid} works on it" if pid is not None else "nothing works on it"
    say(f"{given.out}: {state}")
    for line in display.table(snapshot):
        say(line)
    return ANSWERED


def _fields(snapshot: Snapshot, pid: int | None) -> dict[str, Any]:
    return {
        "coordinator": pid,
        "total": snapshot.total,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "outcomes": dict(snapshot.outcomes),
        "tokens": snapshot.tokens,
        "cost": snapshot.cost,
        "tasksPerHour": snapshot.per_second * 3600,
        "secondsLeft": snapshot.left and snapshot.left.middle,
    }


async def _watch(folder: FleetFolder) -> int:
    """Show the table until no coordinator works on the folder."""
    progress = Progress(lambda: snapshot_of(folder), sys.stdout, watch=True)
    progress.show()
    while folder.coordinator() is not None:
        await asyncio.sleep(REDRAW_S)
        progress.show()
    return ANSWERED


def _show(given: argparse.Namespace) -> int:
    folder = FleetFolder(given.out)
    with folder.view() as view:
        record, attempts, known = view.result(given.task), view.attempts(given.task), view.has_task(given.task)
    if given.json and record is not None:
        emit(json.dumps(json.loads(record), indent=2, ensure_ascii=False))
        return ANSWERED
    if not known:
        raise UsageError(f"{given.out} has no task {given.task}.")
    if record is None and given.json:
        raise UsageError(f"{given.task} has no result in {given.out}.")
    for attempt in attempts:
        took = duration((attempt.ended or time.time()) - attempt.claimed)
        say(f"attempt {attempt.number}: {attempt.how or 'under way'}, {took}, {attempt.worker}")
    if record is None:
        say(f"{given.task}: {'running' if attempts and attempts[-1].ended is None else 'waiting'}")
        return ANSWERED
    _say_result(json.loads(record), folder)
    return ANSWERED


def _say_result(result: dict[str, Any], folder: FleetFolder) -> None:
    say(f"{result['id']}: {result['outcome']}{display.reason(result.get('error'))}")
    say(f"{result['model']}, {result['turns']} turns, {result['toolCalls']} tool calls, ", end="")
    say(f"{display.dollars(result['cost'])}, {duration(result['seconds']['run'])}")
    if patch := result.get("patch"):
        say(f"{patch['files']} files changed, {patch['added']} lines added, {patch['removed']} removed")
    if (check := result.get("check")) is not None:
        say(f"check ended with {check['code']}")
    if result["text"]:
        say(result["text"])
    say(str(folder.attempt(result["id"], result["attempt"])))


def _retry(given: argparse.Namespace) -> int:
    if not given.outcome and not given.only:
        raise UsageError("Name the tasks with --outcome or --only.")
    folder = FleetFolder(given.out)
    with folder.locked(), closing(folder.ledger()) as ledger:
        count = ledger.forget_results(_chosen(ledger.outcomes(), given.outcome, Selection(given.only)))
        folder.rewrite_results(ledger.results())
    say(f"{count} tasks wait again: tau fleet run … --out {given.out}")
    return ANSWERED


def _chosen(outcomes: Any, wanted: Sequence[str], selection: Selection) -> list[str]:
    names = {ALIASES.get(name, name) for name in wanted} or set(OUTCOMES)
    return [id for id, outcome in outcomes.items() if outcome in names and selection.matches(id)]


def _export(given: argparse.Namespace) -> int:
    export(FleetFolder(given.out), given.format, given.output)
    return ANSWERED


def _report(given: argparse.Namespace) -> int:
    say(str(write_report(FleetFolder(given.out), given.output)))
    return ANSWERED
