"""Blocking work in dedicated daemon threads, one per call.

asyncio's thread pool is not used: it is small, and asyncio resolves host names in it. Work that blocks there on an
unresponsive network or disk would starve all other work in the pool, even after its caller has given up.

A thread cannot be stopped from outside. A caller that is cancelled while it waits abandons the thread; the thread
finishes its work, the result is discarded, and the thread ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tau.concurrency.tasks import as_exception

T = TypeVar("T")


class NoThread(OSError):
    """The system does not let this process start another thread."""

    def __init__(self) -> None:
        super().__init__(errno.EAGAIN, os.strerror(errno.EAGAIN))


def run_in_thread(work: Callable[[], T], name: str, *, may_exit: bool = False) -> asyncio.Future[T]:
    """Run `work` in a new thread; return a future of the running loop for its result.

    Raises NoThread if there can be no new thread.

    With `may_exit`, a SystemExit or KeyboardInterrupt is raised in the event loop and ends the process. Otherwise it
    is an error of the work, as in any thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            settle = partial(_succeed, done, context.run(work))
        except BaseException as error:
            settle = partial(_fail, done, error, may_exit)
        with suppress(RuntimeError):  # the loop is closed, so nothing awaits the result
            loop.call_soon_threadsafe(settle)

    try:
        threading.Thread(target=run, name=name, daemon=True).start()
    except RuntimeError:
        raise NoThread from None
    return done


def _succeed(done: asyncio.Future[T], value: T) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: asyncio.Future[T], error: BaseException, may_exit: bool) -> None:
    if may_exit and isinstance(error, SystemExit | KeyboardInterrupt):
        raise error
    if done.done():
        return
    done.set_exception(as_exception(error))
