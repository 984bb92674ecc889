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
from tau.fleet.git import GitError
from tau.records.base import BadRecord, convert, encode, parse, replace
from tau.records.fleet import Acknowledge, Beat, Begun, Done, FromWorker, Hello, Order, Result, Stop

BEAT_S = 10.0
STOP_TIMEOUT_S = 2.0
ACK_TIMEOUT_S = 60.0
log = logging.getLogger(__name__)


class Worker:
    def __init__(self, root: Path, slots: int, labels: Mapping[str, Any]) -> None:
        self._root = root
        self._slots = slots
        self._labels = dict(labels)
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._acknowledged: dict[str, asyncio.Event] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Work until the input ends."""
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / "agent").mkdir(mode=0o700, exist_ok=True)
        self._say(Hello(__version__, self._slots, self._labels, os.getpid()))
        beating = asyncio.create_task(self._beat())
        try:
            while line := await lines.readline():
                self._take(line)
        finally:
            beating.cancel()
            await self._stop_all()

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
                result = run.result
                run.transient = True
                self._say(Done(order.attempt, _failed(result, error), True))
            else:
                self._say(Done(order.attempt, result, run.transient))
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
        while True:
            await asyncio.sleep(BEAT_S)
            self._say(Beat(list(self._attempts)))

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
    return replace(result, outcome="failed", error=f"{type(error).__name__}: {error}")


def _is_good(result: Result) -> bool:
    return result.outcome in ("done", "solved")


async def serve(root: Path, slots: int, labels: Mapping[str, Any]) -> None:
    reader = asyncio.StreamReader(limit=4 * 1024 * 1024)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    await Worker(root, slots, labels).serve(reader)


def main(root: str, slots: int, labels: Mapping[str, Any]) -> int:
    with suppress(TauError):
        asyncio.run(serve(Path(root), slots, labels))
    if os.environ.get("TAU_TELEMETRY"):
        from tau.runtime.telemetry.start import flush

        flush()
    return 0
