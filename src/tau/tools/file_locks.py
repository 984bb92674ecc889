"""Changes to files, one after another.

Calls that change the same file, whatever names they have for it, do so in the
order in which they were made: each sees what those before it have done.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary, WeakValueDictionary

from tau.errors import Aborted
from tau.records.events import Outcome
from tau.records.messages import Text
from tau.tools import Machine
from tau.tools.partial_result import StoppedWith

Stopped = Callable[[], bool]
Work = Callable[[str, str, Stopped], Outcome]


class _Turns:
    def __init__(self) -> None:
        self.door = asyncio.Lock()  # one at a time finds out which file it is, so that nobody overtakes
        self.locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by real path, while in use


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


async def in_turn(machine: Machine, where: Callable[[], str], work: Work) -> Outcome:
    """Do `work` in a thread when its turn has come.

    It is given the path from `where`, the real path, and a question to ask before it
    changes something: whether it was stopped.

    A cancelled call waits for work that has begun. If that could not be stopped any
    more, StoppedWith tells what was done. Cancelled once more, it leaves the thread
    behind, and the others go on waiting for it.
    """
    turns = _TURNS.setdefault(asyncio.get_running_loop(), _Turns())
    stop = threading.Event()
    begun = asyncio.Event()

    async def wait_and_work() -> Outcome:
        async with turns.door:
            path, real = await machine.in_thread(lambda: _names(machine, where))
        lock = turns.locks.setdefault(real, asyncio.Lock())
        async with lock:
            begun.set()
            return await machine.in_thread(lambda: work(path, real, stop.is_set))

    task = asyncio.create_task(wait_and_work())
    task.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may be left behind
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        if not begun.is_set():
            task.cancel()
        await asyncio.wait({task})
        if task.cancelled() or task.exception():
            raise
        done = "\n".join(block.text for block in task.result().content if isinstance(block, Text))
        raise StoppedWith(f"{done}\n\n{Aborted()}") from None


def _names(machine: Machine, where: Callable[[], str]) -> tuple[str, str]:
    path = where()
    return path, machine.files.real(path)
