"""`tau fleet stop`: let a running fleet start nothing more, or give up one of its tasks.

A request is an empty file in the folder `stop` of the fleet, with the name of the task; the coordinator looks for them
every second. Without a coordinator, the ledger is changed directly.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress

from tau.core.checks.exit_codes import ANSWERED
from tau.errors import UsageError
from tau.fleet.folder import FleetFolder
from tau.records.base import convert, parse
from tau.records.fleet import Result, Task
from tau.runtime.terminal import say

WHOLE_FLEET = ".all"  # no id of a task begins with a dot


def stop(folder: FleetFolder, task: str | None) -> str:
    """Ask the fleet to stop, or one task. Returns what happens now. Raises UsageError."""
    ledger = folder.ledger(read_only=True)
    try:
        stored = {one.id: one for one in ledger.tasks()}
        has_result = task is not None and ledger.result(task) is not None
    finally:
        ledger.close()
    if task is not None and task not in stored:
        raise UsageError(f"{folder.path} has no task {task}.")
    if has_result:
        raise UsageError(f"{task} has its result already.")
    try:
        lock = folder.locked()
        lock.__enter__()
    except UsageError:
        _request(folder, task or WHOLE_FLEET)
        return (
            "No more tasks are started; those under way may end."
            if task is None
            else f"{task} is stopped within a few seconds."
        )
    try:
        if task is None:
            raise UsageError(f"Nothing works on {folder.path}.")
        _stop_in_ledger(folder, task, stored[task].hash, convert(parse(stored[task].line), Task))
        return f"{task} will not be run."
    finally:
        lock.__exit__(None, None, None)


def stop_command(given: argparse.Namespace) -> int:
    say(stop(FleetFolder(given.out.absolute()), given.task))
    return ANSWERED


def _request(folder: FleetFolder, name: str) -> None:
    folder.stop_requests.mkdir(mode=0o700, exist_ok=True)
    os.close(os.open(folder.stop_requests / name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _stop_in_ledger(folder: FleetFolder, id: str, hash: str, task: Task) -> None:
    ledger = folder.ledger()
    try:
        result = Result(
            id, ledger.numbers().get(id, 0), "stopped", hash, error="stopped by the user", labels=task.labels
        )
        ledger.finish([result], time.time())
        folder.rewrite_results(ledger.results())
    finally:
        ledger.close()


def take_requests(folder: FleetFolder) -> list[str]:
    """The names of the tasks that are to be stopped, each once; WHOLE_FLEET for the fleet."""
    try:
        names = sorted(os.listdir(folder.stop_requests))
    except OSError:
        return []
    for name in names:
        with suppress(OSError):
            (folder.stop_requests / name).unlink()
    return names
