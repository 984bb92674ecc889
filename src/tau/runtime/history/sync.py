"""Background fsync of the session file, retried on failure; also closes the files of sessions that were left.

A session that was left stays open, and locked, while a command that was started in it still runs: the result of the
command belongs to that session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from os.path import realpath
from pathlib import Path
from typing import Any

from tau.runtime.history.session_log import SessionLog

log = logging.getLogger(__name__)
SYNC_DELAY_S = 0.5
RETRY_DELAY_S = 1.0


class BackgroundSync:
    """Calls `trouble` when writing fails, and `recovered` when everything is on disk again."""

    def __init__(
        self,
        kept: Callable[[], SessionLog],
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        trouble: Callable[[OSError], None],
        recovered: Callable[[SessionLog], None],
    ) -> None:
        self._log = kept
        self._in_thread = in_thread
        self._trouble = trouble
        self._recovered = recovered
        self._task: asyncio.Task[Any] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._left: list[SessionLog] = []  # sessions that were left and whose files are still open
        self._in_use: list[SessionLog] = []  # those of `_left` that are still written to
        self._ending = asyncio.Event()

    def schedule(self) -> None:
        """Start the background sync after a write, unless it runs already. Does nothing after `close`."""
        if self._task is None and not self._ending.is_set():
            self._task = asyncio.create_task(self._sync_loop())

    async def close(self) -> None:
        """Sync everything a last time, including sessions that were left. There is no background sync afterwards."""
        self._ending.set()
        await self.sync_now()
        if self._leaving:
            await asyncio.wait(self._leaving)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for left in [*self._left]:
            self._close(left)

    async def sync_and_close(self, left: SessionLog, *, in_use: bool = False) -> None:
        """Sync and close a session that was left for another one: now, or as soon as its writes succeed.

        A session that is still in use is closed when it is released.
        """
        self._left.append(left)
        if in_use and not self._ending.is_set():
            self._in_use.append(left)
            with suppress(OSError):  # retried when it is released
                await self._synced(left)
        elif not await self._try_sync_and_close(left):
            self._in_background(self._sync_and_close_later(left))

    def release(self, left: SessionLog) -> None:
        """Sync and close, in the background, a session that was left and is no longer written to."""
        if _among(self._in_use, left):
            self._in_use = _without(self._in_use, left)
            self._in_background(self._see_off_now(left))

    def take_back(self, path: Path) -> SessionLog | None:
        """Return the session at `path` if it was left and is still open. It is not closed: the caller owns it."""
        wanted = realpath(path)
        for left in self._left:
            if left.path is not None and realpath(left.path) == wanted:
                self._left, self._in_use = _without(self._left, left), _without(self._in_use, left)
                return left
        return None

    def _close(self, left: SessionLog) -> None:
        if _among(self._left, left):  # otherwise it was taken back
            self._left = _without(self._left, left)
            left.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._leaving.add(task := asyncio.create_task(work))
        task.add_done_callback(self._leaving.discard)

    async def _see_off_now(self, left: SessionLog) -> None:
        if not await self._try_sync_and_close(left):
            await self._sync_and_close_later(left)

    async def _sync_and_close_later(self, left: SessionLog) -> None:
        try:
            while not self._ending.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_DELAY_S):
                        await self._ending.wait()
                if not _among(self._left, left) or await self._try_sync_and_close(left):
                    return
        finally:
            self._close(left)

    async def _try_sync_and_close(self, left: SessionLog) -> bool:
        try:
            await self._synced(left)
        except OSError as error:
            log.warning("%s was left and is not synced yet: %s", left.path, error)
            return False
        if left.file.write_failing:  # the client knows of the failure, and nothing else will report the recovery
            left.file.write_failing = False
            self._recovered(left)
        self._close(left)
        return True

    async def _synced(self, left: SessionLog) -> None:
        left.file.flush()
        if (work := left.file.syncing()) is not None:
            await self._in_thread(work)

    async def _sync_loop(self) -> None:
        pause = SYNC_DELAY_S
        try:
            while True:
                await asyncio.sleep(pause)
                done = await self.sync_now()
                if done and not self._log().file.unsynced:  # there may have been a write meanwhile
                    return
                pause = SYNC_DELAY_S if done else RETRY_DELAY_S
        finally:
            self._task = None

    async def sync_now(self) -> bool:
        """Write and sync; False if it must be retried."""
        kept = self._log()
        try:
            kept.file.flush()
            if (work := kept.file.syncing()) is not None:
                await self._in_thread(work)
        except OSError as error:
            if not kept.file.write_failing:
                kept.file.write_failing = True
                self._trouble(error)
            return False
        if kept.file.unwritten:  # an entry could not be written during the sync
            return False
        if kept.file.write_failing:
            kept.file.write_failing = False
            self._recovered(kept)
        return True


def _among(logs: list[SessionLog], log: SessionLog) -> bool:
    return any(one is log for one in logs)


def _without(logs: list[SessionLog], log: SessionLog) -> list[SessionLog]:
    return [one for one in logs if one is not log]
