"""Plain functions of the caller, each in a thread of its own: they may block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from tau.host.threads import begun
from tau.library.readers import is_async


class Threads:
    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def call(self, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """The result of a plain function, or of a coroutine function, which is awaited here."""
        if is_async(function):
            return await function(*args, **named)
        done = begun(partial(function, *args, **named), f"tau {getattr(function, '__name__', 'function')}")
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
