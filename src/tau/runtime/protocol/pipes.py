"""Transport on descriptors: pipes, sockets, terminals and files.

Descriptors are never made non-blocking: that would change them for every process that shares them.

The event loop reads pipes, sockets and terminals itself when they are readable. It cannot watch a file or /dev/null,
so a thread reads those. A thread writes, because only blocking writes work for all of them. It also polls the
descriptor while there is nothing to write, so that a closed reader is noticed at once. What a pipe takes without
blocking, the event loop writes itself, which saves a switch to the thread.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tau.runtime.protocol.line_queue import LineQueue
from tau.runtime.protocol.requests import InputLine
from tau.runtime.protocol.transport import LineHandler
from tau.wire.lines import MAX_LINE_BYTES

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import BatchSource

logger = logging.getLogger(__name__)
SMALL_READ_BYTES = 8 * 1024  # allocating a large buffer costs more than reading a command
LARGE_READ_BYTES = 256 * 1024  # after a read that filled a small buffer
# A pipe that polls as writable takes this much without blocking.
PIPE_BUF_BYTES = 4096
RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)  # Linux: fail instead of blocking, for one write
PIPE_BYTES = 64 * 1024  # the buffer of a pipe on Linux
CURRENT_POSITION = -1  # of pwritev: the only one that a pipe has
NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE)  # a terminal, a file, an old kernel
LARGE_PIPE_BYTES = 1024 * 1024  # the largest that Linux allows every user
CLOSE_TIMEOUT_S = 1.0  # for the writer thread to end; one that is blocked in a write ends with that write


class PipeTransport:
    """Reads lines from one descriptor and writes to another. The caller owns the descriptors."""

    def __init__(self, stdin: int, stdout: int, line_limit: int = MAX_LINE_BYTES) -> None:
        self._reader = PipeReader(stdin, line_limit)
        self._writer = PipeWriter(stdout)
        self.receive = self._reader.receive
        self.deliver_to = self._reader.deliver_to
        self.connect = self._writer.connect
        self.write_now = self._writer.write_now
        self.write = self._writer.write

    async def close(self) -> None:
        self._reader.close()
        await self._writer.close()


class PipeReader:
    """Reads lines from a descriptor."""

    def __init__(self, descriptor: int, line_limit: int = MAX_LINE_BYTES) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue = LineQueue(self._resume, line_limit)
        self._room: threading.Event | None = None  # the reader thread, if there is one, waits for this
        self._closed = False
        self._read_bytes = SMALL_READ_BYTES
        try:
            self._loop.add_reader(descriptor, self._read)
        except (OSError, NotImplementedError):
            self._room = threading.Event()
            threading.Thread(target=self._read_in_thread, args=(self._room,), name="tau-stdin", daemon=True).start()

    async def receive(self) -> InputLine | None:
        return await self._queue.next()

    def deliver_to(self, handler: LineHandler) -> None:
        self._queue.deliver_to(handler)

    def close(self) -> None:
        """Stop reading. A thread that is blocked in a read ends with that read."""
        self._closed = True
        if self._room is not None:
            self._room.set()
        else:
            self._loop.remove_reader(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, self._read_bytes)
        except BlockingIOError:  # inherited as non-blocking, and another reader was faster
            return
        except OSError:
            data = b""
        self._read_bytes = SMALL_READ_BYTES if len(data) < SMALL_READ_BYTES else LARGE_READ_BYTES
        queue = self._queue
        queue.feed(data)
        if queue.ended or queue.full:
            self._loop.remove_reader(self._descriptor)

    def _resume(self) -> None:
        if self._closed:
            return
        if self._room is not None:
            self._room.set()
        else:
            self._loop.add_reader(self._descriptor, self._read)

    def _feed_from_thread(self, data: bytes) -> None:
        self._queue.feed(data)
        if self._room is not None and not self._queue.full:
            self._room.set()

    # Called in the thread.

    def _read_in_thread(self, room: threading.Event) -> None:
        data = b"-"
        while data and not self._closed:
            try:
                data = os.read(self._descriptor, LARGE_READ_BYTES)
            except OSError:
                data = b""
            room.clear()
            if self._closed:
                return
            try:
                self._loop.call_soon_threadsafe(self._feed_from_thread, data)
            except RuntimeError:  # the loop is closed
                return
            room.wait()


def enlarge_pipe(descriptor: int) -> None:
    """Enlarge the buffer of a pipe, so that a large batch wakes its reader less often. Only Linux supports this."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # not a pipe, or the user has too many of that size
            if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < LARGE_PIPE_BYTES:
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, LARGE_PIPE_BYTES)


class PipeWriter:
    """Writes batches to a descriptor."""

    _source: BatchSource

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._rest = b""  # of a batch; the thread writes it first
        self._can_fail = RWF_NOWAIT is not None  # instead of blocking; unknown before the first write
        self._is_enlarged = False  # the buffer of the pipe, for the first batch that needs it
        self._closing = False
        self._ended = asyncio.Event()
        self._wake_reader, self._wake_writer = os.pipe()

    def connect(self, source: BatchSource) -> None:
        self._source = source
        threading.Thread(target=self._write_in_thread, name="tau-stdout", daemon=True).start()

    def write_now(self, batch: bytes) -> bool:
        try:
            if self._can_fail:
                assert RWF_NOWAIT is not None
                written = os.pwritev(self._descriptor, (batch,), CURRENT_POSITION, RWF_NOWAIT)
            elif len(batch) <= PIPE_BUF_BYTES and self._is_writable():
                written = os.write(self._descriptor, batch)
            else:
                written = 0
        except BlockingIOError:
            written = 0
        except OSError as error:
            if not self._can_fail or error.errno not in NOT_SUPPORTED:
                self._loop.call_soon(self._source.connection_lost)
                return True
            self._can_fail = False
            return self.write_now(batch)
        if written == len(batch):
            return True
        self._rest = batch[written:]
        return False

    def write(self) -> None:
        """Let the thread write."""
        if not self._ended.is_set():
            os.write(self._wake_writer, b"x")

    async def close(self) -> None:
        self._closing = True
        self.write()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._ended.wait()

    def _is_writable(self, timeout_ms: int | None = 0) -> bool:
        """True if the descriptor is writable. With None, wait until it is, or until the reader has closed its end."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return any(event & select.POLLOUT for _, event in poll.poll(timeout_ms))

    def _release(self) -> None:
        """Called when the thread has ended."""
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        self._ended.set()

    # Called in the thread.

    def _write_in_thread(self) -> None:
        try:
            is_open = self._write_until_closed()
        except Exception:  # a record that cannot be encoded: without its line, nothing after it can be sent either
            logger.exception("the output could not be written")
            is_open = False
        if not is_open:
            self._call_in_loop(self._source.connection_lost)
        if not self._call_in_loop(self._release):
            self._release()

    def _write_until_closed(self) -> bool:
        """Write until `close` is called. Returns False if the reader has closed its end."""
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        poll.register(self._descriptor, 0)  # errors and hang-ups are always reported
        while not self._closing:
            ready = dict(poll.poll())
            if self._descriptor in ready:
                return False
            os.read(self._wake_reader, 4096)
            if not self._write_all():
                return False
        return True

    def _write_all(self) -> bool:
        batch, self._rest = memoryview(self._rest), b""
        while not self._closing and (batch or (batch := memoryview(self._source.take()))):
            if len(batch) > PIPE_BYTES and not self._is_enlarged:
                self._is_enlarged = True
                enlarge_pipe(self._descriptor)
            try:
                batch = batch[os.write(self._descriptor, batch) :]
            except BlockingIOError:  # inherited as non-blocking
                self._is_writable(timeout_ms=None)
            except OSError:
                return False
        return True

    def _call_in_loop(self, callback: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed
            return False
        return True
