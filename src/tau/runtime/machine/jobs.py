"""Start a command, hear of its end, and end all that came from it.

On Linux a process of our own does it (runners.py). Elsewhere, and where that
process cannot be had, a command leads a process group (groups.py). In a sandbox
there is no such second way: it is the runner that is confined, and without one
nothing is started.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tau.errors import ToolError
from tau.runtime.machine.command import CommandSpec, ConfinedBy, ProcessHandle, start_error
from tau.runtime.machine.process_group import ProcessGroup
from tau.runtime.machine.supervisor_client import (
    PROGRAM,
    SandboxUnavailable,
    SupervisedProcess,
    Supervisor,
    shared_supervisor,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

KILL_TIMEOUT_S = 0.6  # seconds to wait for what was killed: the kernel may hold it back, or it may not be ours to kill
LOST = (
    "The process that watched over this command was killed, and the command with it. It may have done part of its work."
)


class ProcessLauncher:
    """Starts commands in the best way this system has."""

    def __init__(self, program: Path = PROGRAM, *, shared: bool = False, sandbox: ConfinedBy | None = None) -> None:
        """`shared`: one runner is enough for all in this process; it ends with the last of them. None is in a sandbox.

        With `sandbox` all commands run in it. Its runner is started at once: raises CannotConfine.
        """
        self._program = program
        self._shared = shared and sandbox is None
        self.sandbox = sandbox
        self._runner: Supervisor | None = None
        self._failures = 0  # runners in a row that did nothing
        can = sys.platform == "linux" and sys.executable and not hasattr(sys, "frozen") and program.is_file()
        self._groups = not can  # there is no other way, or none has worked
        self._leave: Callable[[], object] = _nothing
        self._beginning = threading.Lock()
        if sandbox is not None:
            self._groups = False
            self._begin()

    def post(self, words: Sequence[str], stdout: int) -> socket.socket:
        """Run a program in the sandbox, from any thread. It ends when what is returned is closed."""
        with open(os.devnull, "wb") as nowhere:
            order = CommandSpec(words, "/", {}, stdout, nowhere.fileno())
            return self._confined().post(order)

    def start(self, order: CommandSpec, tell: Callable[[bytes], None]) -> ProcessHandle:
        """What cannot be started at all is a ToolError."""
        if self.sandbox is not None:
            return self._confined().start(order, tell)
        if not self._groups and self._runner is None:
            try:
                self._runner = shared_supervisor(self._program) if self._shared else Supervisor(self._program)
                self._leave = weakref.finalize(self, self._runner.leave)
            except (OSError, RuntimeError) as error:  # no such program, too many files, too many threads
                self._give_up(str(error))
        return self._runner.start(order, tell) if self._runner else ProcessGroup(order, tell)

    def note(self, way: ProcessHandle, *, begun: bool) -> None:
        """Whether a command has begun. If not its runner is dead, and another may live; two are not just bad luck."""
        if isinstance(way, SupervisedProcess) and way.runner is self._runner:
            self._failures = 0 if begun else self._failures + 1
            if not begun:
                way.runner.dead = True
                self.release()
            if self._failures == 2 and self.sandbox is None:
                self._give_up("it ends at once")

    def release(self) -> threading.Thread | None:
        """Nothing more will be started here. If that ends a runner, the thread that waits for its end."""
        runner, self._runner = self._runner, None
        self._leave()
        return runner.ended if runner is not None and not runner.users else None

    def _begin(self) -> Supervisor:
        runner = Supervisor(self._program, self.sandbox)
        self._runner, self._leave = runner, weakref.finalize(self, runner.leave)
        return runner

    def _confined(self) -> Supervisor:
        if self._failures > 2:
            raise ToolError("The sandbox ends as soon as it is made. Nothing is run without it.")
        with self._beginning:
            try:
                return self._runner or self._begin()
            except SandboxUnavailable as error:
                raise ToolError(f"The sandbox cannot be made any more: {error}. Nothing is run without it.") from None

    def _give_up(self, why: str) -> None:
        log.warning("no tool runner: %s; a process that leaves its group may outlive its command", why)
        self._groups = True


class Job:
    """A command, from its start until nothing is left of it. Closes the descriptors of the order.

    The futures belong to the running loop; `kill` and `is_alive` need none.
    """

    def __init__(self, order: CommandSpec, processes: ProcessLauncher) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int | ToolError] = loop.create_future()  # a return code as subprocess counts them
        self.ended: asyncio.Future[None] = loop.create_future()
        self._order = order
        self._pipes = {os.fstat(end).st_ino for end in (order.stdout, order.stderr)}
        self._processes = processes
        self._begun = False
        self._killed = False
        self._way = self._start()

    def kill(self) -> None:
        """End it and all that came from it. Does not wait."""
        self._killed = True
        self._way.kill()

    def is_alive(self) -> bool:
        """Whether anything may be left of it."""
        return self._way.is_alive()

    async def end(self) -> None:
        """Kill, and wait for the end, but no longer than PATIENCE."""
        self.kill()
        await asyncio.wait({self.ended}, timeout=KILL_TIMEOUT_S)

    def _start(self) -> ProcessHandle:
        try:
            return self._processes.start(self._order, self._on_message)
        except BaseException:
            self._close()
            raise

    def _on_message(self, said: bytes) -> None:
        what, _, number = said.partition(b" ")
        if not self._begun:
            if said or not self._killed:
                self._processes.note(self._way, begun=bool(said))
            if not said and not self._killed:
                self._restart()
                return
            self._begun = True
            self._close()
        if what == b"exit":
            _settle(self.exited, int(number))
        elif number:
            _settle(self.exited, start_error(what.decode(), int(number), self._order))
        elif not said:
            if not self.exited.done() and not self._killed:
                _kill_writers(self._pipes)
            _settle(self.exited, -signal.SIGKILL if self._killed else ToolError(LOST))
            _settle(self.ended, None)

    def _restart(self) -> None:
        """Nothing came of it: the runner was dead."""
        try:
            self._way = self._start()
        except ToolError as error:
            _settle(self.exited, error)
            _settle(self.ended, None)

    def _close(self) -> None:
        for descriptor in self._order.descriptors:
            os.close(descriptor)


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _nothing() -> None:
    pass


def _kill_writers(pipes: set[int]) -> None:
    """End what still writes to these pipes: a command whose keeper was killed together with the runner."""
    names = {f"pipe:[{pipe}]" for pipe in pipes}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self/fd") else ():
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):  # gone, or another user's
                if any(os.readlink(f"/proc/{name}/fd/{end}") in names for end in (1, 2)):
                    os.kill(int(name), signal.SIGKILL)
