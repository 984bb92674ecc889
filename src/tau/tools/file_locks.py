"""Per-file locks: calls that change the same file run one after another.

They run in the order in which they were made, whatever names they use for the file: each call sees the changes of the
calls before it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from tau.errors import Aborted
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools.partial_result import CancelledWithResult

if TYPE_CHECKING:
    from tau.tools import Machine

ShouldStop = Callable[[], bool]
LockedWork = Callable[[str, str, ShouldStop], Outcome]


class _FileLocks:
    def __init__(self) -> None:
        self.resolving = asyncio.Lock()  # paths are resolved one at a time, so that no call overtakes another
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by real path, while in use


_LOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, _FileLocks] = WeakKeyDictionary()


async def run_locked(machine: Machine, where: Callable[[], str], work: LockedWork) -> Outcome:
    """Run `work` in a thread while holding the lock of its file.

    `work` receives the path from `where`, the real path, and a function that it calls before it changes anything:
    True if the call was cancelled.

    A cancelled call waits for work that has started. If the work could not be stopped in time, CancelledWithResult
    carries its result. A call that is cancelled a second time abandons the thread; later calls still wait for it.
    """
    locks = _LOCKS.setdefault(asyncio.get_running_loop(), _FileLocks())
    stop = threading.Event()
    started = asyncio.Event()

    async def wait_and_work() -> Outcome:
        async with locks.resolving:
            path, real = await machine.in_thread(lambda: _names(machine, where))
        lock = locks.locks.setdefault(real, asyncio.Lock())
        async with lock:
            started.set()
            return await machine.in_thread(lambda: work(path, real, stop.is_set))

    task = asyncio.create_task(wait_and_work())
    task.add_done_callback(
        lambda task: task.cancelled() or task.exception()
    )  # retrieves the exception of an abandoned task
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        if not started.is_set():
            task.cancel()
        await asyncio.wait({task})
        if task.cancelled() or task.exception():
            raise
        done = "\n".join(block.text for block in task.result().content if isinstance(block, Text))
        raise CancelledWithResult(f"{done}\n\n{Aborted()}") from None


def _names(machine: Machine, where: Callable[[], str]) -> tuple[str, str]:
    path = where()
    return path, machine.files.real(path)
