"""The child process that hosts an extension: start, socket, lines, exit and kill.

The process is not trusted. It is killed with its whole process group, and its end is reported once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tau.errors import ExtensionFailure
from tau.extension_api.messages import MAX_LINE_BYTES
from tau.runtime.extensions.connection import Receiver
from tau.wire.lines import LineDecoder, LineTooLong

# Its last two arguments are the number of an inherited descriptor and the PID of tau.
PYTHON_HOST = (sys.executable, "-P", "-m", "tau.extension_api.child_process")
EXIT_GRACE_S = 0.5  # to read the remaining output of a process that has exited
CHUNK_BYTES = 64 * 1024
MAX_UNREAD_BYTES = 4 * MAX_LINE_BYTES  # messages that wait because the process does not read them


class ExtensionProcess(asyncio.BufferedProtocol):
    """A child process with a socket; the transport of an ExtensionConnection."""

    def __init__(
        self,
        cwd: str,
        command: Sequence[str] = PYTHON_HOST,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """`environment`: None means that of tau. `descriptors`: others that the process inherits."""
        self._cwd = cwd
        self._command = command
        self._environment = environment
        self._descriptors = descriptors
        self._decoder = LineDecoder(MAX_LINE_BYTES)
        self._buffer = bytearray(CHUNK_BYTES)
        self._receiver: Receiver
        self._socket: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code: int | None = None  # set in the event loop; the waiting thread knows earlier
        self._closed = False

    async def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        ours = self._spawn()
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            self.kill()
            raise

    def send(self, message: bytes) -> None:
        if self._socket is None or self._socket.is_closing():
            return
        if self._socket.get_write_buffer_size() > MAX_UNREAD_BYTES:  # a single message may be larger
            self._receiver.broken(f"It does not read what tau sends: more than {MAX_UNREAD_BYTES >> 20} MiB wait.")
            return
        self._socket.write(message + b"\n")

    def answer_sync(self, message: bytes) -> None:
        """Send the answer to a synchronous read: such a process has no other descriptor for it."""
        self.send(message)

    @property
    def peers(self) -> object:
        return self

    def kill(self) -> None:
        """Kill the process and everything it started that is still in its group. Does not wait."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def _spawn(self) -> socket.socket:
        """Start the process and a thread that waits for it, and return tau's end of the socket."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ExtensionFailure(f"Its process cannot be started: {error.strerror}") from None
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*self._command, str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    cwd=self._cwd,
                    env=self._environment,
                    pass_fds=[theirs.fileno(), *self._descriptors],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ExtensionFailure(f"Its process cannot be started: {error.strerror}") from None
        try:
            watched = self._process, asyncio.get_running_loop()
            threading.Thread(target=self._wait, args=watched, name="wait for an extension", daemon=True).start()
        except RuntimeError as error:  # the limit of threads is reached
            self.kill()
            self._process.wait()
            ours.close()
            raise ExtensionFailure(f"Its process cannot be started: {error}") from None
        return ours

    # End of the process.

    def _wait(self, process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the process, in a thread.

        Until the process is reaped, its PID, which is also the process group id, cannot be reused. So the group is
        killed first.
        """
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code: int) -> None:
        self._exit_code = code
        if self._socket is not None and self._socket.is_closing():
            self._close()
        else:  # what it sent last may not have been received, if it ended at once not even the connection is made
            asyncio.get_running_loop().call_later(EXIT_GRACE_S, self._close)

    def _close(self) -> None:
        if self._closed or self._exit_code is None:
            return
        self._closed = True
        if self._socket is not None:
            self._socket.abort()
        self._receiver.closed(_describe_exit(self._exit_code))

    # asyncio.BufferedProtocol

    def connection_made(self, transport: Any) -> None:
        self._socket = transport  # of any loop; transports of uvloop are not instances of asyncio.Transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._exit_code is not None:
            self._close()
        else:  # it is exiting or has closed the connection; both make it unusable
            asyncio.get_running_loop().call_later(EXIT_GRACE_S, self._disconnected)

    def _disconnected(self) -> None:
        if not self._closed:
            self._receiver.broken("It closed its line to tau.")

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        for line in self._decoder.feed(bytes(memoryview(self._buffer)[:nbytes])):
            if isinstance(line, LineTooLong):
                self._receiver.broken(f"It sent a line of more than {line.size_limit} bytes.")
            else:
                self._receiver.received(line)


def _describe_exit(code: int) -> str:
    return f"Its process ended with code {code}." if code >= 0 else f"Its process was ended by {_signal_name(-code)}."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
