"""`tau fleet worker`: takes orders on stdin and reports on stdout, one JSON line each; many attempts at once.

When its input ends the coordinator is gone: agents are stopped within two seconds, finished results stay on disk. With
`--orphans keep` they go on for ten minutes, and lines are files (mailbox.py) until a coordinator finds them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tau import __version__
from tau.errors import TauError
from tau.fleet.attempt import AttemptRun
from tau.fleet.attempt_log import copy_log_lines
from tau.fleet.capacity import CapacityWatch, is_disk_full
from tau.fleet.git import GitError
from tau.fleet.mailbox import Mailbox
from tau.fleet.variables import WorkerVariables
from tau.records.base import BadRecord, convert, encode, parse, replace
from tau.records.fleet import Acknowledge, AnyOrder, Beat, Begun, Done, FromWorker, Hello, Order, Result, Welcome
from tau.store.files import make_folder, replace_file

BEAT_S = 10.0
STOP_TIMEOUT_S = 2.0
ACK_TIMEOUT_S = 60.0
ORPHAN_S = 600.0  # without a coordinator
ORPHAN_BEAT_S = 1.0
logger = logging.getLogger(__name__)


class Worker:
    def __init__(self, root: Path, slots: int, labels: Mapping[str, Any], memory: int = 0) -> None:
        self._root = root
        self._variables = WorkerVariables(os.environ, None)
        self._unstored: Welcome | None = None  # its models are not in a file yet
        self._slots = slots
        self._labels = dict(labels)
        self._capacity = CapacityWatch(root, slots, memory)
        self._attempts: dict[str, AttemptTask] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._mailbox: Mailbox | None = None  # in place of the pipes

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Work until the input ends, or until it has used too much memory and is idle."""
        self._root.mkdir(parents=True, exist_ok=True)
        make_folder(self._root / "agent")
        self._say(Hello(__version__, self._slots, self._labels, os.getpid()))
        beating, reading = asyncio.create_task(self._beat()), asyncio.create_task(self._read(lines))
        try:
            done, _ = await asyncio.wait((beating, reading), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what ended it
            if reading in done:
                await self._go_on_alone()
        finally:
            beating.cancel()
            reading.cancel()
            await self._stop_all()

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            order = convert(parse(line), AnyOrder)
        except BadRecord as error:
            logger.warning("a line is not an order: %s", error)
            return
        if isinstance(order, Welcome):
            self._unstored = order
            self._variables = WorkerVariables(os.environ, parse(order.models.encode()) if order.models else None)
        elif isinstance(order, Order):
            if order.attempt not in self._attempts:  # a line that came twice
                self._attempts[order.attempt] = attempt = AttemptTask(order)
                attempt.task = asyncio.create_task(self._attempt(attempt))
        elif (known := self._attempts.get(order.attempt)) is None:
            return
        elif isinstance(order, Acknowledge):
            known.acknowledged.set()
        else:
            known.is_kept = known.is_kept or order.keep
            known.cancel()

    def _store_models(self) -> None:
        if (fleet := self._unstored) is not None:
            models = self._root / "agent" / fleet.run / "models.json"
            make_folder(models.parent)
            if fleet.models:
                replace_file(models, fleet.models.encode(), 0o600)
            else:
                models.unlink(missing_ok=True)
            self._unstored = None

    async def _attempt(self, attempt: AttemptTask) -> None:
        order = attempt.order
        run = AttemptRun(order, self._root, self._say, self._variables)
        try:
            self._say(Begun(order.attempt))
            attempt.done = await self._run(run, order)
            self._say(attempt.done)
            with suppress(TimeoutError):
                async with asyncio.timeout(ACK_TIMEOUT_S):
                    await attempt.acknowledged.wait()
        finally:
            self._attempts.pop(order.attempt, None)
            if attempt.may_remove_folder:
                self._removals.add(removal := asyncio.create_task(_removed(run)))
                removal.add_done_callback(self._removals.discard)

    async def _run(self, run: AttemptRun, order: Order) -> Done:
        try:
            self._store_models()
            result = await run.run()
        except Exception as error:
            logger.exception("an attempt broke off")
            full = is_disk_full(error)
            if full:
                self._capacity.disk_full()
                self._look_at_capacity()  # before the result: the next attempt must not come here
            return Done(order.attempt, _failed(run.result, error), True, full)
        return Done(order.attempt, result, run.transient, run.uncounted)

    async def _go_on_alone(self) -> None:
        """The coordinator is gone. With `--orphans keep`, work on until all is done, or for ten minutes."""
        folders = {one.order.orphans for one in self._attempts.values() if one.order.orphans is not None}
        if not folders:
            return
        loop = asyncio.get_running_loop()
        self._mailbox = mailbox = Mailbox(Path(folders.pop()))
        self._say(Hello(__version__, 0, self._labels, os.getpid()))
        for attempt in self._attempts.values():  # what the coordinator may not have read
            if attempt.done is not None:
                self._say(attempt.done)
        end = loop.time() + ORPHAN_S
        while self._attempts and loop.time() < end:
            self._say(Beat(list(self._attempts)))
            if mailbox.is_attended():
                end = loop.time() + ORPHAN_S
            for line in mailbox.read():
                self._take(line)
            tasks = [one.task for one in self._attempts.values() if one.task is not None]
            await asyncio.wait(tasks, timeout=ORPHAN_BEAT_S)
        if not self._attempts:
            mailbox.remove()

    async def _beat(self) -> None:
        """Until the worker has used too much memory and is idle."""
        while self._attempts or not self._capacity.is_worn:
            await asyncio.sleep(BEAT_S)
            if self._mailbox is None:
                self._say(Beat(list(self._attempts)))
            self._look_at_capacity()

    def _look_at_capacity(self) -> None:
        if (changed := self._capacity.look()) is not None:
            self._say(changed)

    async def _stop_all(self) -> None:
        attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.is_kept = attempt.is_kept or attempt.order.after_loss == "continue"
            attempt.cancel()
        tasks = [attempt.task for attempt in attempts if attempt.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        if self._removals:
            await asyncio.wait(self._removals, timeout=STOP_TIMEOUT_S)

    def _say(self, line: FromWorker) -> None:
        data = encode(line)
        if self._mailbox is not None:
            with suppress(OSError):
                self._mailbox.write(data)
            return
        with self._lock, suppress(BrokenPipeError):
            view = memoryview(data + b"\n")
            while view:
                view = view[os.write(1, view) :]


class AttemptTask:
    """An attempt that a worker works on, or whose result waits to be stored by the coordinator (`done`)."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.acknowledged = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.done: Done | None = None
        self.is_kept = False  # although it has no result: the next attempt continues it

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    @property
    def may_remove_folder(self) -> bool:
        if self.done is None and self.is_kept:
            return False
        good = self.done is not None and self.done.result.outcome in ("done", "solved")
        return self.order.keep == "never" or (self.order.keep == "failed" and good)


async def _removed(run: AttemptRun) -> None:
    with suppress(GitError, OSError):
        await run.work.remove()


def _failed(result: Result, error: Exception) -> Result:
    kind = "worker_disk" if is_disk_full(error) else type(error).__name__
    return replace(result, outcome="failed", error=f"{kind}: {error}")


async def serve(root: Path, slots: int, labels: Mapping[str, Any], memory: int) -> None:
    reader = asyncio.StreamReader(limit=4 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    await Worker(root, slots, labels, memory).serve(reader)


def main(root: str, slots: int, labels: Mapping[str, Any], memory: int = 0) -> int:
    copy_log_lines()
    with suppress(TauError):
        asyncio.run(serve(Path(root), slots, labels, memory))
    if os.environ.get("TAU_TELEMETRY"):
        from tau.runtime.telemetry.start import flush

        flush()
    return 0
