"""A worker on another machine, beside a process of a dask cluster: started there, with lines to and from it.

This runs in the process of the cluster. Agents never run in that process: `tau fleet worker` is a child with pipes,
which is started again when it ends, and which stops its agents when this process is gone.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tau.fleet.engines import Lost
from tau.fleet.engines.pipes import AnyLine, PipeEngine, local_command
from tau.records.base import convert, encode, parse
from tau.records.fleet import AnyOrder, FromWorker


class HostedWorker:
    """`publish` gets the name of the worker and a line; `b""` means that the worker is lost, for the reason given."""

    def __init__(
        self, name: str, root: Path, slots: int, memory: int, publish: Callable[[str, bytes, str], None]
    ) -> None:
        self._name = name
        self._root = root
        self._command = (slots, memory)
        self._publish = publish
        self._engine: PipeEngine | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self, labels: Sequence[str] = ()) -> None:
        slots, memory = self._command
        self._engine = PipeEngine([local_command(self._root, slots, memory, labels)], self._root / "logs")
        await self._engine.start()
        self._listening = asyncio.create_task(self._listen(self._engine))

    async def _listen(self, engine: PipeEngine) -> None:
        async for name, line in engine.heard():
            if isinstance(line, Lost):
                self._publish(self._full_name(name), b"", line.reason)
            else:
                self._publish(self._full_name(name), encode(line), "")

    def _full_name(self, name: str) -> str:
        """`w1` is the first process, `w1.2` the second."""
        return self._name + name.removeprefix("w1")

    async def feed(self, worker: str, lines: Sequence[bytes]) -> None:
        """Lines for the worker of that name; those for a process that has ended are dropped."""
        if self._engine is not None:
            name = "w1" + worker.removeprefix(self._name)
            for line in lines:
                await self._engine.send(name, convert(parse(line), AnyOrder))

    async def drop(self) -> None:
        if self._engine is not None:
            await self._engine.drop("w1")

    async def close(self, *, kill: bool = True) -> None:
        """End the worker, and remove its folder. Without `kill` it may go on by itself, for a later coordinator."""
        if self._listening is not None:
            self._listening.cancel()
        if self._engine is not None:
            engine, self._engine = self._engine, None
            if kill:
                await engine.close()
            elif not await engine.leave():
                return
        with suppress(OSError):
            await asyncio.to_thread(shutil.rmtree, self._root, True)


def decode_line(data: bytes, reason: str) -> FromWorker | Lost:
    """What `publish` carried."""
    if not data:
        return Lost(reason)
    line: FromWorker = convert(parse(data), AnyLine)
    return line
