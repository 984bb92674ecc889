"""Life cycle of a process with one session: descriptors, signals, exit.

    SIGTERM, INT, HUP     stop everything, exit 143, 130, 129

SIGINT and SIGHUP that were ignored when the process was started stay ignored, as POSIX requires: a shell starts
background jobs that way, and so does nohup.

A front end asks `StopSignal` when to stop, and runs in `run_and_exit`. Whatever happens, nothing keeps the process
alive after that.
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

from tau.concurrency.helper_commands import stop_commands
from tau.core.checks.exit_codes import FAILED, USAGE, exit_code_of_signal
from tau.errors import ExtensionFailure, TauError
from tau.runtime.terminal import complain

logger = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0  # seconds to write what is left, and to stop
STDOUT_CLOSED = "Error: the answer could not be written: stdout is closed."
PROMPTS_PER_RETURN = 10  # of free memory to the system
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


def stdout_is_closed() -> bool:
    """True if the process was started without stdout: Python then has no object for it."""
    return sys.stdout is None


def claim_stdio() -> tuple[int, int]:
    """Return private descriptors for the stdin and stdout that the program itself uses.

    All other code in this process and its children that reads stdin finds it empty, and what such code prints goes to
    stderr: nothing can corrupt a record or an answer.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    private = _copy(0, nothing), _copy(1, nothing)
    os.dup2(nothing, 0)
    os.dup2(_copy(2, nothing), 1)
    return private


def _copy(handle: int, instead: int) -> int:
    try:
        return os.dup(handle)
    except OSError:  # the process was started with it closed
        return os.dup(instead)


def run_and_exit(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Run `work`, and exit the process with the code it returns."""
    # A long conversation is a million objects that live as long as the session. Objects loaded by now live for
    # ever, and the rest contains few reference cycles: `GarbageCollector` looks for them when a prompt has settled.
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)  # or asyncio would set a handler that cancels this
    asyncio.run(_to_the_end(work))
    raise AssertionError("this ends with its process")


def _interrupted(number: int, frame: object) -> NoReturn:
    """Used until `StopSignal` sets its own handler."""
    raise KeyboardInterrupt


class GarbageCollector:
    """Collects reference cycles whenever a prompt has settled, and now and then returns free memory to the system.

    There are few cycles, but every failed tool call is one, with the messages and the output in progress at the
    time, and so is a session that was left. The youngest generation is collected each time, older ones rarely.
    """

    def __init__(self) -> None:
        self._times = 0
        self._session = ""

    def settled(self, session: str) -> None:
        """Called when a prompt has settled, in the session with this id."""
        self._times += 1
        moved, self._session = session != self._session, session
        gc.collect(2 if moved or self._times % 1000 == 0 else 1 if self._times % 50 == 0 else 0)
        if self._times % PROMPTS_PER_RETURN == 0:
            self._return_memory()

    def _return_memory(self) -> None:
        try:
            from tau.runtime.machine import allocator  # a process that ends after a few prompts does without
        except (ImportError, OSError):  # no descriptor to load it; the next time, perhaps
            return
        allocator.share_arena()
        allocator.return_free_memory()


async def _to_the_end(work: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    code = FAILED
    try:
        code = await work()
    except ExtensionFailure as error:  # an extension named on the command line
        complain(f"Error: {error}")
    except TauError as error:  # for example, another process has the session open
        complain(f"Error: {error}")
        code = USAGE
    except Exception:
        logger.exception("tau broke off")
    finally:
        leave(code)


def leave(code: int) -> NoReturn:
    """Exit without the end of asyncio.run, which waits for every task and thread: one of them may never end."""
    stop_commands()
    if sys.stderr is not None:  # the process may have been started without it
        sys.stderr.flush()
    os._exit(code)


def _stays_ignored(number: signal.Signals) -> bool:
    return number != signal.SIGTERM and signal.getsignal(number) == signal.SIG_IGN


class StopRequest:
    """A request to stop, from a front end that lost its reader. The first request sets the exit code."""

    def __init__(self) -> None:
        self._asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ask(self, code: int) -> None:
        if not self._asked.done():
            self._asked.set_result(code)

    @property
    def asked(self) -> bool:
        return self._asked.done()

    @property
    def code(self) -> int:
        """The exit code; only valid after a request to stop."""
        return self._asked.result()

    async def wait(self) -> int:
        """Wait for the request; returns the exit code."""
        return await asyncio.shield(self._asked)

    async def unless(self, work: Coroutine[Any, Any, object] | asyncio.Future[Any]) -> bool:
        """Run `work`; returns False if a request to stop came before it was done."""
        task = asyncio.ensure_future(work)
        waiting: set[asyncio.Future[Any]] = {task, self._asked}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if self._asked.done():
            return False
        task.result()
        return True


class StopSignal(StopRequest):
    """A request to stop that also comes from the signals of this process.

    Not with `loop.add_signal_handler`, which loads `inspect` to look at its argument.
    """

    def __init__(self) -> None:
        super().__init__()
        found = (getattr(signal, name, None) for name in SIGNALS)
        wanted = [number for number in found if number is not None and not _stays_ignored(number)]
        self._codes = {int(number): exit_code_of_signal(number) for number in wanted}
        self._received, writer = os.pipe()
        os.set_blocking(self._received, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        asyncio.get_running_loop().add_reader(self._received, self._read)
        for number in self._codes:
            signal.signal(number, _ignore)
            signal.siginterrupt(number, False)

    def _read(self) -> None:
        for number in os.read(self._received, 4096):
            if number in self._codes:
                self.ask(self._codes[number])


def _ignore(number: int, frame: object) -> None:
    """A handler, so that the number is written to the wake-up descriptor, which `StopSignal` reads."""


async def within(seconds: float, work: Coroutine[Any, Any, object]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        logger.info("left behind after %s s: %s", seconds, work)
