"""`tau fleet repair`: a new ledger from what is left: the copies of the tasks, the results, and rows of the old ledger.

Nothing is deleted: the old ledger is renamed. A result counts if it was final (results.jsonl, the old ledger), else
that of the last attempt of its task, unless it failed: a failure may have been one that is tried again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tau.core.checks.exit_codes import ANSWERED
from tau.core.fleet.tasks import read_task
from tau.errors import UsageError
from tau.fleet.folder import FleetFolder, read_result
from tau.records.base import BadRecord, convert, parse
from tau.records.fleet import Result, Task
from tau.runtime.terminal import say
from tau.store.ledger import Ledger
from tau.store.ledger_repair import Salvaged, is_sound, salvage

REPAIRED = "repaired"


class Repaired(NamedTuple):
    tasks: int
    results: int
    old: Path | None
    """where the old ledger is now; None if there was none"""


class Known(NamedTuple):
    hash: str
    task: Task


def repair(folder: FleetFolder, *, always: bool = False) -> Repaired | None:
    """None if the ledger is sound and nothing was done. Raises UsageError if another process works on the folder."""
    path = folder.path / "ledger.db"
    if not (os.path.exists(path) or os.path.exists(folder.task_copies)):
        raise UsageError(f"{folder.path} is not the folder of a fleet.")
    with folder.locked():
        if os.path.exists(path) and is_sound(path) and not always:
            return None
        left = salvage(path) if os.path.exists(path) else Salvaged([], [], [])
        tasks = _tasks(folder, left)
        results = _results(folder, left, tasks)
        attempts = _attempts(folder, left)
        old = _set_aside(path)
        ledger = folder.ledger()
        try:
            _fill(ledger, tasks, attempts, results)
            folder.rewrite_results(ledger.results())
        finally:
            ledger.close()
    return Repaired(len(tasks), len(results), old)


def repair_command(given: argparse.Namespace) -> int:
    found = repair(FleetFolder(given.out.absolute()))
    if found is None:
        say(f"{given.out}: the ledger is sound; nothing was changed.")
    else:
        say(f"{given.out}: {found.tasks} tasks, {found.results} results")
        if found.old is not None:
            say(f"The old ledger is {found.old}")
    return ANSWERED


def _fill(
    ledger: Ledger, tasks: dict[str, Known], attempts: dict[tuple[str, int], float], results: dict[str, Result]
) -> None:
    now = time.time()
    with ledger.transaction():
        ledger.add([(id, known.hash, known.task) for id, known in tasks.items()], now)
        ledger.claim([(task, number, REPAIRED) for task, number in sorted(attempts)], now)
        for (task, number), cost in attempts.items():
            ledger.charge(task, number, cost)
        ledger.end_open_attempts(REPAIRED, now)
        ledger.finish(list(results.values()), now)
        ledger.note(REPAIRED, f"{len(tasks)} tasks, {len(results)} results", now)


def _set_aside(path: Path) -> Path | None:
    """Rename the ledger and the files that SQLite keeps beside it."""
    if not os.path.exists(path):
        return None
    number = 1
    while os.path.exists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(aside.with_name(aside.name + ending))
    path.rename(aside)
    return aside


def _tasks(folder: FleetFolder, left: Salvaged) -> dict[str, Known]:
    """By id, in their order; the newest line of a task counts."""
    found: dict[str, Known] = {}
    for line in _lines(folder.task_copies):
        task = read_task(line, {})
        if not isinstance(task, str):
            found[task.id] = Known(task.hash, task.task)
    for id, hash, text in left.tasks:
        with suppress(BadRecord):
            found[id] = Known(hash, convert(parse(text.encode(errors="replace")), Task))
    return found


def _results(folder: FleetFolder, left: Salvaged, tasks: dict[str, Known]) -> dict[str, Result]:
    """The final results of the tasks that are known."""
    found: dict[str, Result] = {}
    for data in (*(text.encode(errors="replace") for text in left.results), *_lines(folder.results)):
        with suppress(BadRecord):
            result = convert(parse(data), Result)
            found.setdefault(result.id, result)
    for id in tasks:
        if id not in found and (result := _last_result(folder, id)) is not None:
            found[id] = result
    return {id: result for id, result in found.items() if id in tasks and result.task_hash == tasks[id].hash}


def _last_result(folder: FleetFolder, task: str) -> Result | None:
    numbers = [number for number, name in _numbers(folder.tasks / task) if not name.endswith(".partial")]
    result = read_result(folder.attempt(task, max(numbers)) / "result.json") if numbers else None
    return result if result is not None and result.outcome not in ("failed", "stopped") else None


def _attempts(folder: FleetFolder, left: Salvaged) -> dict[tuple[str, int], float]:
    """All numbers that were used, so that none is used again, with what they cost."""
    found = {(task, number): cost for task, number, cost in left.attempts}
    for task in sorted(entry.name for entry in folder.tasks.iterdir()) if os.path.exists(folder.tasks) else ():
        for number, _ in _numbers(folder.tasks / task):
            result = read_result(folder.attempt(task, number) / "result.json")
            cost = result.cost if result is not None else 0.0
            found[task, number] = max(cost, found.get((task, number), 0.0))
    return found


def _numbers(folder: Path) -> Iterator[tuple[int, str]]:
    with suppress(OSError):
        for entry in folder.iterdir():
            number = entry.name.removesuffix(".partial")
            if number.isdigit():
                yield int(number), entry.name


def _lines(path: Path) -> list[bytes]:
    """Complete lines only: the last may be torn."""
    try:
        return [line for line in path.read_bytes().split(b"\n")[:-1] if line.strip()]
    except OSError:
        return []
