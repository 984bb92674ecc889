"""AbortSignal: stops work in progress without cancelling the task that owns it.

Cancelling a task ends everything in it. Abort does less: it drops one piece of work, and the owner reports the end.
A task that is registered with a signal is cancelled when the signal is aborted. Its owner sees `aborted` and reports
a normal end; a cancellation from outside finds `aborted` False and propagates unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tau.concurrency.tasks import cancelled_from_outside
from tau.errors import Aborted

T = TypeVar("T")


class AbortSignal:
    def __init__(self) -> None:
        self.aborted = False
        self.reason = ""  # shown to the reader of the truncated answer; empty if the user just wanted to stop
        self._tasks: set[asyncio.Future[Any]] = set()
        self._event = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []

    def abort(self, why: str = "") -> None:
        if not self.aborted:
            self.reason = why
        self.aborted = True
        self._event.set()
        for task in list(self._tasks):
            task.cancel()
        for listener in self._listeners:
            listener()

    def on_abort(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def cancel_on_abort(self, task: asyncio.Future[Any]) -> None:
        """Cancel `task` when the signal is aborted; immediately if it already is."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.aborted:
            task.cancel()

    async def wait(self, seconds: float) -> bool:
        """Sleep for `seconds`; return True if the signal was aborted before they were over."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return self.aborted  # the abort may coincide with the timeout
        return True


async def until_aborted(task: asyncio.Future[T], signal: AbortSignal | None, grace_s: float = 0) -> T:
    """Return the result of a task. Raises Aborted when the signal is aborted before the task has ended.

    When this ends early, by an abort or by a cancellation, it cancels the task and waits at most `grace_s` seconds
    until the task has stopped. A task that does not stop is left behind; its exception is not reported.
    """
    end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task.add_done_callback(lambda task: _ended(task, end))
    if signal is not None:
        signal.cancel_on_abort(end)
    try:
        await end
    except asyncio.CancelledError:
        if signal is None or not signal.aborted or cancelled_from_outside():
            raise
        raise Aborted from None
    finally:
        if not task.done():
            task.cancel()
            if grace_s:
                await asyncio.wait({task}, timeout=grace_s)
    return task.result()


def _ended(task: asyncio.Future[Any], end: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()  # retrieve it, so that asyncio does not log it when nothing waits for it
    if not end.done():
        end.set_result(None)


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run work that must not be left half done. A cancellation of the caller is raised when the work has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # mark it as retrieved
        raise cancelled
    return task.result()
