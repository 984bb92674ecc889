"""Tasks that keys start: kept until they end, and their errors shown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tau.errors import TauError

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """`show_error` gets the text of an error that a person can do something about."""

    def __init__(self, show_error: Callable[[str], None]) -> None:
        self._show_error = show_error
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, TauError):
            self._show_error(f"Error: {error}")
        elif error is not None:
            logger.error("an operation failed", exc_info=error)
