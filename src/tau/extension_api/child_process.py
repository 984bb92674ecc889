"""The child process of an extension: python -P -m tau.extension_api.child_process DESCRIPTOR PARENT

It isolates the extension from tau. The channel to tau is a socket that programs started from here do not inherit.
Standard input is empty, and everything written to standard output goes to standard error. The process dies with tau,
and its memory is limited. tau_connection.py speaks the protocol.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
from contextlib import suppress

from tau.extension_api.messages import Load
from tau.extension_api.tau_connection import TauConnection
from tau.wire.lines import LineDecoder, LineTooLong

PR_SET_PDEATHSIG = 1
MIB = 1024 * 1024
NO_LINE_LIMIT = 1 << 62  # lines from tau need no limit


class SocketTransport(asyncio.Protocol):
    """One message per line over the socket to tau."""

    def __init__(self) -> None:
        self.connection = TauConnection(self, _limit_memory)
        self._decoder = LineDecoder(NO_LINE_LIMIT)
        self._socket: asyncio.Transport | None = None

    def send(self, message: bytes) -> None:
        if self._socket is not None and not self._socket.is_closing():
            self._socket.write(message + b"\n")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport

    def data_received(self, data: bytes) -> None:
        for line in self._decoder.feed(data):
            if not isinstance(line, LineTooLong):
                self.connection.received(line)

    def connection_lost(self, error: Exception | None) -> None:
        self.connection.end()


def main(descriptor: int, parent: int) -> None:
    os.set_inheritable(descriptor, False)
    _die_with(parent)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # tau handles it
    with socket.socket(fileno=descriptor) as connection:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.run_until_complete(_serve(connection))
    # Tasks that still run are abandoned: tau does not wait long either.


async def _serve(descriptor: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    _, transport = await loop.create_unix_connection(SocketTransport, sock=descriptor)
    connection = transport.connection
    loop.set_exception_handler(
        lambda _, what: connection.report_failure(what.get("exception"), what.get("message", ""))
    )
    threading.excepthook = lambda what: connection.report_failure(what.exc_value)
    await connection.closed


def _die_with(parent: int) -> None:
    """Die with tau. On Linux the kernel kills this process even if it hangs; elsewhere it ends with the socket."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _limit_memory(load: Load) -> None:
    if load.memory_limit_mb:
        with suppress(ValueError, OSError):  # a lower limit is already set, or there is no such limit
            resource.setrlimit(resource.RLIMIT_AS, (load.memory_limit_mb * MIB, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
