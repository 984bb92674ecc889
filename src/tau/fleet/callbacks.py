"""Functions of a Python program that take part in a fleet. They run in the process of the coordinator."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from tau.concurrency.tasks import failure_of
from tau.fleet.engines import Engine, Heard
from tau.fleet.folder import FleetFolder
from tau.records.base import encode, replace
from tau.records.fleet import Done, Result, Task, ToWorker
from tau.store.files import replace_file

Prepare = Callable[[Task], Task]
"""Called with each task before it is added; returns the task to add."""
Check = Callable[[Result], bool | Awaitable[bool]]
"""Called with each result whose outcome is `done`; says whether the task is solved."""
OnResult = Callable[[Result], None]


async def checked(result: Result, check: Check) -> Result:
    """The result with the outcome that `check` gives it, if no command has given it one."""
    if result.outcome != "done":
        return result
    try:
        if inspect.iscoroutinefunction(check):
            solved = await check(result)
        else:
            solved = await asyncio.to_thread(check, result)
            solved = await solved if inspect.isawaitable(solved) else solved
    except BaseException as error:
        cause = failure_of(error)
        return replace(result, outcome="failed", error=f"the check function failed: {type(cause).__name__}: {cause}")
    return replace(result, outcome="solved" if solved else "unsolved")


async def check_unstored(folder: FleetFolder, attempts: Mapping[str, int], check: Check | None) -> None:
    """At a start: check results that workers have written and an earlier coordinator did not store."""
    for task, number in attempts.items() if check is not None else ():
        result = folder.stored_result(task, number)
        if check is not None and result is not None and result.outcome == "done":
            path = folder.attempt(task, number) / "result.json"
            replace_file(path, encode(await checked(result, check)) + b"\n")


def checking_engine(engine: Engine, check: Check | None) -> Engine:
    return engine if check is None else CheckingEngine(engine, check)


class CheckingEngine:
    """An engine whose results have been checked when the coordinator hears of them."""

    def __init__(self, engine: Engine, check: Check) -> None:
        self._engine = engine
        self._check = check
        self._heard: asyncio.Queue[Heard | None] = asyncio.Queue()
        self._checks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await self._engine.start()

    async def send(self, worker: str, line: ToWorker) -> None:
        await self._engine.send(worker, line)

    async def heard(self) -> AsyncIterator[Heard]:
        reading = asyncio.create_task(self._read())
        try:
            while (one := await self._heard.get()) is not None:
                yield one
            await reading
        finally:
            for task in (reading, *self._checks):
                task.cancel()

    async def _read(self) -> None:
        """Checks run beside each other, and everything else passes them."""
        try:
            async for worker, line in self._engine.heard():
                if isinstance(line, Done) and line.result.outcome == "done":
                    self._checks.add(task := asyncio.create_task(self._pass_checked(worker, line)))
                    task.add_done_callback(self._checks.discard)
                else:
                    self._heard.put_nowait((worker, line))
            if self._checks:
                await asyncio.wait(self._checks)
        finally:
            self._heard.put_nowait(None)

    async def _pass_checked(self, worker: str, line: Done) -> None:
        self._heard.put_nowait((worker, replace(line, result=await checked(line.result, self._check))))

    async def drop(self, worker: str) -> None:
        await self._engine.drop(worker)

    async def close(self) -> None:
        await self._engine.close()
