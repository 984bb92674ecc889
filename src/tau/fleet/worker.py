"""`tau fleet worker`: takes orders on stdin and reports on stdout, one JSON line each; many attempts at once.

When its input ends the coordinator is gone: agents are stopped within two seconds, finished results stay on disk.
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
from tau.fleet.capacity import CapacityWatch, is_disk_full
from tau.fleet.git import GitError
from tau.records.base import BadRecord, convert, encode, parse, replace
from tau.records.fleet import Acknowledge, Beat, Begun, Done, FromWorker, Hello, Order, Result, Stop

BEAT_S = 10.0
STOP_TIMEOUT_S = 2.0
ACK_TIMEOUT_S = 60.0
log = logging.getLogger(__name__)


class Worker:
    def __init__(self, root: Path, slots: int, labels: Mapping[str, Any], memory: int = 0) -> None:
        self._root = root
        self._slots = slots
        self._labels = dict(labels)
        self._capacity = CapacityWatch(root, slots, memory)
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._acknowledged: dict[str, asyncio.Event] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Work until the input ends, or until it has used too much memory and is idle."""
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / "agent").mkdir(mode=0o700, exist_ok=True)
        self._say(Hello(__version__, self._slots, self._labels, os.getpid()))
        beating, reading = asyncio.create_task(self._beat()), asyncio.create_task(self._read(lines))
        try:
            done, _ = await asyncio.wait((beating, reading), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what ended it
        finally:
            beating.cancel()
            reading.cancel()
            await self._stop_all()

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            order = convert(parse(line), Order | Stop | Acknowledge)
        except BadRecord as error:
            log.warning("a line is not an order: %s", error)
            return
        if isinstance(order, Order):
            self._attempts[order.attempt] = asyncio.create_task(self._attempt(order))
        elif isinstance(order, Stop):
            if (task := self._attempts.get(order.attempt)) is not None:
                task.cancel()
        elif (waiting := self._acknowledged.get(order.attempt)) is not None:
            waiting.set()

    async def _attempt(self, order: Order) -> None:
        self._acknowledged[order.attempt] = acknowledged = asyncio.Event()
        run = AttemptRun(order, self._root, self._say, os.environ)
        result: Result | None = None
        try:
            self._say(Begun(order.attempt))
            try:
                result = await run.run()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                log.exception("an attempt broke off")
                result = _failed(run.result, error)
                if is_disk_full(error):
                    self._capacity.disk_full()
                    self._look_at_capacity()  # before the result: the next attempt must not come here
                self._say(Done(order.attempt, result, True, is_disk_full(error)))
            else:
                self._say(Done(order.attempt, result, run.transient, run.uncounted))
            with suppress(TimeoutError):
                async with asyncio.timeout(ACK_TIMEOUT_S):
                    await acknowledged.wait()
        finally:
            self._attempts.pop(order.attempt, None)
            self._acknowledged.pop(order.attempt, None)
            if order.keep == "never" or (order.keep == "failed" and result is not None and _is_good(result)):
                self._removals.add(removal := asyncio.create_task(_removed(run)))
                removal.add_done_callback(self._removals.discard)

    async def _beat(self) -> None:
        """Until the worker has used too much memory and is idle."""
        while self._attempts or not self._capacity.is_worn:
            await asyncio.sleep(BEAT_S)
            self._say(Beat(list(self._attempts)))
            self._look_at_capacity()

    def _look_at_capacity(self) -> None:
        if (changed := self._capacity.look()) is not None:
            self._say(changed)

    async def _stop_all(self) -> None:
        tasks = list(self._attempts.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        if self._removals:
            await asyncio.wait(self._removals, timeout=STOP_TIMEOUT_S)

    def _say(self, line: FromWorker) -> None:
        data = encode(line) + b"\n"
        with self._lock, suppress(BrokenPipeError):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]


async def _removed(run: AttemptRun) -> None:
    with suppress(GitError, OSError):
        await run.work.remove()


def _failed(result: Result, error: Exception) -> Result:
    kind = "worker_disk" if is_disk_full(error) else type(error).__name__
    return replace(result, outcome="failed", error=f"{kind}: {error}")


def _is_good(result: Result) -> bool:
    return result.outcome in ("done", "solved")


async def serve(root: Path, slots: int, labels: Mapping[str, Any], memory: int) -> None:
    reader = asyncio.StreamReader(limit=4 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    await Worker(root, slots, labels, memory).serve(reader)


def main(root: str, slots: int, labels: Mapping[str, Any], memory: int = 0) -> int:
    with suppress(TauError):
        asyncio.run(serve(Path(root), slots, labels, memory))
    if os.environ.get("TAU_TELEMETRY"):
        from tau.runtime.telemetry.start import flush

        flush()
    return 0
