"""A Node process that runs several TypeScript extensions, and the transport of each of them.

Messages to and from an extension have its number before them; number 0 is the host itself. Extensions load one after
the other, in the order in which their transports were created. An extension that fails to load leaves the others
alone; one that hangs takes the process, and so all of them, with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from tau.errors import ExtensionFailure, NodeUnsupported
from tau.extension_api.messages import Load
from tau.records.base import BadRecord, encode, parse
from tau.runtime.extensions.connection import ExtensionReceiver
from tau.runtime.extensions.process import ExtensionProcess
from tau.store.node_program import REQUIRED
from tau.store.typescript_cache import cached_code

API = Path(__file__).parents[2] / "extension_api"
HOST = API / "node" / "host.mjs"
LAUNCHER = (sys.executable, "-I", "-S", str(API / "launch_node.py"))
SYNC_TIMEOUT_S = 5  # for a synchronous read of an extension
CLOSE_GRACE_S = 1.0  # for an extension that failed to load, to be removed from its process
BUFFER_BYTES = 1024 * 1024
# Signals by which Node ends when its memory limit is reached.
OUT_OF_MEMORY = ("SIGABRT", "SIGTRAP", "SIGILL", "code 134", "code 133")


class SyncSocket(asyncio.Protocol):
    """Carries the answers to synchronous reads, for which the process blocks."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport  # of any loop; transports of uvloop are not instances of asyncio.Transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class NodeProcess:
    """One process. `ended` is called when it has ended, with True if that was not requested."""

    def __init__(
        self,
        node: str,
        cwd: str,
        memory_mb: int,
        environment: Mapping[str, str] | None,
        ended: Callable[[NodeProcess, bool], None],
    ) -> None:
        self.gone = False
        self._node = node
        self._cwd = cwd
        self._memory_mb = memory_mb
        self._environment = environment
        self._ended = ended
        self._numbers = count(1)
        self._lines: dict[int, NodeLine] = {}  # open ones, and those that wait for their turn to load
        self._sync = SyncSocket()
        self._process: ExtensionProcess | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ready = False
        self.version = ""  # of Node, as "v22.18.0"
        self._requested = False  # tau has asked it to end
        self._culprit: NodeLine | None = None

    @property
    def usable(self) -> bool:
        """False if it has ended, or was asked to."""
        return not self.gone and not (self._requested and self._process is not None)

    def line(self, path: str) -> NodeLine:
        self._requested = False
        number = next(self._numbers)
        line = self._lines[number] = NodeLine(self, number, path)
        return line

    # Called by the lines.

    async def connect(self) -> None:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        await asyncio.shield(self._starting)

    def send(self, number: int, message: bytes) -> None:
        if self._process is not None:
            self._process.send(b"%d %s" % (number, message))

    def answer_sync(self, message: bytes) -> None:
        self._sync.send(message + b"\n")

    def kill(self, culprit: NodeLine | None) -> None:
        self._culprit = self._culprit or culprit
        if self._process is not None:
            self._process.kill()

    def remove(self, line: NodeLine) -> None:
        """Remove a line that is closed. The process ends with the last one."""
        if self._lines.pop(line.number, None) is None:
            return
        if self._lines:
            self.pass_turn()
        else:
            self.end()

    def end(self) -> None:
        """Let the process end by itself; its last extension is closed."""
        self._requested = True
        self.send(0, b'{"type":"exit"}')

    def is_last(self, line: NodeLine) -> bool:
        return self._lines.keys() == {line.number}

    def pass_turn(self) -> None:
        """Let the next extension load, if it is ready to and the one before it has loaded."""
        if not self._ready:
            return
        for line in self._lines.values():
            if not line.settled:
                line.release()
                return

    # The process.

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        timeout = struct.pack("@ll", SYNC_TIMEOUT_S, 0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        memory, sync = str(self._memory_mb), str(theirs.fileno())
        command = (*LAUNCHER, self._node, str(HOST), memory, sync)
        self._process = ExtensionProcess(self._cwd, command, self._environment, (theirs.fileno(),))
        with theirs:
            try:
                await self._process.start(self)
            except BaseException:
                ours.close()
                raise
        await asyncio.get_running_loop().create_unix_connection(lambda: self._sync, sock=ours)

    # Called by the process.

    def received(self, message: bytes) -> None:
        number, _, body = message.partition(b" ")
        if number == b"0":
            try:
                control = parse(body)
            except BadRecord:
                control = None
            if isinstance(control, dict):
                self._control(control)
            else:
                self.broken("It sent what is no message.")
        elif number.isdigit() and len(number) < 10 and (line := self._lines.get(int(number))) is not None:
            line.received(body)

    def broken(self, why: str) -> None:
        for line in list(self._lines.values()):
            line.broken(why)
        self.kill(None)

    def closed(self, why: str, *, reported: bool = False) -> None:
        self.gone = True
        self._sync.close()
        lines, self._lines = list(self._lines.values()), {}
        why = self._reason(why)
        culprit = self._culprit or next((line for line in lines if line.busy), lines[0] if lines else None)
        for line in lines:
            line.ended(why, is_culprit=line is culprit or culprit is None, culprit=culprit)
        self._ended(self, not self._requested)

    def _reason(self, why: str) -> str:
        if self._culprit is None and any(signal in why for signal in OUT_OF_MEMORY):
            return f"Its process ran out of memory ({self._memory_mb} MB)."
        return why

    def _control(self, message: dict[str, object]) -> None:
        kind, number = message.get("type"), message.get("number")
        line = self._lines.get(number) if isinstance(number, int) else None
        if kind == "ready":
            self._ready, self.version = True, str(message.get("version"))
            self.pass_turn()
        elif kind == "unsupported":
            problem = (
                f"Extensions in TypeScript need Node {REQUIRED} or later; {self._node} is {message.get('program')}"
            )
            for line in list(self._lines.values()):
                line.refuse(NodeUnsupported(problem))
        elif kind == "loading_done" and line is not None:
            line.settled = True
            self.pass_turn()
        elif kind == "closed" and line is not None:
            line.confirm_close()


class NodeLine:
    """The transport of one extension in a NodeProcess."""

    def __init__(self, process: NodeProcess, number: int, path: str) -> None:
        self.number = number
        self.path = path
        self.settled = False  # it has loaded, or never will
        self._process = process
        self._receiver: ExtensionReceiver | None = None
        self._turn: asyncio.Future[None] | None = None
        self._started = False
        self._closing: asyncio.TimerHandle | None = None

    # Transport

    @property
    def peers(self) -> object:
        return self._process

    async def start(self, receiver: ExtensionReceiver) -> None:
        self._receiver = receiver
        self._turn = asyncio.get_running_loop().create_future()
        try:
            await self._process.connect()
            self._process.pass_turn()
            await self._turn
            self._send_code(receiver.load)
        except BaseException:
            self._process.remove(self)
            raise
        self._started = True

    def _send_code(self, load: Load) -> None:
        """Send what the cache has of its modules, so that Node needs neither remove their types nor check digests."""
        code = cached_code(load.modules, load.agent_dir, self._process.version)
        if code:
            self.send(encode({"type": "code", "code": code}))

    def send(self, message: bytes) -> None:
        self._process.send(self.number, message)

    def answer_sync(self, message: bytes) -> None:
        self._process.answer_sync(message)

    def kill(self) -> None:
        """End the process; for an extension that is not loaded, only the extension, if the process responds."""
        if not self._started:
            self._process.remove(self)
        elif (self.settled and self._failed_to_load) or (not self.settled and self._closing is None):
            self._close()
        else:
            self._process.kill(self)

    @property
    def _failed_to_load(self) -> bool:
        return self._receiver is not None and not self._receiver.loaded

    def _close(self) -> None:
        if self._closing is None:
            self.send(b'{"type":"close"}')
            loop = asyncio.get_running_loop()
            self._closing = loop.call_later(CLOSE_GRACE_S, lambda: self._process.kill(self))

    # Called by the process.

    @property
    def busy(self) -> bool:
        return self._receiver is not None and self._receiver.busy

    def release(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    def refuse(self, failure: ExtensionFailure) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_exception(failure)

    def received(self, message: bytes) -> None:
        if self._receiver is not None:
            self._receiver.received(message)

    def broken(self, why: str) -> None:
        if self._receiver is not None:
            self._receiver.broken(why)

    def confirm_close(self) -> None:
        """The extension is closed. The end of the last one is the end of the process."""
        if self._closing is not None:
            self._closing.cancel()
        last = self._process.is_last(self)
        if not last and self._receiver is not None:
            receiver, self._receiver = self._receiver, None
            self._process.remove(self)
            receiver.closed("It was stopped.")
        elif last:
            self._process.end()

    def ended(self, why: str, *, is_culprit: bool, culprit: NodeLine | None) -> None:
        if self._closing is not None:
            self._closing.cancel()
        if not self._started:
            self.refuse(ExtensionFailure(why))
        elif self._receiver is not None:
            name = os.path.basename(culprit.path) if culprit is not None else ""
            shared = why if is_culprit else f"It shared a process with {name}, which failed: {why}"
            self._receiver.closed(shared, reported=not is_culprit)
