"""Workers as processes with lines on their pipes: of the local engine, and of any command that starts one.

ssh build3 tau fleet worker          docker run -i --rm image tau fleet worker          srun -n1 tau fleet worker
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tau.fleet.engines import Heard, Lost
from tau.records.base import BadRecord, convert, encode, parse
from tau.records.fleet import Beat, Begun, Capacity, Done, FromWorker, Hello, Limited, Progress, ToWorker

LINE_LIMIT = 4 * 1024 * 1024
RESTARTS = 5  # of a worker, within RESTARTS_S
RESTARTS_S = 600.0
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 60.0
REPLACED = "the worker ended by itself"
END_S = 3.0  # for a worker to end after its input has ended
SHORT_LIFE_S = 10.0  # a worker that lived longer and ended with 0 was not a failure
AnyLine = Hello | Begun | Beat | Progress | Capacity | Limited | Done


def local_command(root: Path, slots: int, memory: int, labels: Sequence[str] = ()) -> list[str]:
    words = ["--root", str(root), "--slots", str(slots), "--memory", str(memory)]
    for label in labels:
        words += ["--label", label]
    return [sys.executable, "-m", "tau", "fleet", "worker", *words]


class PipeEngine:
    """`commands` are the command lines of the workers, one for each; `environment` is None for that of this process."""

    def __init__(
        self, commands: Sequence[Sequence[str] | str], logs: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._commands = [shlex.split(one) if isinstance(one, str) else list(one) for one in commands]
        self._logs = logs
        self._environment = environment
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._workers: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._left = 0
        self._dropped: set[str] = set()
        self._closing = False

    async def start(self) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._left = len(self._commands)
        self._tasks = [asyncio.create_task(self._keep(at, words)) for at, words in enumerate(self._commands, 1)]

    async def send(self, worker: str, line: ToWorker) -> None:
        process = self._workers.get(worker)
        if process is None or process.stdin is None:
            return
        with suppress(OSError):  # not drained: a worker that does not read must not stop the others
            process.stdin.write(encode(line) + b"\n")

    async def drop(self, worker: str) -> None:
        self._dropped.add(worker)
        if (process := self._workers.get(worker)) is not None and process.stdin is not None:
            process.stdin.close()

    async def heard(self) -> AsyncIterator[Heard]:
        while (one := await self._heard.get()) is not None:
            yield one

    async def _keep(self, number: int, words: list[str]) -> None:
        """Run a worker, and again when it ends, with growing delays."""
        loop, generation = asyncio.get_running_loop(), 0
        ends: list[float] = []
        while not self._closing:
            generation += 1
            name = f"w{number}" if generation == 1 else f"w{number}.{generation}"
            started = loop.time()
            reason = await self._run(name, words)
            if self._closing:
                break
            if name in self._dropped:
                self._heard.put_nowait((name, Lost("it cannot be used")))
                break
            if reason == REPLACED and loop.time() - started > SHORT_LIFE_S:
                self._heard.put_nowait((name, Lost(reason)))
                continue
            ends = [end for end in ends if loop.time() - end < RESTARTS_S] + [loop.time()]
            if len(ends) > RESTARTS:
                self._heard.put_nowait((name, Lost(f"{reason}; it ended {len(ends)} times and is not started again")))
                break
            self._heard.put_nowait((name, Lost(reason)))
            await asyncio.sleep(min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (len(ends) - 1)))
        self._left -= 1
        if not self._left:
            self._heard.put_nowait(None)

    async def _run(self, name: str, words: list[str]) -> str:
        """One process, to its end. Returns why it ended."""
        with (self._logs / f"{name}.log").open("ab") as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=errors,
                    limit=LINE_LIMIT,
                    start_new_session=True,
                    env=self._environment,
                )
            except OSError as error:
                return f"{words[0]} cannot be started: {error.strerror}"
        self._workers[name] = process
        try:
            await self._read(name, process)
        finally:
            self._workers.pop(name, None)
            if process.returncode is None and not self._closing:
                with suppress(ProcessLookupError):
                    process.kill()
        code = await process.wait()
        if code == 0:
            return REPLACED
        return f"the worker was killed by signal {-code}" if code < 0 else f"the worker ended with {code}"

    async def _read(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:  # longer than the limit
                return
            if not line.endswith(b"\n"):
                return
            try:
                told: FromWorker = convert(parse(line), AnyLine)
            except BadRecord:
                continue  # what a shell or a container says before the worker begins
            self._heard.put_nowait((name, told))

    async def close(self) -> None:
        """End the workers: their input ends, then they are killed."""
        await self._end(kill=True)

    async def leave(self) -> bool:
        """End their input and wait a little. False if workers go on by themselves, for a later coordinator."""
        return await self._end(kill=False)

    async def _end(self, *, kill: bool) -> bool:
        self._closing = True
        processes = list(self._workers.values())
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        for task in self._tasks:
            if not self._workers:
                task.cancel()
        if processes:
            await asyncio.wait([asyncio.ensure_future(process.wait()) for process in processes], timeout=END_S)
        for process in processes:
            if process.returncode is None and kill:
                with suppress(ProcessLookupError):
                    process.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return kill or all(process.returncode is not None for process in processes)


ENGINE = PipeEngine
