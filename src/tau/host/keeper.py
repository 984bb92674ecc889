"""Background fsync of the session file, retried on failure; and closing the files of sessions that were left.

A session that was left stays open, and locked, while a command that was started in
it still runs: its result belongs there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from os.path import realpath
from pathlib import Path
from typing import Any

from tau.host.log import Log

log = logging.getLogger(__name__)
SOON = 0.5
AGAIN = 1.0


class Keeper:
    """`trouble` and `recovered` are told when writing fails, and when everything is on disk again."""

    def __init__(
        self,
        kept: Callable[[], Log],
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        trouble: Callable[[OSError], None],
        recovered: Callable[[Log], None],
    ) -> None:
        self._kept = kept
        self._in_thread = in_thread
        self._trouble = trouble
        self._recovered = recovered
        self._task: asyncio.Task[Any] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._held: list[Log] = []  # left, and still written to
        self._ending = asyncio.Event()

    def soon(self) -> None:
        """Something was written. Nothing is started after the end."""
        if self._task is None and not self._ending.is_set():
            self._task = asyncio.create_task(self._keep())

    async def end(self) -> None:
        """Everything for the last time, also of sessions that were left. Nothing is kept by itself afterwards."""
        self._ending.set()
        await self.now()
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for left in self._held:
            left.close()

    async def see_off(self, left: Log, *, in_use: bool = False) -> None:
        """Sync what was left for another session, and close it: now, or as soon as it can be done.

        If it is still in use, it is closed when it is released.
        """
        if in_use and not self._ending.is_set():
            self._held.append(left)
            with suppress(OSError):  # tried again when it is released
                await self._synced(left)
        elif not await self._seen_off(left):
            self._see_off_in_background(self._see_off_later(left))

    def release(self, left: Log) -> None:
        """Nobody writes to a session any more that was left."""
        if not any(held is left for held in self._held):
            return
        self._held = [held for held in self._held if held is not left]
        self._see_off_in_background(self._see_off_now(left))

    def take_back(self, path: Path) -> Log | None:
        """The session at `path` if it was left and is still open; the caller owns it from here on."""
        wanted = realpath(path)
        for held in self._held:
            if held.path is not None and realpath(held.path) == wanted:
                self._held = [other for other in self._held if other is not held]
                return held
        return None

    def _see_off_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._leaving.add(task := asyncio.create_task(work))
        task.add_done_callback(self._leaving.discard)

    async def _see_off_now(self, left: Log) -> None:
        if not await self._seen_off(left):
            await self._see_off_later(left)

    async def _see_off_later(self, left: Log) -> None:
        try:
            while not self._ending.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN):
                        await self._ending.wait()
                if await self._seen_off(left):
                    return
        finally:
            left.close()

    async def _seen_off(self, left: Log) -> bool:
        try:
            await self._synced(left)
        except OSError as error:
            log.warning("%s was left and is not synced yet: %s", left.path, error)
            return False
        if left.in_trouble:  # the client was told of that, and nobody else will tell it more
            left.in_trouble = False
            self._recovered(left)
        left.close()
        return True

    async def _synced(self, left: Log) -> None:
        left.flush()
        if (work := left.syncing()) is not None:
            await self._in_thread(work)

    async def _keep(self) -> None:
        pause = SOON
        try:
            while True:
                await asyncio.sleep(pause)
                done = await self.now()
                if done and not self._kept().unsynced:  # something may have been written meanwhile
                    return
                pause = SOON if done else AGAIN
        finally:
            self._task = None

    async def now(self) -> bool:
        """Write and sync; False if it has to be tried again."""
        kept = self._kept()
        try:
            kept.flush()
            if (work := kept.syncing()) is not None:
                await self._in_thread(work)
        except OSError as error:
            if not kept.in_trouble:
                kept.in_trouble = True
                self._trouble(error)
            return False
        if kept.waiting:  # something could not be written while we synced
            return False
        if kept.in_trouble:
            kept.in_trouble = False
            self._recovered(kept)
        return True
