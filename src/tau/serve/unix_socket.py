"""Lines on a Unix socket: the transport of one connection, and the listener.

The socket is for this user only: mode 0600 in a folder of mode 0700, and the kernel says who the peer is. There is no
token and no HTTP here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tau.concurrency.turns import run_turn
from tau.errors import UsageError
from tau.runtime.protocol.line_queue import LineQueue
from tau.runtime.protocol.transport import LineHandler
from tau.serve.descriptors import running_out

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import BatchSource

logger = logging.getLogger(__name__)
BUFFER_BYTES = 64 * 1024  # output that the kernel has not taken; one batch may be above it
BACKLOG = 1024
FLUSH_TIMEOUT_S = 1.0
_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_LOCAL_PEERCRED = 1  # macOS and the BSDs: a version and the uid
MAX_CONNECTIONS = 2048


class SocketTransport(asyncio.Protocol):
    """A Transport on a socket of the event loop. `made` is called when it is connected."""

    write_now = None  # asyncio does it
    _source: BatchSource
    _transport: asyncio.Transport

    def __init__(self, made: Callable[[SocketTransport], None]) -> None:
        self._made = made
        self._loop = asyncio.get_running_loop()
        self._input = LineQueue(self._resume_reading)
        self._writing = False  # the source has more
        self._paused = False  # the kernel takes no more now
        self._lost = asyncio.Event()
        self.receive = self._input.next

    # Of the Transport.

    def deliver_to(self, handler: LineHandler) -> None:
        self._input.deliver_to(handler)

    def connect(self, source: BatchSource) -> None:
        self._source = source

    def write(self) -> None:
        self._writing = True
        while self._writing and not self._paused:
            if batch := self._source.take():
                self._transport.write(batch)
            else:
                self._writing = False

    async def close(self) -> None:
        """Close the connection when what was taken is written, or at once if the client does not read it."""
        self._writing = False
        self._transport.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_TIMEOUT_S):
                await self._lost.wait()
        self._transport.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    @property
    def socket(self) -> socket.socket:
        return cast("socket.socket", self._transport.get_extra_info("socket"))

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(BUFFER_BYTES)
        self._made(self)

    def data_received(self, data: bytes) -> None:
        run_turn(self._loop, self._input.feed, data)
        if self._input.full:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._end_input()
        return True  # the client may still read

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._writing:
            self.write()

    def connection_lost(self, error: Exception | None) -> None:
        self._writing = False
        self._lost.set()
        self._end_input()
        if hasattr(self, "_source"):
            self._source.connection_lost()

    def _end_input(self) -> None:
        if not self._input.ended:
            self._input.feed(b"")

    def _resume_reading(self) -> None:
        self._transport.resume_reading()


def peer_uid(connection: socket.socket) -> int | None:
    """The user at the other end; None if the system does not tell."""
    try:
        if sys.platform == "linux":
            size = _PEER_CREDENTIALS.size
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            return int(_PEER_CREDENTIALS.unpack(credentials)[1])
        return int(struct.unpack("2I", connection.getsockopt(0, _LOCAL_PEERCRED, 8))[1])
    except (OSError, AttributeError, struct.error):
        return None


class UnixListener:
    """Accepts connections of this user. `serve` runs each of them to its end."""

    def __init__(self, path: Path, serve: Callable[[SocketTransport], Awaitable[object]]) -> None:
        self._path = path
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Raises UsageError if the path is too long for a socket."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._path.unlink(missing_ok=True)  # of a host that was killed; the lock is ours
            listener.bind(str(self._path))
            self._path.chmod(0o600)
        except OSError as error:
            listener.close()
            long = "too long" in str(error) or error.errno == errno.ENAMETOOLONG
            why = "the path is too long for a socket; choose a shorter PI_CODING_AGENT_DIR" if long else error.strerror
            raise UsageError(f"Cannot listen on {self._path}: {why}") from None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: SocketTransport(self._connected), sock=listener, backlog=BACKLOG
        )

    def stop_accepting(self) -> None:
        if self._server is not None:
            self._server.close()
        with suppress(OSError):
            self._path.unlink()

    async def close(self) -> None:
        """Wait for the ends of the connections, which must have been asked for."""
        self.stop_accepting()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2 * FLUSH_TIMEOUT_S)

    def _connected(self, transport: SocketTransport) -> None:
        if (why := self._refusal(transport.socket)) is not None:
            logger.warning("refused a connection on the socket: %s", why)
            transport.abort()
            return
        self._tasks.add(task := asyncio.create_task(self._run(transport)))
        task.add_done_callback(self._tasks.discard)

    def _refusal(self, connection: socket.socket) -> str | None:
        """Why a connection is not accepted, or None."""
        uid = peer_uid(connection)
        if uid is not None and uid != os.getuid():
            return f"it comes from user {uid}"
        if len(self._tasks) >= MAX_CONNECTIONS:
            return "there are too many"
        if running_out(connection.fileno()):
            return "descriptors are running out"
        return None

    async def _run(self, transport: SocketTransport) -> None:
        try:
            await self._serve(transport)
        except Exception:
            logger.exception("a connection on the socket failed")
        finally:
            await transport.close()
