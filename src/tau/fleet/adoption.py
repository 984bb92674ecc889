"""Workers that outlived their coordinator (`--orphans keep`): found through their mailboxes, and heard like others."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tau import __version__
from tau.core.fleet.attempt_ids import attempt_parts
from tau.fleet.engines import Engine, Heard
from tau.fleet.engines.pipes import AnyLine
from tau.fleet.mailbox import LineFile, append, living
from tau.records.base import BadRecord, convert, encode, parse
from tau.records.fleet import Beat, FromWorker, Hello, ToWorker

FIND_S = 1.0  # for workers to notice that their coordinator is gone
LOOK_S = 0.25
PREFIX = "orphan "  # of the names of such workers
Orphans = Mapping[str, Mapping[str, int]]
"""Names of workers, and the attempts that they work on: task and number."""


def find_orphans(folder: Path) -> Orphans:
    """The workers that beat in a folder and have the version of this coordinator."""
    found: dict[str, dict[str, int]] = {}
    for name in living(folder):
        lines = list(_lines(LineFile(folder / f"{name}.out")))
        hello = next((line for line in lines if isinstance(line, Hello)), None)
        beat = next((line for line in reversed(lines) if isinstance(line, Beat)), None)
        if hello is not None and hello.version == __version__ and beat is not None:
            found[PREFIX + name] = dict(map(attempt_parts, beat.attempts))
    return found


async def wait_for_orphans(folder: Path, attempts: Mapping[str, int]) -> Orphans:
    """The workers of attempts that were under way; waits a moment for those that have not noticed yet."""
    loop = asyncio.get_running_loop()
    end = loop.time() + FIND_S
    while True:
        found = find_orphans(folder)
        known = {attempt for tasks in found.values() for attempt in tasks.items()}
        if loop.time() >= end or known >= attempts.items():
            return found
        await asyncio.sleep(LOOK_S / 4)


def _lines(file: LineFile) -> Iterator[FromWorker]:
    for line in file.read():
        with suppress(BadRecord):
            told: FromWorker = convert(parse(line), AnyLine)
            yield told


class AdoptingEngine:
    """An engine whose workers are those of another one, and the orphans of earlier coordinators."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._files: dict[str, LineFile] = {}
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()

    async def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        await self._engine.start()

    async def send(self, worker: str, line: ToWorker) -> None:
        if not worker.startswith(PREFIX):
            await self._engine.send(worker, line)
            return
        with suppress(OSError):
            append(self._folder / f"{worker.removeprefix(PREFIX)}.in", encode(line))

    async def heard(self) -> AsyncIterator[Heard]:
        tasks = [asyncio.create_task(self._pass_on()), asyncio.create_task(self._look())]
        try:
            while (one := await self._heard.get()) is not None:
                yield one
            await tasks[0]
        finally:
            for task in tasks:
                task.cancel()

    async def _pass_on(self) -> None:
        try:
            async for one in self._engine.heard():
                self._heard.put_nowait(one)
        finally:
            self._heard.put_nowait(None)

    async def _look(self) -> None:
        """Read the mailboxes, and show their workers that there is a coordinator."""
        while True:
            for path in sorted(self._folder.glob("*.out")):
                file = self._files.setdefault(path.stem, LineFile(path))
                lines = [line for line in _lines(file) if not isinstance(line, Hello)]
                if lines:
                    append(self._folder / f"{path.stem}.in", b"")
                for line in lines:
                    self._heard.put_nowait((PREFIX + path.stem, line))
            await asyncio.sleep(LOOK_S)

    async def drop(self, worker: str) -> None:
        await self._engine.drop(worker)

    async def close(self) -> None:
        await self._engine.close()
        if not living(self._folder):
            with suppress(OSError):
                shutil.rmtree(self._folder)


def orphan_folder(out: Path) -> Path:
    return out / "orphans"


def adopting_engine(engine: Engine, out: Path, *, keep: bool) -> Engine:
    """`keep`: orphans are heard. Those of an earlier run are heard in any case: they are told to stop."""
    folder = orphan_folder(out)
    return AdoptingEngine(engine, folder) if keep or os.path.isdir(folder) else engine
