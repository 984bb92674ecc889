"""Exceptions of foreign code, and cancellation: was it requested, or did something that the task awaited end so?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")
INNER_CANCELLATION = "Something that it awaited was cancelled."


def cancelled_from_outside() -> bool:
    """True if the current task itself was cancelled; otherwise something it awaited was, which is only a failure.

    For `except CancelledError`: a task that was cancelled itself must raise it again.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def not_cancelled_again() -> AbstractContextManager[object]:
    """For a task that has to wait though it is cancelled: a scope of anyio cancels it in every turn of the loop."""
    anyio: Any = sys.modules.get("anyio")  # if it is not imported, none of its scopes is active
    return nullcontext() if anyio is None else anyio.CancelScope(shield=True)


def failure_of(error: BaseException) -> Exception:
    """What code of extensions or of the embedding program raised, as an Exception, which callers report.

    It may raise anything; what `pytest.fail` raises is no Exception. A CancelledError that nobody requested, because
    the code awaited a cancelled task, is a failure too: callers would take it for their own end and not answer.
    What ends the program, the current task or a coroutine is raised again.
    """
    if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
        raise error
    if isinstance(error, asyncio.CancelledError):
        if cancelled_from_outside():
            raise error
        return RuntimeError(INNER_CANCELLATION).with_traceback(error.__traceback__)
    return as_exception(error)


def as_exception(error: BaseException) -> Exception:
    """An exception that a future can hold and that ends nothing."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": ")).with_traceback(error.__traceback__)


async def await_foreign(work: Awaitable[T]) -> T:
    """Await code of extensions or of the embedding program. It fails with an Exception: see `failure_of`."""
    task = _current_task_id()
    try:
        return await work
    except Exception:
        raise
    except GeneratorExit as error:
        if task != _current_task_id():  # this coroutine is being closed
            raise
        raise as_exception(error) from None
    except BaseException as error:
        raise failure_of(error) from None


def _current_task_id() -> int:
    """Its id: a reference would keep a task alive that nobody finishes."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:  # no loop is running
        return 0
