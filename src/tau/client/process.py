"""The agent's process: lines from stdout, bytes to stdin, and its end.

An asyncio SubprocessProtocol instead of streams and tasks: reading pauses immediately, the exit is noticed even while
another process holds a pipe open, and there is no task to clean up. The process leads its own process group, so that
Ctrl-C in a terminal reaches only the client, and everything that the agent started can be killed with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import PIPE
from typing import Any, cast

from tau.client.errors import AgentGone
from tau.client.line import OnEnd, OnLine
from tau.wire.lines import LineDecoder

STDERR_BYTES = 64 * 1024  # the last ones are kept
MAX_LINE_BYTES = 1 << 30  # a response can contain a whole session
GRACEFUL_EXIT_TIMEOUT_S = 1.0  # for an idle agent to exit after stdin is closed
SIGNAL_TIMEOUT_S = 4.0  # for an agent to exit after SIGTERM, and after SIGKILL
DRAIN_TIMEOUT_S = 1.0  # after the exit, for other processes that still hold its stdout
STDERR_LINES_IN_ERROR = 20


@dataclass(frozen=True)
class AgentCommand:
    """How to start an agent."""

    argv: Sequence[str]
    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str]


class AgentProcess(asyncio.SubprocessProtocol):
    """One process. `on_line` is called with each line of its stdout, `on_end` once after the last line."""

    def __init__(self, command: AgentCommand, on_line: OnLine, on_end: OnEnd) -> None:
        self._command = command
        self._on_line, self._on_end = on_line, on_end
        self._decoder = LineDecoder(MAX_LINE_BYTES)
        self._stderr = bytearray()
        self._paused = self._exited = self._got_output = False
        self._stdin_open = True
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._end: asyncio.Future[None] = loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    async def start(self) -> None:
        command = self._command
        await self._loop.subprocess_exec(
            lambda: self,
            *command.argv,
            cwd=command.cwd,
            env=command.env,
            start_new_session=True,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )

    def connection_made(self, transport: Any) -> None:
        # Not checked with isinstance, nor are those of its pipes: transports of uvloop have no classes of asyncio.
        self._transport: asyncio.SubprocessTransport = transport
        self.pid = transport.get_pid()

    # Input.

    async def write(self, data: bytes) -> None:
        """Write to stdin. All data is queued when this is called; cancelling only stops waiting for it to be taken."""
        stdin = self._stdin()
        if not self._stdin_open or stdin is None or stdin.is_closing():
            return  # pending calls fail with AgentGone
        stdin.write(data)
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Output.

    def pause(self) -> None:
        """Stop reading, so that the process has to wait."""
        self._paused = True
        self._stdout().pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._stdout().resume_reading()
            self._drain_output()

    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))

    def _stdout(self) -> asyncio.ReadTransport:
        return cast("asyncio.ReadTransport", self._transport.get_pipe_transport(1))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.append_stderr(data)
            return
        self._got_output = True
        for line in self._decoder.feed(data):
            self._on_line(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._stdin_open = False
            self._writable.set()
        if fd == 1:
            for line in self._decoder.end():
                self._on_line(line)

    def append_stderr(self, data: bytes) -> None:
        """Append to the stderr text that is kept for error messages."""
        self._stderr += data
        del self._stderr[:-STDERR_BYTES]

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    # End.

    def process_exited(self) -> None:
        self._exited = True
        self._writable.set()
        self._kill_group()  # processes that it left behind
        self._drain_output()

    def _drain_output(self) -> None:
        if self._exited and not self._paused:
            self._loop.call_later(DRAIN_TIMEOUT_S, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self._paused:
            return
        if not self._got_output:
            self._transport.close()
            return
        self._got_output = False
        self._drain_output()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.close()
        if not self._end.done():
            self._end.set_result(None)
            self._on_end()

    @property
    def exit_code(self) -> int | None:
        return self._transport.get_returncode()

    async def stop(self, *, gracefully: bool) -> None:
        """Close stdin, then SIGTERM, then SIGKILL, each only if the previous step had no effect."""
        if self._end.done():
            return
        try:
            self.resume()
            if stdin := self._stdin():
                stdin.close()
            if not (gracefully and await self._ends_within(GRACEFUL_EXIT_TIMEOUT_S)):
                with suppress(ProcessLookupError):
                    self._transport.terminate()
                await self._ends_within(SIGNAL_TIMEOUT_S)
        finally:
            self._kill()
        if not await self._ends_within(SIGNAL_TIMEOUT_S):
            self._transport.close()

    def _kill(self) -> None:
        """Kill the process group. Closing the transport here could take the exit code from the event loop."""
        if self._exited:
            self._transport.close()
            return
        self._kill_group()
        if self._stdin_open and (stdin := self._stdin()) is not None:
            stdin.abort()  # close() would wait until the buffered data is read

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait([self._end], timeout=seconds)
        return self._end.done()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def gone_error(self, while_doing: str = "") -> AgentGone:
        """Return the error for calls that can no longer be answered."""
        code = self.exit_code
        how = {None: "was stopped", 0: "has ended"}.get(code, f"ended with exit code {code}")
        if code is not None and code < 0:
            how = f"was killed by {_signal_name(-code)}"
        lines = self.stderr.strip().splitlines()[-STDERR_LINES_IN_ERROR:]
        stderr = "\nIts last lines on stderr:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
        return AgentGone(f"The agent {how}{while_doing}.{stderr}", code, self.stderr)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
