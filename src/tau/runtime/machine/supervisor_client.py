"""The agent's end of runner.py: a process of our own, below which commands run.

Nothing that a command starts there can get away, and nothing outlives us.
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

from tau.errors import ToolError
from tau.runtime.machine.command import NUL, CommandSpec, ConfinedBy, start_error

PROGRAM = Path(__file__).with_name("supervisor.py")
START, AT = b"start", b"start at"  # as in runner.py, which is not imported here because it loads ctypes
READY_TIMEOUT_S = 20.0  # seconds for a sandbox to be made; a tenth of one is usual
NEEDED = ("LD_LIBRARY_PATH",)  # what the interpreter itself may need of the environment; secrets are none of that


class SandboxUnavailable(Exception):
    """There is no sandbox; why, as the end of a sentence."""


class Supervisor:
    """The running runner.py, as long as it has users. Raises CannotConfine if it is to be in a sandbox and is not."""

    def __init__(self, program: Path, sandbox: ConfinedBy | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                words = [sys.executable, "-I", "-S", str(program)] if sandbox is None else sandbox.words()
                process = subprocess.Popen(
                    words,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={name: os.environ[name] for name in NEEDED if name in os.environ},
                    cwd="/",
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                if sandbox is not None:
                    sandbox.clear()
                raise
        if sandbox is not None:
            _wait_for(ours, process)
        ours.setblocking(False)
        self._line = ours
        self.dead = False
        self.users = 1
        self._close = weakref.finalize(self, ours.close)
        self.ended = threading.Thread(target=process.wait, name="wait for the tool runner", daemon=True)
        self.ended.start()

    def leave(self) -> None:
        """One user less; the last one ends it."""
        with _starting:
            self.users -= 1
            if not self.users:
                self._close()

    def start(self, order: CommandSpec, tell: Callable[[bytes], None]) -> SupervisedProcess:
        return SupervisedProcess(self, self.post(order), tell)

    def post(self, order: CommandSpec) -> socket.socket:
        """The line to the keeper of a command."""
        try:
            with _request(order) as request:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                # If the runner is dead or stuck this fails, and that their end is closed will tell.
                with theirs, suppress(OSError):
                    fds = [theirs.fileno(), request.fileno(), order.stdout, order.stderr]
                    if order.folder is None:
                        socket.send_fds(self._line, [START], fds)
                    else:
                        socket.send_fds(self._line, [AT], [*fds, order.folder])
        except OSError as error:
            raise start_error("fork", error.errno or 0, order) from None
        return ours


def _wait_for(line: socket.socket, process: subprocess.Popen[bytes]) -> None:
    line.settimeout(READY_TIMEOUT_S)
    try:
        said = line.recv(4096)
    except OSError:
        said = b"refused it is not ready after %d seconds" % READY_TIMEOUT_S
    if said != b"ready":
        line.close()
        process.wait()  # it hears that, and clears up
        raise SandboxUnavailable(said.removeprefix(b"refused").decode("utf-8", "replace").strip() or "it ends at once")


_running: weakref.WeakValueDictionary[Path, Supervisor] = weakref.WeakValueDictionary()
_starting = threading.Lock()


def shared_supervisor(program: Path) -> Supervisor:
    """The runner that others in this process have, or a new one for all."""
    with _starting:
        runner = _running.get(program)
        if runner is None or runner.dead or not runner.users:
            runner = _running[program] = Supervisor(program)
        else:
            runner.users += 1
        return runner


def _request(order: CommandSpec) -> io.FileIO:
    """A file for the runner, because a message has a limit that some environments are beyond."""
    fields = [order.cwd, str(len(order.words)), *order.words, *(f"{name}={value}" for name, value in order.env.items())]
    data = b"\0".join(map(os.fsencode, fields))
    if data.count(b"\0") >= len(fields):
        raise ToolError(NUL)
    file = io.FileIO(os.memfd_create("command"), "wb")
    try:
        rest = memoryview(data)
        while rest:  # a limit on the size of files cuts it, and half a command must never be run
            rest = rest[file.write(rest) :]
    except OSError:
        file.close()
        raise
    return file


class SupervisedProcess:
    """A command below a keeper: our end of its line."""

    def __init__(self, runner: Supervisor, line: socket.socket, tell: Callable[[bytes], None]) -> None:
        self.runner = runner
        self._line = line
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._close = weakref.finalize(self, line.close)
        line.setblocking(False)
        self._loop.add_reader(line, self._hear)

    def kill(self) -> None:
        if self._loop.is_closed():  # nobody will hear the rest
            self._close()
        elif self._close.alive:
            with suppress(OSError):  # their end is gone already
                self._line.shutdown(socket.SHUT_WR)

    def is_alive(self) -> bool:
        return self._close.alive

    def _hear(self) -> None:
        try:
            said = self._line.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        words = said.removesuffix(b"gone").rstrip()
        if words:
            self._tell(words)
        if not words or words != said:
            self._loop.remove_reader(self._line)
            self._close()
            # They know each other, and without this the runner would live until somebody collects garbage.
            tell, self._tell = self._tell, _ignore
            tell(b"")


def _ignore(said: bytes) -> None:
    pass
