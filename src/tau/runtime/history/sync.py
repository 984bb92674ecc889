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

from tau.concurrency.threads import NoThread
from tau.runtime.history.session_log import SessionLog

logger = logging.getLogger(__name__)
SYNC_DELAY_S = 0.5
RETRY_DELAY_S = 1.0


class BackgroundSync:
    """Calls `on_failure` when writing fails, and `on_recovery` when everything is on disk again."""

    def __init__(
        self,
        log: Callable[[], SessionLog],
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
        on_failure: Callable[[OSError], None],
        on_recovery: Callable[[SessionLog], None],
    ) -> None:
        self._log = log
        self._in_thread = in_thread
        self._on_failure = on_failure
        self._on_recovery = on_recovery
        self._task: asyncio.Task[Any] | None = None
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self._closing: list[SessionLog] = []  # sessions that were left and whose files are still open
        self._in_use: list[SessionLog] = []  # those of `_closing` that are still written to
        self._stopping = asyncio.Event()
        self._syncing = asyncio.Lock()  # held while the current session is synced

    def schedule(self) -> None:
        """Start the background sync, unless it runs already. Does nothing after `close`.

        Whatever adds an entry calls this through `Session.schedule_sync`; the log does not.
        """
        if self._task is None and not self._stopping.is_set():
            self._task = asyncio.create_task(self._sync_loop())

    async def close(self) -> None:
        """Sync everything a last time, including sessions that were left. There is no background sync afterwards."""
        self._stopping.set()
        await self.sync_now()
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for log in [*self._closing]:
            self._close(log)

    async def sync_and_close(self, log: SessionLog, *, in_use: bool = False) -> None:
        """Sync and close a session that was left for another one: now, or as soon as its writes succeed.

        A session that is still in use is closed when it is released.
        """
        self._closing.append(log)
        if in_use and not self._stopping.is_set():
            self._in_use.append(log)
            with suppress(OSError):  # retried when it is released
                await self._synced(log)
        elif not await self._try_sync_and_close(log):
            self._in_background(self._sync_and_close_later(log))

    def release(self, log: SessionLog) -> None:
        """Sync and close, in the background, a session that was left and is no longer written to."""
        if _among(self._in_use, log):
            self._in_use = _without(self._in_use, log)
            self._in_background(self._sync_and_close_now(log))

    def take_back(self, path: Path) -> SessionLog | None:
        """Return the session at `path` if it was left and is still open. It is not closed: the caller owns it."""
        wanted = realpath(path)
        for log in self._closing:
            if log.path is not None and realpath(log.path) == wanted:
                self._closing, self._in_use = _without(self._closing, log), _without(self._in_use, log)
                return log
        return None

    def _close(self, log: SessionLog) -> None:
        if _among(self._closing, log):  # otherwise it was taken back
            self._closing = _without(self._closing, log)
            log.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._closing_tasks.add(task := asyncio.create_task(work))
        task.add_done_callback(self._closing_tasks.discard)

    async def _sync_and_close_now(self, log: SessionLog) -> None:
        if not await self._try_sync_and_close(log):
            await self._sync_and_close_later(log)

    async def _sync_and_close_later(self, log: SessionLog) -> None:
        try:
            while not self._stopping.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_DELAY_S):
                        await self._stopping.wait()
                if not _among(self._closing, log) or await self._try_sync_and_close(log):
                    return
        finally:
            self._close(log)

    async def _try_sync_and_close(self, log: SessionLog) -> bool:
        try:
            await self._synced(log)
        except OSError as error:
            logger.warning("%s was left and is not synced yet: %s", log.path, error)
            return False
        if log.file.write_failing:  # the client knows of the failure, and nothing else will report the recovery
            log.file.write_failing = False
            self._on_recovery(log)
        self._close(log)
        return True

    async def _synced(self, log: SessionLog) -> None:
        log.file.flush()
        if (work := log.file.syncing()) is not None:
            try:
                await self._in_thread(work)
            except NoThread:  # the work has a descriptor to close
                work()

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
        """Write and sync, after a sync that is under way; False if it must be retried."""
        async with self._syncing:
            return await self._sync()

    async def _sync(self) -> bool:
        log = self._log()
        try:
            await self._synced(log)
        except OSError as error:
            if not log.file.write_failing:
                log.file.write_failing = True
                self._on_failure(error)
            return False
        if log.file.unwritten:  # an entry could not be written during the sync
            return False
        if log.file.write_failing:
            log.file.write_failing = False
            self._on_recovery(log)
        return True


def _among(logs: list[SessionLog], log: SessionLog) -> bool:
    return any(one is log for one in logs)


def _without(logs: list[SessionLog], log: SessionLog) -> list[SessionLog]:
    return [one for one in logs if one is not log]
