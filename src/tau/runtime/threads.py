"""Blocking work, in threads of its own.

Not in those of asyncio: they are few, and names of hosts are looked up in them. What waits there for a network or a
disk that does not answer would keep all others from their work, also when nobody waits for it any more.

A thread cannot be stopped from outside. Whoever is cancelled while it waits for one leaves it; what it still does is
then nobody's business, and it is gone when that is done.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


def run_in_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """What comes of it, for the running loop."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            tell = partial(_succeed, done, context.run(work))
        except BaseException as error:
            tell = partial(_fail, done, error)
        with suppress(RuntimeError):  # the loop is closed, so nobody asks any more
            loop.call_soon_threadsafe(tell)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done


def _succeed(done: asyncio.Future[T], value: T) -> None:
    if not done.done():
        done.set_result(value)


def _fail(done: asyncio.Future[T], error: BaseException) -> None:
    if done.done():
        return
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        done.set_exception(error)
    else:  # no future can hold a StopIteration, and what ends a program does not end it from a thread
        done.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
