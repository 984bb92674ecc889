"""Threads for plain functions of the caller, one thread per call, because they may block."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

from tau.concurrency.tasks import await_foreign
from tau.concurrency.threads import run_in_thread


def is_async(function: Callable[..., Any]) -> bool:
    """True for coroutine functions, and for objects whose `__call__` is one."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


class Threads:
    def __init__(self) -> None:
        self._running: set[asyncio.Future[Any]] = set()

    async def call(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Run a plain function in a thread, or await a coroutine function in the event loop."""
        if is_async(function):
            return await await_foreign(function(*args, **named))
        future = run_in_thread(partial(function, *args, **named), f"tau {getattr(function, '__name__', 'function')}")
        self._running.add(future)
        future.add_done_callback(self._on_done)
        value = await asyncio.shield(future)
        return await await_foreign(value) if isawaitable(value) else value

    async def join(self, seconds: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def _on_done(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        if not future.cancelled():
            future.exception()  # mark it as retrieved, even if the caller was cancelled
