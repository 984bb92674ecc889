"""Plain functions of the caller, each in a thread of its own: they may block.

A thread cannot be stopped from outside. Whoever is cancelled while it waits for
one leaves it; what the function still does is then nobody's business.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Any

from tau.library.readers import is_async


class Threads:
    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """The result of a plain function, or of a coroutine function, which is awaited here."""
        if is_async(function):
            return await function(*args, **named)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(function, *args, **named)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed, so nobody asks any more
                loop.call_soon_threadsafe(_settle, done, value, error)

        name = f"tau {getattr(function, '__name__', 'function')}"
        threading.Thread(target=work, name=name, daemon=True).start()
        self._running.add(done)
        done.add_done_callback(self._forget)
        value = await asyncio.shield(done)
        return await value if isawaitable(value) else value

    async def join(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def _forget(self, done: asyncio.Future[Any]) -> None:
        self._running.discard(done)
        if not done.cancelled():
            done.exception()  # heard, also when nobody waits for it any more


def _settle(done: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(value)
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        done.set_exception(error)
    else:  # no future can hold a StopIteration, and what ends a program does not end it from a thread
        done.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
