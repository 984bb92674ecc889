"""Questions about the current asyncio task."""

from __future__ import annotations

import asyncio


def cancelled_from_outside() -> bool:
    """True if the current task itself was cancelled; otherwise something it awaited was, which is only a failure.

    For `except CancelledError`: a task that was cancelled itself must raise it again.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
