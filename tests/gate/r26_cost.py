"""R26: what safety costs: a command below the runner and in a sandbox, and a message that is made to last."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gate.figure import Figure
from support.sandbox_escapes import LEVELS, missing
from tau.runtime.machine.jobs import ProcessLauncher
from tau.runtime.machine.local import LocalMachine
from tau.runtime.sandbox.policy import Sandbox
from tau.store.journal import Journal

COMMANDS = 100
MESSAGES = 200
LINE = b'{"type":"message","id":"a","message":"' + b"x" * 1000 + b'"}\n'


def measure(scale: float, seed: int) -> list[Figure]:
    """The goals are those of a release. With a change they are reported; on a busy machine ten times as much may be."""
    slack = 1 if scale >= 10 else 10
    return [figure._replace(limit=figure.limit * slack) for figure in _measured(scale)]


def _measured(scale: float) -> list[Figure]:
    count = max(5, round(COMMANDS * scale))
    figures = [_commands(None, count)]
    for level in LEVELS:
        if not missing(level):
            figures += [_commands(level, count), _starts(level, max(3, count // 10))]
    return [*figures, _messages(max(10, round(MESSAGES * scale)))]


def _commands(level: str | None, count: int) -> Figure:
    """From the call until the command has ended, `true` in a shell."""

    async def run(folder: Path) -> list[float]:
        machine = LocalMachine(processes=_processes(folder, level))
        cwd = str(folder / "work")
        await machine.run("true", cwd=cwd, on_output=lambda stream, data: None)
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            await machine.run("true", cwd=cwd, on_output=lambda stream, data: None)
            times.append(time.perf_counter() - begun)
        await machine.release()
        return times

    times = _in_folder(lambda folder: asyncio.run(run(folder)))
    return Figure("R26", f"a command, {level or 'no sandbox'}, p50", count, _median(times), 30, "ms")


def _starts(level: str, count: int) -> Figure:
    """Once in the life of an agent; the limit is not one of the goals, only what a person does not notice."""

    def start(folder: Path) -> list[float]:
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            processes = _processes(folder, level)
            times.append(time.perf_counter() - begun)
            if (ended := processes.release()) is not None:
                ended.join()
        return times

    return Figure("R26", f"start of --sandbox {level}, p50", count, _median(_in_folder(start)), 500, "ms")


def _messages(count: int) -> Figure:
    """Written and synced, one by one; tau syncs several at a time, in the background."""

    def write(folder: Path) -> list[float]:
        journal = Journal(folder / "session.jsonl")
        journal.create([LINE])
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            journal.append(LINE)
            journal.sync()
            times.append(time.perf_counter() - begun)
        journal.close()
        return times

    return Figure("R26", "a message written and synced, p50", count, _median(_in_folder(write)), 5, "ms")


def _processes(folder: Path, level: str | None) -> ProcessLauncher:
    if level is None:
        return ProcessLauncher()
    return ProcessLauncher(sandbox=Sandbox(level, str(folder / "work"), folder / "agent"))


def _in_folder(work: Callable[[Path], list[float]]) -> list[float]:
    """Not in /tmp, which may be in memory, where to sync costs nothing."""
    with tempfile.TemporaryDirectory(prefix="tau-gate-", dir="/var/tmp" if os.path.isdir("/var/tmp") else None) as name:
        (Path(name) / "work").mkdir()
        return work(Path(name))


def _median(times: list[float]) -> float:
    return round(statistics.median(times) * 1000, 2)
