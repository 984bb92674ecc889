"""Supervisor client: the agent's side of supervisor.py, the process below which commands run.

No process that a command starts can escape the supervisor, and none outlives the agent.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tau.errors import ToolError
from tau.runtime.machine.command import NUL, CommandSpec, start_error

if TYPE_CHECKING:
    from tau.runtime.machine.command import ConfinedBy

PROGRAM = Path(__file__).with_name("supervisor.py")
# As in supervisor.py, which is not imported here because it loads ctypes.
START, AT, INPUT, TERMINATE = b"start", b" at", b" input", b"terminate"
READY_TIMEOUT_S = 20.0  # to create a sandbox; a tenth of a second is usual
PASSED_VARIABLES = ("LD_LIBRARY_PATH",)  # variables that the interpreter itself may need; they contain no secrets


class SandboxUnavailable(Exception):
    """The sandbox cannot be created. The message is the reason, as the end of a sentence."""


class Supervisor:
    """A running supervisor process; it ends with its last user.

    Raises SandboxUnavailable if it should be in a sandbox and is not.
    """

    def __init__(self, program: Path, sandbox: ConfinedBy | None = None) -> None:
        our_end, their_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with their_end:
            try:
                words = [sys.executable, "-I", "-S", str(program)] if sandbox is None else sandbox.words()
                process = subprocess.Popen(
                    words,
                    stdin=their_end.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
                    cwd="/",
                    start_new_session=True,
                )
            except BaseException:
                our_end.close()
                if sandbox is not None:
                    sandbox.clear()
                raise
        if sandbox is not None:
            _wait_for(our_end, process)
        our_end.setblocking(False)
        self._line = our_end
        self.dead = False
        self.users = 1
        self._close = weakref.finalize(self, _disconnect, our_end, os.getpid())
        self.ended = threading.Thread(target=process.wait, name="wait for the supervisor", daemon=True)
        self.ended.start()

    def leave(self) -> None:
        """Remove one user; the last one ends the process."""
        with _starting:
            self.users -= 1
            if not self.users:
                self._close()

    def start(self, spec: CommandSpec, on_message: Callable[[bytes], None]) -> SupervisedProcess:
        return SupervisedProcess(self, self.post(spec), on_message)

    def post(self, spec: CommandSpec) -> socket.socket:
        """Send a command to the supervisor; return the channel to its watcher process."""
        try:
            with _request(spec) as request:
                our_end, their_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                # If the supervisor is dead or stuck, sending fails; the caller sees that the other end is closed.
                with their_end, suppress(OSError):
                    fds, message = [their_end.fileno(), request.fileno(), spec.stdout, spec.stderr], START
                    for fd, word in ((spec.folder, AT), (spec.stdin, INPUT)):
                        if fd is not None:
                            fds, message = [*fds, fd], message + word
                    socket.send_fds(self._line, [message], fds)
        except OSError as error:
            raise start_error("fork", error.errno or 0, spec) from None
        return our_end


def _disconnect(line: socket.socket, owner: int) -> None:
    """Close our end of the connection, which ends the supervisor.

    A process that was forked from this one has a duplicate of the socket, so closing it is not enough; but what a
    forked process does must not end the supervisor.
    """
    if os.getpid() == owner:
        with suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
    line.close()


def _wait_for(line: socket.socket, process: subprocess.Popen[bytes]) -> None:
    line.settimeout(READY_TIMEOUT_S)
    try:
        message = line.recv(4096)
    except OSError:
        message = b"refused it is not ready after %d seconds" % READY_TIMEOUT_S
    if message != b"ready":
        line.close()
        process.wait()  # the launcher sees that the connection is closed, and cleans up
        raise SandboxUnavailable(
            message.removeprefix(b"refused").decode("utf-8", "replace").strip() or "it ends at once"
        )


_running: weakref.WeakValueDictionary[Path, Supervisor] = weakref.WeakValueDictionary()
_starting = threading.Lock()


def _forget_after_fork() -> None:
    """In a forked process: the supervisor belongs to its parent, and another thread there may hold the lock."""
    global _starting
    _running.clear()
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def shared_supervisor(program: Path) -> Supervisor:
    """Return the supervisor that this process already shares, or start one."""
    with _starting:
        supervisor = _running.get(program)
        if supervisor is None or supervisor.dead or not supervisor.users:
            supervisor = _running[program] = Supervisor(program)
        else:
            supervisor.users += 1
        return supervisor


def _request(spec: CommandSpec) -> io.FileIO:
    """Write the request to a memory file, because some environments exceed the size limit of a message."""
    fields = [spec.cwd, str(len(spec.words)), *spec.words, *(f"{name}={value}" for name, value in spec.env.items())]
    data = b"\0".join(map(os.fsencode, fields))
    if data.count(b"\0") >= len(fields):
        raise ToolError(NUL)
    file = io.FileIO(os.memfd_create("command"), "wb")
    try:
        rest = memoryview(data)
        while rest:  # a file size limit truncates writes, and half a command must never run
            rest = rest[file.write(rest) :]
    except OSError:
        file.close()
        raise
    return file


class SupervisedProcess:
    """A command below a watcher process: our end of the channel to the watcher."""

    def __init__(self, supervisor: Supervisor, line: socket.socket, on_message: Callable[[bytes], None]) -> None:
        self.supervisor = supervisor
        self._line = line
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._close = weakref.finalize(self, line.close)
        line.setblocking(False)
        self._loop.add_reader(line, self._receive)

    def kill(self) -> None:
        if self._loop.is_closed():  # nothing reads the remaining messages
            self._close()
        elif self._close.alive:
            with suppress(OSError):  # the other end is already closed
                self._line.shutdown(socket.SHUT_WR)

    def terminate(self) -> None:
        if self._close.alive:
            with suppress(OSError):
                self._line.send(TERMINATE)

    def is_alive(self) -> bool:
        return self._close.alive

    def _receive(self) -> None:
        try:
            message = self._line.recv(64)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        words = message.removesuffix(b"gone").rstrip()
        if words:
            self._on_message(words)
        if not words or words != message:
            self._loop.remove_reader(self._line)
            self._close()
            # Breaks a reference cycle, which would keep the supervisor alive until the next garbage collection.
            on_message, self._on_message = self._on_message, _ignore
            on_message(b"")


def _ignore(message: bytes) -> None:
    pass
