"""The agent's process: lines out of it, bytes into it, and its end.

A protocol of asyncio's own kind instead of streams and tasks: reading stops at
once when it is told to, the end is noticed even when somebody else still holds a
pipe open, and there is no task that could be forgotten. The process leads a
group, so that Ctrl-C in a terminal reaches only us and what it started can be
ended with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from subprocess import PIPE

from tau.errors import TauError
from tau.wire.lines import LineDecoder, TooLong

STDERR_KEPT = 64 * 1024  # bytes, the last ones
LINE_LIMIT = 1 << 30  # a whole session can come as one line
POLITENESS = 1.0  # seconds for an idle agent to see the end of its input
PATIENCE = 4.0  # and for any agent after SIGTERM, then after SIGKILL
LAST_WORDS = 1.0  # seconds after the end in which somebody else may still hold its stdout
TOLD = 20  # lines of stderr in an error


class AgentGone(TauError, ConnectionError):
    """The agent's process has ended, or was never started. `exit_code` is minus a signal if one killed it."""

    def __init__(self, message: str, exit_code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr = stderr


class Child(asyncio.SubprocessProtocol):
    """One process. `heard` is called with each line of its stdout, `ended` once when all was heard."""

    def __init__(self, heard: Callable[[bytes | TooLong], None], ended: Callable[[], None]) -> None:
        self._heard, self._told_end = heard, ended
        self._decoder = LineDecoder(LINE_LIMIT)
        self._stderr = bytearray()
        self._paused = self._exited = self._fresh = False
        self._stdin_open = True
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._end: asyncio.Future[None] = loop.create_future()
        self._room = asyncio.Event()
        self._room.set()

    async def start(self, argv: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        await self._loop.subprocess_exec(
            lambda: self, *argv, cwd=cwd, env=env, start_new_session=True, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self.pid = transport.get_pid()

    # Into it.

    async def write(self, data: bytes) -> None:
        """All of it is on its way when this returns, even if the caller does not wait for it to be taken."""
        stdin = self._transport.get_pipe_transport(0)
        if not self._stdin_open or not isinstance(stdin, asyncio.WriteTransport) or stdin.is_closing():
            return  # who waits for an answer is told about the end
        stdin.write(data)
        await self._room.wait()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    # Out of it.

    def pause(self) -> None:
        """Read no more: the process will have to wait."""
        self._paused = True
        self._stdout().pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._stdout().resume_reading()
            self._await_last_words()

    def _stdout(self) -> asyncio.ReadTransport:
        stdout = self._transport.get_pipe_transport(1)
        assert isinstance(stdout, asyncio.ReadTransport)
        return stdout

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.keep(data)
            return
        self._fresh = True
        for line in self._decoder.feed(data):
            self._heard(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._stdin_open = False
            self._room.set()
        if fd == 1:
            for line in self._decoder.end():
                self._heard(line)

    def keep(self, data: bytes) -> None:
        """Remember what was said for people."""
        self._stderr += data
        del self._stderr[:-STDERR_KEPT]

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    # The end.

    def process_exited(self) -> None:
        self._exited = True
        self._room.set()
        self._kill_group()  # whom it left behind
        self._await_last_words()

    def _await_last_words(self) -> None:
        if self._exited and not self._paused:
            self._loop.call_later(LAST_WORDS, self._hang_up)

    def _hang_up(self) -> None:
        if self._paused:
            return
        if not self._fresh:
            self._transport.close()
            return
        self._fresh = False
        self._await_last_words()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.close()
        if not self._end.done():
            self._end.set_result(None)
            self._told_end()

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode()

    async def stop(self, *, politely: bool) -> None:
        """The end of its input, SIGTERM, SIGKILL: each only if what came before did not help."""
        if self._end.done():
            return
        try:
            self.resume()
            if stdin := self._transport.get_pipe_transport(0):
                stdin.close()
            if not (politely and await self._ends(POLITENESS)):
                with suppress(ProcessLookupError):
                    self._transport.terminate()
                await self._ends(PATIENCE)
        finally:
            self._kill()
        if not await self._ends(PATIENCE):
            self._transport.close()

    def _kill(self) -> None:
        """Now, and all of it; the loop notices. Closing the transport here could take its exit code from the loop."""
        if self._exited:
            self._transport.close()
            return
        self._kill_group()
        stdin = self._transport.get_pipe_transport(0)
        if self._stdin_open and isinstance(stdin, asyncio.WriteTransport):
            stdin.abort()  # closing it would wait for whoever does not read

    async def _ends(self, seconds: float) -> bool:
        await asyncio.wait([self._end], timeout=seconds)
        return self._end.done()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def gone(self, while_doing: str = "") -> AgentGone:
        """The error for whoever still wants something of it."""
        code = self.exit_code
        how = {None: "was stopped", 0: "has ended"}.get(code, f"ended with exit code {code}")
        if code is not None and code < 0:
            how = f"was killed by {_name(-code)}"
        lines = self.stderr.strip().splitlines()[-TOLD:]
        said = "\nIts last lines on stderr:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return AgentGone(f"The agent {how}{while_doing}.{said}", code, self.stderr)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
