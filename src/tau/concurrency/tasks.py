"""Cancellation of the current asyncio task: was it requested, or did something that it awaited end so?"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
INNER_CANCELLATION = "Something that it awaited was cancelled."


def cancelled_from_outside() -> bool:
    """True if the current task itself was cancelled; otherwise something it awaited was, which is only a failure.

    For `except CancelledError`: a task that was cancelled itself must raise it again.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def await_foreign(work: Awaitable[T]) -> T:
    """Await code of extensions or of the embedding program.

    If it ends with a CancelledError that nobody requested, for example because it awaited a task that was cancelled,
    that is an error like any other: a RuntimeError. Callers would take a CancelledError for their own end and not
    answer.
    """
    try:
        return await work
    except asyncio.CancelledError as error:
        if cancelled_from_outside():
            raise
        raise RuntimeError(INNER_CANCELLATION).with_traceback(error.__traceback__) from None
