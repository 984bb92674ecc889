"""The life of a process that works on one session: its descriptors, its signals, its end.

    SIGTERM, INT, HUP     stop everything, exit 143, 130, 129

SIGINT and SIGHUP that were ignored when the process was started stay ignored, as
POSIX wants it: a shell starts background jobs that way, and so does nohup.

A door asks `Stop` whether it is time to go, and ends in `to_the_end`. Whatever
happens, nothing keeps the process alive after that.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from tau.core.checks.exit_codes import FAILED, USAGE, signalled
from tau.errors import ExtensionFailure, TauError
from tau.runtime.terminal import complain
from tau.store.config_values import stop_commands

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0  # seconds to write what is left, and to stop
STDOUT_CLOSED = "Error: the answer could not be written: stdout is closed."
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


def stdout_is_closed() -> bool:
    """Whether the process was started without one: Python then has no object for it."""
    return sys.stdout is None


def claim_stdio() -> tuple[int, int]:
    """Private descriptors for what is read and written on purpose.

    Whatever else in this process, or a child of it, reads stdin finds it empty,
    and what it prints lands on stderr: nothing can break a record or an answer.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    private = _copy(0, nothing), _copy(1, nothing)
    os.dup2(nothing, 0)
    os.dup2(_copy(2, nothing), 1)
    return private


def _copy(handle: int, instead: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # we were started with it closed
        return os.dup(instead)


def run_and_exit(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Do it, and end the process with the code it returns."""
    # A long conversation is a million objects that live as long as the session. What is loaded by now lives for
    # ever, and there are few circles to be found among the rest: `Tidying` looks for them when a prompt is done with.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    asyncio.run(_to_the_end(work))
    raise AssertionError("this ends with its process")


class GarbageCollector:
    """Lets go of what only holds itself, whenever a prompt is done with.

    There is little of it, but every tool that failed is among it, with the messages
    and the output that were under way, and so is a session that was left. What is
    new is looked at each time, what has lasted seldom.
    """

    def __init__(self) -> None:
        self._times = 0
        self._session = ""

    def settled(self, session: str) -> None:
        """A prompt is done with, in the session of this id."""
        self._times += 1
        moved, self._session = session != self._session, session
        gc.collect(2 if moved or self._times % 1000 == 0 else 1 if self._times % 50 == 0 else 0)


async def _to_the_end(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    code = FAILED
    try:
        code = await work()
    except ExtensionFailure as error:  # one that was named on the command line
        complain(f"Error: {error}")
    except TauError as error:  # a session that another process has, for one
        complain(f"Error: {error}")
        code = USAGE
    except Exception:
        log.exception("tau broke off")
    finally:
        leave(code)


def leave(code: int) -> NoReturn:
    """Not by way of asyncio.run, which waits for every task and thread: one of them may never end."""
    stop_commands()
    if sys.stderr is not None:  # we may have been started without it
        sys.stderr.flush()
    os._exit(code)


def _stays_ignored(number: signal.Signals) -> bool:
    return number != signal.SIGTERM and signal.getsignal(number) == signal.SIG_IGN


class StopSignal:
    """Somebody wants us to stop: a signal, or a door that lost its reader. The first who asks chooses the code."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[int] = loop.create_future()
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and not _stays_ignored(number):
                loop.add_signal_handler(number, self.ask, signalled(number))

    def ask(self, code: int) -> None:
        if not self._asked.done():
            self._asked.set_result(code)

    @property
    def asked(self) -> bool:
        return self._asked.done()

    @property
    def code(self) -> int:
        """Only once it was asked."""
        return self._asked.result()

    async def unless(self, work: Coroutine[Any, Any, object]) -> bool:
        """Do `work`; False if we were asked to stop before that was done."""
        task = asyncio.ensure_future(work)
        waiting: set[asyncio.Future[Any]] = {task, self._asked}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._asked.done():
            return False
        task.result()
        return True


async def within(seconds: float, work: Coroutine[Any, Any, object]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.info("left behind after %s s: %s", seconds, work)
