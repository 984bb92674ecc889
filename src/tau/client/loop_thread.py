"""An event loop in a thread of its own, in which synchronous façades run the coroutines of their peers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from tau.client.errors import AgentGone
from tau.errors import CommandError

T = TypeVar("T")
JOIN_TIMEOUT_S = 5.0  # for a thread that has no work left
CANCEL_TIMEOUT_S = 2.0  # for a coroutine that was cancelled
STOPPED = "The agent was stopped."
OWN_THREAD = (
    "This was called in the agent's own thread, which would wait for itself. Event handlers, hooks and async functions "
    "run in that thread: start another one for the call, or use the asynchronous library."
)


class LoopThread:
    """An event loop in a daemon thread. It ends with `close` or with the process.

    Its methods may be called by any other thread, and by a signal handler that interrupts one of them; hence the
    reentrant lock. A forked process has a copy of this object, but not the thread: there nothing can be run, and
    `close` does nothing.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._calls: set[Future[Any]] = set()  # that wait for a result
        self._closed = False
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run_loop, args=(started,), name="tau-client", daemon=True)
        self._thread.start()
        started.result()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for it.

        Any exception that interrupts the wait, such as Ctrl-C, cancels the coroutine, and is raised when the coroutine
        has ended, so that the next call does not meet it. A second Ctrl-C ends that wait too.
        """
        try:
            call = self._start(coroutine)
        except BaseException:
            coroutine.close()
            raise
        try:
            return call.result()
        except CancelledError:
            raise AgentGone(STOPPED) from None
        except BaseException:
            if call.cancel():
                self._wait_for_end(coroutine)
            raise
        finally:
            self._calls.discard(call)

    def _wait_for_end(self, cancelled: Coroutine[Any, Any, Any]) -> None:
        """Wait until the task of a coroutine that was cancelled has ended, at most CANCEL_TIMEOUT_S."""

        async def wait() -> None:
            tasks = [task for task in asyncio.all_tasks() if task.get_coro() is cancelled]
            if tasks:
                await asyncio.wait(tasks)

        waiting = wait()
        try:
            end = self._start(waiting)
        except AgentGone:
            waiting.close()
            return
        try:
            concurrent.futures.wait([end], CANCEL_TIMEOUT_S)  # the loop itself may be blocked
        finally:
            end.cancel()
            self._calls.discard(end)

    def require_other_thread(self) -> None:
        """Raise CommandError in the thread of the loop, where waiting for the loop would never end."""
        if threading.current_thread() is self._thread:
            raise CommandError(OWN_THREAD)

    def close(self) -> None:
        """End the loop. Calls that wait for a result end with AgentGone."""
        if self.is_forked:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._done.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_TIMEOUT_S)

    @property
    def is_forked(self) -> bool:
        """True in a process that was forked from the one with the thread."""
        return os.getpid() != self._pid

    def _start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        if self.is_forked:
            raise AgentGone(f"The agent belongs to process {self._pid}, from which this one was forked.")
        self.require_other_thread()
        with self._lock:
            if self._closed:
                raise AgentGone(STOPPED)
            try:
                call = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError:  # the loop has ended by itself, with a SystemExit
                raise AgentGone(STOPPED) from None
            self._calls.add(call)
        return call

    # In the thread.

    def _run_loop(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._wait_for_close(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)  # for example, no descriptor is left for the loop
        finally:
            with self._lock:
                self._closed = True
            for call in list(self._calls):
                call.cancel()

    async def _wait_for_close(self, started: Future[None]) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        started.set_result(None)
        await self._done.wait()
