"""Local processes and files for tools. What only POSIX has is used here and nowhere else.

Every command leads a process group of its own, and to stop it is to kill the
group. A process that leaves its group (setsid) is not found again; and nothing
here runs when this program itself is killed by SIGKILL.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tau.core.truncate import size
from tau.errors import ToolError
from tau.tools import Exit, Heard, Stream

T = TypeVar("T")

PORTION = 64 * 1024
GRACE = 0.05  # seconds of silence after the shell is gone: what holds the pipe now is a background process
LINGER = 1.0  # seconds after which that is believed even of one that talks all the time
PATIENCE = 2.0  # seconds to wait for a killed process, which the kernel may hold back
SPILL_LIMIT = 100 * 1024 * 1024
MARKS = {"PI_CODING_AGENT": "true", "AI_AGENT": "pi"}


class LocalMachine:
    """The computer we run on. `env` is what commands inherit, by default our own environment."""

    def __init__(
        self,
        *,
        shell_path: str | None = None,
        prefix: str | None = None,
        env: Mapping[str, str] | None = None,
        spill_limit: int = SPILL_LIMIT,
    ) -> None:
        self._shell_path = shell_path
        self._prefix = prefix
        self._env = env
        self._spill_limit = spill_limit
        self._running: set[int] = set()  # groups whose leader, the shell, is alive or not yet waited for
        self._left: set[int] = set()  # groups of background processes that outlived their shell

    async def run(
        self, command: str, *, cwd: str, heard: Heard, timeout: float | None = None, apart: bool = False
    ) -> Exit:
        """As Machine.run. Cancelled or out of time, it waits at most PATIENCE for the killed group."""
        self._left = {group for group in self._left if _is_left(group)}
        process, ends = self._start(command, cwd, apart)
        group = process.pid
        try:
            exited = _exit_of(process)
        except RuntimeError as error:  # there are too many threads
            _signal(group)
            process.wait()
            for end in ends.values():
                os.close(end)
            raise ToolError(f"Cannot run the command: {error}") from None
        self._running.add(group)
        exited.add_done_callback(lambda _: self._ended(group))
        broken: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        ears = [_Ear(end, stream, heard, broken) for stream, end in ends.items()]
        timed_out = False
        try:
            first: list[asyncio.Future[Any]] = [exited, broken]
            await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                timed_out = not broken.done()
                await _kill(group, exited)
            await _hear_the_rest(ears)
        except asyncio.CancelledError:
            await _kill(group, exited)
            for ear in ears:
                ear.take_all()
            raise
        finally:
            for ear in ears:
                ear.close()
        if broken.done():
            raise broken.result()
        return _ending(exited.result() if exited.done() else -signal.SIGKILL, timed_out)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """As Machine.in_thread. A cancelled caller does not wait for the thread."""
        return await asyncio.to_thread(work)

    def spill(self) -> LocalSpill:
        return LocalSpill(self._spill_limit)

    def kill_all(self) -> None:
        """Kill every group, background processes included. Does not wait: for the way out of the program."""
        for group in (*self._running, *filter(_is_left, self._left)):
            _signal(group)

    def _start(self, command: str, cwd: str, apart: bool) -> tuple[subprocess.Popen[bytes], dict[Stream, int]]:
        """The shell, and the ends of the pipes from it."""
        argv = [self._shell(), "-c", _as_argument(f"{self._prefix}\n{command}" if self._prefix else command)]
        if not os.path.isdir(cwd):
            raise ToolError(f"Working directory does not exist: {cwd}\nCannot execute bash commands.")
        streams: tuple[Stream, ...] = ("stdout", "stderr") if apart else ("stdout",)
        pipes = {stream: os.pipe() for stream in streams}
        try:
            process = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**(os.environ if self._env is None else self._env), **MARKS},
                stdin=subprocess.DEVNULL,
                stdout=pipes["stdout"][1],
                stderr=pipes["stderr"][1] if apart else subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            for ours, _ in pipes.values():
                os.close(ours)
            if error.errno == errno.E2BIG:
                raise ToolError("The command is too long for the system; write it to a file and run that") from None
            raise ToolError(f"Cannot start {argv[0]!r}: {error.strerror}") from None
        finally:
            for _, theirs in pipes.values():
                os.close(theirs)
        return process, {stream: ours for stream, (ours, _) in pipes.items()}

    def _shell(self) -> str:
        if self._shell_path is None:
            return "/bin/bash" if os.path.exists("/bin/bash") else shutil.which("bash") or "sh"
        if not os.path.exists(self._shell_path):
            raise ToolError(f"Custom shell path not found: {self._shell_path}")
        return self._shell_path

    def _ended(self, group: int) -> None:
        self._running.discard(group)
        if _is_left(group):
            self._left.add(group)


class LocalSpill:
    """A file for the output of one command that only its owner can read. Never raises for a full disk."""

    def __init__(self, limit: int) -> None:
        self.path = os.path.join(tempfile.gettempdir(), f"pi-bash-{secrets.token_hex(8)}.log")
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        self._limit = limit
        self._room = limit
        self._open = True

    def write(self, data: bytes) -> None:
        if not self._open:
            return
        try:
            self._put(data[: self._room])
            if len(data) > self._room:
                self._put(f"\n[Only the first {size(self._limit)} of the output are kept]\n".encode())
                self.close()
        except OSError:  # what could be written is there; the command goes on
            self.close()
        self._room -= len(data)

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]


class _Ear:
    """Our end of a pipe. Every portion is handed on at once and none is kept, however fast they come."""

    def __init__(self, end: int, stream: Stream, heard: Heard, broken: asyncio.Future[Exception]) -> None:
        self._end = end
        self._stream = stream
        self._heard = heard
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self.portions = 0
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(end, False)
        self._loop.add_reader(end, self.take)

    def take(self) -> bool:
        """One portion, if there is one."""
        try:
            data = os.read(self._end, PORTION)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self.portions += 1
        try:
            self._heard(self._stream, data)
        except Exception as error:  # reaches the caller of run, who gave us `heard`
            self.close()
            if not self._broken.done():
                self._broken.set_result(error)
            return False
        return True

    def take_all(self) -> None:
        """What is in the pipe now; not more than a pipe can hold, for somebody may still be writing."""
        for _ in range(16):
            if self.closed.done() or not self.take():
                return

    def close(self) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
            self._loop.remove_reader(self._end)
            os.close(self._end)


async def _hear_the_rest(ears: Sequence[_Ear]) -> None:
    """The shell is gone: listen until the pipes are closed, or silent, or have talked on for too long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + LINGER
    while loop.time() < until:
        before = sum(ear.portions for ear in ears)
        _, still_open = await asyncio.wait([ear.closed for ear in ears], timeout=GRACE)
        if not still_open or sum(ear.portions for ear in ears) == before:
            return


def _exit_of(process: subprocess.Popen[bytes]) -> asyncio.Future[int]:
    """Its return code, once it is there. A thread waits, because not every system can wait in the loop."""
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        code = process.wait()
        with suppress(RuntimeError):  # the loop is closed, so nobody asks any more
            loop.call_soon_threadsafe(exited.set_result, code)

    threading.Thread(target=wait, name=f"wait for {process.pid}", daemon=True).start()
    return exited


async def _kill(group: int, exited: asyncio.Future[int]) -> None:
    _signal(group)
    await asyncio.wait({exited}, timeout=PATIENCE)


def _signal(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:  # somebody in the group is not ours to kill; its leader is
        with suppress(OSError):
            os.kill(group, signal.SIGKILL)


def _is_left(group: int) -> bool:
    """Whether processes of a group are alive whose leader is dead.

    No new process gets a number that is still the number of a group. So when there
    is one again, the group is gone and the number belongs to a stranger.
    """
    return _exists(os.killpg, group) and not _exists(os.kill, group)


def _exists(kill: Callable[[int, int], None], number: int) -> bool:
    try:
        kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ending(code: int, timed_out: bool) -> Exit:
    if code >= 0:
        return Exit(code, timed_out=timed_out)
    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        name = str(-code)
    return Exit(None, name, timed_out)


def _as_argument(command: str) -> str:
    if "\0" in command:
        raise ToolError("A command cannot contain a NUL character; write it as \\0 or use a file")
    try:
        os.fsencode(command)
    except UnicodeEncodeError:
        raise ToolError("A command cannot contain half of a surrogate pair") from None
    return command
