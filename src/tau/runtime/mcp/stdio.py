"""MCP over stdio: a server as a process below the supervisor, one JSON message per line.

The process ends with tau, however tau ends, together with everything it has started.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from tau.errors import ToolError
from tau.mcp.definitions import safe_text
from tau.mcp.messages import McpError
from tau.records.base import Value
from tau.runtime.machine.command import CommandSpec
from tau.runtime.machine.jobs import Job, ProcessLauncher
from tau.runtime.mcp.transport import MAX_MESSAGE_BYTES, Outgoing, Receiver
from tau.wire.lines import LineDecoder, LineTooLong

CHUNK_BYTES = 64 * 1024
MAX_STDERR_BYTES = 8 * 1024
MAX_UNSENT_BYTES = 64 * 1024 * 1024  # for a server that does not read its stdin
EXIT_DRAIN_S = 0.2  # to read what a process has written before its exit; a child of it may keep the pipe open
TERMINATE_S = 2.0  # between SIGTERM and SIGKILL, while tau lives on
SUPERVISOR_END_S = 1.0  # for a supervisor that has no users left


class ServerCommand(Value):
    words: Sequence[str]
    cwd: str
    env: Mapping[str, str]


class StdioTransport:
    """Implements Transport. `launcher` decides whether the process runs in the sandbox.

    A launcher with a shared supervisor is released when the process has ended.
    """

    def __init__(self, command: ServerCommand, launcher: ProcessLauncher) -> None:
        self._command = command
        self._launcher = launcher
        self._receiver: Receiver | None = None  # None after the end has been reported, or after `close`
        self._job: Job | None = None
        self._stdin: _PipeWriter | None = None
        self._readers: list[_PipeReader] = []
        self._decoder = LineDecoder(MAX_MESSAGE_BYTES)
        self._stderr = bytearray()
        self._terminated = False  # it was asked to end
        self._supervisor_end: threading.Thread | None = None  # waits for the end of a supervisor without users

    @property
    def stderr(self) -> str:
        """The end of what the process has written to stderr."""
        return self._stderr.decode("utf-8", "replace")

    @property
    def last_words(self) -> str:
        """The last line on stderr."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return safe_text(lines[-1], 500) if lines else ""

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        try:
            self._start()
        except (OSError, ToolError) as error:
            raise McpError(str(error), sent=False) from None
        assert self._job is not None
        self._job.exited.add_done_callback(self._exited)
        if self._launcher.shared:
            self._job.ended.add_done_callback(self._release_launcher)

    def _start(self) -> None:
        pipes = [os.pipe() for _ in range(3)]
        (their_stdin, our_stdin), (our_stdout, their_stdout), (our_stderr, their_stderr) = pipes
        command = self._command
        spec = CommandSpec(command.words, command.cwd, command.env, their_stdout, their_stderr, stdin=their_stdin)
        try:
            self._job = Job(spec, self._launcher)  # closes their ends
        except BaseException:
            for end in (our_stdin, our_stdout, our_stderr):
                os.close(end)
            raise
        self._stdin = _PipeWriter(our_stdin)
        self._readers = [
            _PipeReader(our_stdout, self._on_stdout, self._on_stdout_closed),
            _PipeReader(our_stderr, self._on_stderr, _nothing),
        ]

    async def send(self, message: Outgoing) -> None:
        if self._stdin is None or not self._stdin.write(message.data + b"\n"):
            raise McpError("It does not read its input." if self._stdin is not None else "It has ended.", sent=False)

    def cancel(self, id: int) -> bool:
        return False

    async def close(self, grace_s: float) -> None:
        """Close stdin; after the grace period send SIGTERM; then kill."""
        self._receiver = None
        if self._stdin is not None:
            self._stdin.close()
        if self._job is not None and not self._job.ended.done():
            if not await self._ended_within(grace_s) and not self._terminated:
                self._job.terminate()
                await self._ended_within(min(grace_s, TERMINATE_S))
            await self._job.end()
        self._close_pipes()
        if self._supervisor_end is not None:
            await asyncio.to_thread(self._supervisor_end.join, SUPERVISOR_END_S)

    def terminate(self) -> None:
        """Ask the process to end: close stdin and send SIGTERM. Does not wait."""
        self._terminated = True
        self._receiver = None
        if self._stdin is not None:
            self._stdin.close()
        if self._job is not None:
            self._job.terminate()

    def kill(self) -> None:
        self._receiver = None
        if self._job is not None:
            self._job.kill()
        self._close_pipes()

    async def _ended_within(self, seconds: float) -> bool:
        assert self._job is not None
        if seconds > 0:
            await asyncio.wait({self._job.ended}, timeout=seconds)
        return self._job.ended.done()

    def _release_launcher(self, ended: asyncio.Future[None]) -> None:
        self._supervisor_end = self._launcher.release()

    def _close_pipes(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
        for reader in self._readers:
            reader.close()

    # Events of the process.

    def _on_stdout(self, data: bytes) -> None:
        for line in self._decoder.feed(data):
            if self._receiver is None:
                return
            if isinstance(line, LineTooLong):
                self._end(f"It sent a message of more than {MAX_MESSAGE_BYTES >> 20} MiB.")
            elif line.strip():
                self._receiver.received(line)

    def _on_stderr(self, data: bytes) -> None:
        self._stderr += data[-MAX_STDERR_BYTES:]
        del self._stderr[:-MAX_STDERR_BYTES]

    def _on_stdout_closed(self) -> None:
        """A server without stdout cannot answer. Usually it exits, and then its exit code is the reason."""
        asyncio.get_running_loop().call_later(EXIT_DRAIN_S, self._end, "It closed its output.")

    def _exited(self, exited: asyncio.Future[int | ToolError]) -> None:
        code = exited.result()
        if isinstance(code, ToolError):
            reason = str(code)
        else:
            reason = f"It exited with code {code}." if code >= 0 else f"It was ended by signal {-code}."
        if self._readers and self._readers[0].closed:
            self._end(reason)
        else:
            asyncio.get_running_loop().call_later(EXIT_DRAIN_S, self._end, reason)

    def _end(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        self.kill()
        words = self.last_words
        receiver.closed(McpError(f"{reason} Its last words: {words}" if words else reason))


class _PipeReader:
    """Reads a pipe in the event loop, one chunk at a time."""

    def __init__(self, end: int, on_data: Callable[[bytes], None], on_closed: Callable[[], None]) -> None:
        self._end = end
        self._on_data = on_data
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self.closed = False
        os.set_blocking(end, False)
        self._loop.add_reader(end, self._ready)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self._loop.is_closed():
                self._loop.remove_reader(self._end)
            os.close(self._end)

    def _ready(self) -> None:
        try:
            data = os.read(self._end, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._on_data(data)
        elif not self.closed:
            self.close()
            self._on_closed()


class _PipeWriter:
    """Writes to a pipe without blocking; what does not fit waits in a buffer."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()
        self._closed = False
        os.set_blocking(end, False)

    def write(self, data: bytes) -> bool:
        """False if the pipe is closed or too much is waiting."""
        if self._closed or len(self._buffer) + len(data) > MAX_UNSENT_BYTES:
            return False
        waiting = bool(self._buffer)
        self._buffer += data
        if not waiting:
            self._flush()
        return not self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._loop.is_closed():
                self._loop.remove_writer(self._end)
            with suppress(OSError):
                os.close(self._end)

    def _flush(self) -> None:
        try:
            while self._buffer:
                del self._buffer[: os.write(self._end, self._buffer[:CHUNK_BYTES])]
        except BlockingIOError:
            self._loop.add_writer(self._end, self._flush)
            return
        except OSError:  # the server has closed its end
            self.close()
            return
        self._loop.remove_writer(self._end)


def _nothing() -> None:
    return
