"""Jobs: start a command, report its exit, and kill everything it started.

On Linux, commands run under a supervisor process (supervisor_client.py). On other systems, and if the supervisor
cannot be started, a command leads a process group (process_group.py). A sandbox has no such fallback: the sandbox
confines the supervisor, and without a supervisor nothing is started.
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
from typing import TYPE_CHECKING, TypeVar

from tau.errors import ToolError
from tau.runtime.machine.command import CommandSpec, start_error
from tau.runtime.machine.supervisor_client import (
    PROGRAM,
    SandboxUnavailable,
    SupervisedProcess,
    Supervisor,
    shared_supervisor,
)

if TYPE_CHECKING:
    from tau.runtime.machine.command import ConfinedBy, ProcessHandle

logger = logging.getLogger(__name__)
T = TypeVar("T")

KILL_TIMEOUT_S = 0.6  # to wait for killed processes: one may hang in the kernel, or belong to another user
LOST = (
    "The process that supervised this command was killed, and the command with it. It may have done part of its work."
)


class ProcessLauncher:
    """Starts commands with the best back end that this system has."""

    def __init__(self, program: Path = PROGRAM, *, shared: bool = False, sandbox: ConfinedBy | None = None) -> None:
        """With `shared`, all launchers of this process share one supervisor, which ends with the last of them.

        With `sandbox`, all commands run in it. Its supervisor is never shared and is started at once. Raises
        SandboxUnavailable.
        """
        self._program = program
        self.shared = shared and sandbox is None
        self.sandbox = sandbox
        self._supervisor: Supervisor | None = None
        self._failures = 0  # supervisors in a row that ended without starting a command
        can = sys.platform == "linux" and sys.executable and not hasattr(sys, "frozen") and os.path.isfile(program)
        self._groups = not can  # process groups: the only back end here, or the only one that has worked
        self._leave: Callable[[], object] = _nothing
        self._start_lock = threading.Lock()
        if sandbox is not None:
            self._groups = False
            self._start_supervisor()

    def post(self, words: Sequence[str], stdout: int) -> socket.socket:
        """Run a program in the sandbox; callable from any thread. Closing the returned socket kills the program."""
        with open(os.devnull, "wb") as devnull:
            spec = CommandSpec(words, "/", {}, stdout, devnull.fileno())
            return self._confined().post(spec)

    def start(self, spec: CommandSpec, on_message: Callable[[bytes], None]) -> ProcessHandle:
        """Start a command; `on_message` receives its messages. Raises ToolError if it cannot be started at all."""
        if self.sandbox is not None:
            return self._confined().start(spec, on_message)
        self.hold_supervisor()
        if self._supervisor:
            return self._supervisor.start(spec, on_message)
        from tau.runtime.machine.process_group import ProcessGroup

        return ProcessGroup(spec, on_message)

    def hold_supervisor(self) -> None:
        """Start or join the supervisor, if there can be one: a shared one lives at least until `release`."""
        if not self._groups and self._supervisor is None:
            try:
                self._supervisor = shared_supervisor(self._program) if self.shared else Supervisor(self._program)
                self._leave = weakref.finalize(self, self._supervisor.leave)
            except (OSError, RuntimeError) as error:  # no such program, too many files, too many threads
                self._give_up(str(error))

    def note(self, handle: ProcessHandle, *, started: bool) -> None:
        """Record whether a command was started.

        If it was not, its supervisor is dead, and a new one may work. After two dead supervisors in a row the
        launcher falls back to process groups, unless there is a sandbox.
        """
        if isinstance(handle, SupervisedProcess) and handle.supervisor is self._supervisor:
            self._failures = 0 if started else self._failures + 1
            if not started:
                handle.supervisor.dead = True
                self.release()
            if self._failures == 2 and self.sandbox is None:
                self._give_up("it ends at once")

    def release(self) -> threading.Thread | None:
        """Release the supervisor. If this was its last user, return the thread that waits for it to end."""
        supervisor, self._supervisor = self._supervisor, None
        self._leave()
        return supervisor.ended if supervisor is not None and not supervisor.users else None

    def _start_supervisor(self) -> Supervisor:
        supervisor = Supervisor(self._program, self.sandbox)
        self._supervisor, self._leave = supervisor, weakref.finalize(self, supervisor.leave)
        return supervisor

    def _confined(self) -> Supervisor:
        if self._failures > 2:
            raise ToolError("The sandbox exits as soon as it is started. Nothing runs without it.")
        with self._start_lock:
            try:
                return self._supervisor or self._start_supervisor()
            except SandboxUnavailable as error:
                raise ToolError(f"The sandbox can no longer be started: {error}. Nothing runs without it.") from None

    def _give_up(self, why: str) -> None:
        logger.warning("no process supervisor: %s; a process that leaves its group may outlive its command", why)
        self._groups = True


class Job:
    """A command, from its start until all its processes have ended. Closes the descriptors of the CommandSpec.

    The futures belong to the running loop; `kill` and `is_alive` do not need a loop.
    """

    def __init__(self, spec: CommandSpec, processes: ProcessLauncher) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int | ToolError] = loop.create_future()  # a return code as in subprocess
        self.ended: asyncio.Future[None] = loop.create_future()
        self._spec = spec
        self._pipes = {os.fstat(end).st_ino for end in (spec.stdout, spec.stderr)}
        self._processes = processes
        self._started = False
        self._killed = False
        self._handle = self._start()

    def kill(self) -> None:
        """Kill the command and everything it started. Does not wait."""
        self._killed = True
        self._handle.kill()

    def terminate(self) -> None:
        """Send SIGTERM to the process group of the command. Does not wait."""
        self._handle.terminate()

    def is_alive(self) -> bool:
        """True while processes of the command may exist."""
        return self._handle.is_alive()

    async def end(self) -> None:
        """Kill, and wait for the end, but no longer than KILL_TIMEOUT_S."""
        self.kill()
        await asyncio.wait({self.ended}, timeout=KILL_TIMEOUT_S)

    def _start(self) -> ProcessHandle:
        try:
            return self._processes.start(self._spec, self._on_message)
        except BaseException:
            self._close()
            raise

    def _on_message(self, message: bytes) -> None:
        what, _, number = message.partition(b" ")
        if not self._started:
            if message or not self._killed:
                self._processes.note(self._handle, started=bool(message))
            if not message and not self._killed:
                self._restart()
                return
            self._started = True
            self._close()
        if what == b"exit":
            _settle(self.exited, int(number))
        elif number:
            _settle(self.exited, start_error(what.decode(), int(number), self._spec))
        elif not message:
            if not self.exited.done() and not self._killed:
                _kill_writers(self._pipes)
            _settle(self.exited, -signal.SIGKILL if self._killed else ToolError(LOST))
            _settle(self.ended, None)

    def _restart(self) -> None:
        """Start the command again: the supervisor was dead and has not started it."""
        try:
            self._handle = self._start()
        except ToolError as error:
            _settle(self.exited, error)
            _settle(self.ended, None)

    def _close(self) -> None:
        for descriptor in self._spec.descriptors:
            os.close(descriptor)


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _nothing() -> None:
    pass


def _kill_writers(pipes: set[int]) -> None:
    """Kill the processes that still write to these pipes.

    They belong to a command whose watcher process was killed together with the supervisor.
    """
    names = {f"pipe:[{pipe}]" for pipe in pipes}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self/fd") else ():
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):  # gone, or another user's
                if any(os.readlink(f"/proc/{name}/fd/{end}") in names for end in (1, 2)):
                    os.kill(int(name), signal.SIGKILL)
