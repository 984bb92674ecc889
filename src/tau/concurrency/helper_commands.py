"""Helper commands: small programs that print an answer, such as a key, a picture or a version. None outlives tau.

What a program starts and leaves behind may keep its pipes open: the program has ended nevertheless, and is not waited
for longer. A program that is out of time is killed with all that it has started.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

EXIT_POLL_S = 0.02  # between two looks whether a command that prints nothing has ended
CHUNK_BYTES = 64 * 1024
MAX_CHUNKS = 16  # a pipe holds no more
DRAIN_TIMEOUT_S = 0.2  # for output that is in the pipes when a program has ended
KILL_TIMEOUT_S = 1.0  # to wait for a killed process: one may hang in the kernel

_running: set[subprocess.Popen[bytes]] = set()


@contextmanager
def helper_command(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Wait for a command inside this. It is killed if that fails, and by `stop_commands`."""
    _running.add(process)
    try:
        yield
    except BaseException:
        _kill(process)
        raise
    finally:
        _running.discard(process)


def stop_commands() -> None:
    """Kill the commands that still run in threads when the program ends."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        kill_tree(process.pid)


def kill_tree(pid: int) -> None:
    """Kill a process that was not waited for, its group if it leads one, and the programs that it has started.

    Only Linux lists those that have left the group.
    """
    started = descendants(pid)
    with suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    for one in started:
        with suppress(OSError):
            os.kill(one, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []
    return [*children, *(below for child in children for below in descendants(child))]


# In a thread.


def run_helper(
    words: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> tuple[int, bytes]:
    """Run a program; return its exit code and what it printed. Blocks. Raises OSError and TimeoutExpired."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    with (
        subprocess.Popen(list(words), stdin=nothing, stdout=pipe, stderr=nothing, env=env, cwd=cwd) as process,
        helper_command(process),
    ):
        stdout, _ = collect_output(process, timeout)
    return process.returncode, stdout


def collect_output(process: subprocess.Popen[bytes], timeout: float | None = None) -> tuple[bytes, bytes]:
    """What a program writes to stdout and stderr until it ends. Raises TimeoutExpired."""
    written: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
    for stream, data in program_output(process, timeout):
        written[stream] += data
    return bytes(written[1]), bytes(written[2])


def program_output(process: subprocess.Popen[bytes], timeout: float | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield what a program writes until it ends, with 1 for stdout and 2 for stderr. Raises TimeoutExpired."""
    until = None if timeout is None else time.monotonic() + timeout
    open_pipes = {pipe.fileno(): stream for stream, pipe in ((1, process.stdout), (2, process.stderr)) if pipe}
    poll = select.poll()
    for pipe in open_pipes:
        os.set_blocking(pipe, False)
        poll.register(pipe, select.POLLIN)
    while True:
        ended = process.poll() is not None  # before the read: what the program wrote is in the pipes then
        for pipe, stream in list(open_pipes.items()):
            for _ in range(MAX_CHUNKS):
                if not (chunk := _available(pipe)):
                    break
                yield stream, chunk
            if chunk == b"":
                poll.unregister(pipe)
                del open_pipes[pipe]
        if ended:
            return
        remaining = None if until is None else until - time.monotonic()
        if remaining is not None and remaining <= 0:
            raise subprocess.TimeoutExpired(process.args, timeout or 0)
        if open_pipes:
            poll.poll(1000 * min(EXIT_POLL_S, EXIT_POLL_S if remaining is None else remaining))
        else:
            process.wait(remaining)


def _available(pipe: int) -> bytes | None:
    """What can be read now: empty at the end, None if there is nothing yet."""
    try:
        return os.read(pipe, CHUNK_BYTES)
    except BlockingIOError:
        return None


# In the event loop.


class TooMuchOutput(Exception):
    pass


class HelperProgram(asyncio.SubprocessProtocol):
    """A program whose output is collected, up to `max_bytes`. It has to be closed."""

    def __init__(self, max_bytes: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.stdout, self.stderr = bytearray(), bytearray()
        self._max_bytes = max_bytes
        self._exited: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()  # it has ended, and its pipes are closed

    @classmethod
    async def start(
        cls, words: Sequence[str], *, input: bytes | None = None, max_bytes: int | None = None, **options: Any
    ) -> HelperProgram:
        """`options` are those of Popen. Raises OSError and ValueError."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        loop = asyncio.get_running_loop()
        _, program = await loop.subprocess_exec(lambda: cls(max_bytes), *words, stdin=stdin, **options)
        if input is not None and (pipe := program._stdin()) is not None:
            pipe.write(input)  # a program that does not read everything closes it
            pipe.close()
        return program

    @property
    def code(self) -> int | None:
        return self._transport.get_returncode()

    async def ended(self) -> None:
        """Wait until the program has ended and its output is read. Raises TooMuchOutput."""
        await asyncio.shield(self._exited)
        await asyncio.wait([self._over], timeout=DRAIN_TIMEOUT_S)

    async def close(self, *, terminate_s: float = 0) -> None:
        """Kill the program if it has not ended; with `terminate_s`, SIGTERM comes first and has that many seconds."""
        try:
            if self.code is None and terminate_s:
                self._transport.terminate()
                await asyncio.wait([self._exited], timeout=terminate_s)
            if self.code is None:
                kill_tree(self._transport.get_pid())
                await asyncio.wait([self._over], timeout=KILL_TIMEOUT_S)
        finally:
            if (stdin := self._stdin()) is not None and stdin.get_write_buffer_size():
                stdin.abort()  # what it has left behind may keep it open, and read nothing
            self._transport.close()

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast(asyncio.WriteTransport | None, self._transport.get_pipe_transport(0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        written = self.stdout if fd == 1 else self.stderr
        written += data
        if self._max_bytes is not None and len(written) > self._max_bytes and not self._exited.done():
            self._exited.set_exception(TooMuchOutput())

    def process_exited(self) -> None:
        if not self._exited.done():
            self._exited.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
