"""The child process of an extension: python -P -m tau.extension_api.child_process DESCRIPTOR PARENT

It isolates the extension from tau. The channel to tau is a socket that programs started from here do not inherit.
Standard input is empty, and everything written to standard output goes to standard error. The process dies with tau,
and its memory is limited.

A pong means two things: the process responds, and no cancelled call is still running. tau therefore kills a process in
which cancelled code does not stop.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Any

from tau.errors import ExtensionFailure
from tau.extension_api.api import Pi
from tau.extension_api.context import Run
from tau.extension_api.loader import load, text, told, where
from tau.extension_api.messages import (
    Action,
    Answer,
    Call,
    Cancel,
    Facts,
    Failed,
    FromTau,
    Load,
    Loaded,
    Message,
    Ping,
    Pong,
    Register,
    Stop,
    Tell,
    Trouble,
    Unregister,
    Update,
)
from tau.records.base import UNSET, UnsetType, decode, encode
from tau.wire.lines import LineDecoder, TooLong

PR_SET_PDEATHSIG = 1
MIB = 1024 * 1024
ENDLESS = 1 << 62  # lines from tau need no limit

CALL: contextvars.ContextVar[int | UnsetType] = contextvars.ContextVar("call", default=UNSET)


class Answering:
    """A call in progress. Updates are coalesced: of those not sent yet, only the newest is sent."""

    def __init__(self, id: int, channel: ChildLine) -> None:
        self.id = id
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None
        self._channel = channel
        self._newest: list[Any] = []

    def update(self, value: Any) -> None:
        scheduled = bool(self._newest)
        self._newest[:] = [value]
        if not scheduled:
            self._channel.soon(self.flush)

    async def put(self, value: Any) -> None:
        await self._channel.asked(lambda id: Update(self.id, value, id))

    def flush(self) -> None:
        if self._newest:
            self._channel.send(Update(self.id, self._newest.pop()))


class ChildLine(asyncio.Protocol):
    """The extension's end of the channel to tau."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._decoder = LineDecoder(ENDLESS)
        self._transport: asyncio.Transport | None = None
        self._pi: Pi | None = None
        self._path = ""
        self._count = 0
        self._runs: dict[int, Run] = {}
        self._calls: dict[int, Answering] = {}
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.over: asyncio.Future[None] = self._loop.create_future()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for line in self._decoder.feed(data):
            if not isinstance(line, TooLong):
                message: Message = decode(FromTau, line, nesting=None)  # type: ignore[arg-type]
                HEARD[type(message)](self, message)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    # Messages to tau

    def soon(self, work: Callable[[], None]) -> None:
        """Schedule work with the socket in the event loop; thread-safe."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(work)
        else:
            self._loop.call_soon_threadsafe(work)

    def send(self, message: Message) -> None:
        self._write(encode(message) + b"\n")

    def register(self, kind: str, name: str, spec: dict[str, Any], run: Run | None = None) -> int:
        self._count += 1
        target = self._count
        if run is not None:
            self._runs[target] = run
        self.send(Register(kind, target, name, spec))
        return target

    def unregister(self, target: int) -> None:
        self._runs.pop(target, None)
        self.send(Unregister(target))

    def tell(self, name: str, params: dict[str, Any]) -> None:
        self.send(Tell(name, params, CALL.get()))

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        return await self.asked(lambda id: Action(id, name, params, CALL.get()))

    async def asked(self, message: Callable[[int], Message]) -> Any:
        """Send a message with a new id and wait for its answer."""
        self._count += 1
        id = self._count
        answer = self._pending[id] = self._loop.create_future()
        try:
            self.send(message(id))
            return await answer
        finally:
            self._pending.pop(id, None)

    def trouble(self, error: BaseException | None, what: str = "") -> None:
        """Report a failure outside of any call."""
        with suppress(Exception):
            self.send(Trouble(told(error, self._path) if error else what))

    def _write(self, data: bytes) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._write, data)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # Messages from tau

    def _load(self, message: Load) -> None:
        self.facts = message.facts
        self._path = message.path
        _limit_memory(message.memory_limit_mb)
        self._keep(self._loop.create_task(self._set_up(message)))

    async def _set_up(self, message: Load) -> None:
        pi = Pi(self, message.flags, message.following)
        try:
            setup = load(message.path, message.modules)
        except ExtensionFailure as failure:  # its text contains the location
            self.send(Failed(str(failure)))
            return
        try:
            value = setup(pi)
            if isawaitable(value):
                await value
        except Exception as error:
            self.send(Failed(told(error, message.path)))
        else:
            pi.begin()
            self.send(Loaded())

    def _update_facts(self, message: Facts) -> None:
        self.facts.update(message.facts)

    def _call(self, message: Call) -> None:
        run = self._runs.get(message.target)
        if run is None:  # unregistered while the call was in transit
            self.send(Answer(message.id))
            return
        call = self._calls[message.id] = Answering(message.id, self)
        call.task = self._loop.create_task(self._answer(call, run, message.params))

    async def _answer(self, call: Answering, run: Run, params: dict[str, Any]) -> None:
        CALL.set(call.id)
        try:
            answer = Answer(call.id, await run(params, call))
            call.flush()
            data = encode(answer)
        except Exception as error:
            data = encode(Answer(call.id, error=text(error), where=where(error, self._path) or UNSET))
        finally:
            del self._calls[call.id]
        self._write(data + b"\n")

    def _cancel(self, message: Cancel) -> None:
        call = self._calls.get(message.id)
        if call is not None and call.task is not None:
            call.cancelled = True
            call.task.cancel()

    def _pong(self, message: Ping) -> None:
        self._keep(self._loop.create_task(self._settle(message.id)))

    async def _settle(self, id: int) -> None:
        cancelled = [call.task for call in self._calls.values() if call.cancelled and call.task]
        if cancelled:
            await asyncio.wait(cancelled)
        self.send(Pong(id))

    def _answered(self, message: Answer) -> None:
        future = self._pending.pop(message.id, None)
        if future is None or future.done():
            return
        if isinstance(message.error, str):
            future.set_exception(ExtensionFailure(message.error))
        else:
            future.set_result(message.value)

    def _stop(self, message: Stop) -> None:
        self._end()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


HEARD: dict[type[Message], Callable[[ChildLine, Any], None]] = {
    Load: ChildLine._load,
    Facts: ChildLine._update_facts,
    Call: ChildLine._call,
    Cancel: ChildLine._cancel,
    Ping: ChildLine._pong,
    Answer: ChildLine._answered,
    Stop: ChildLine._stop,
}


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


async def _serve(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_unix_connection(ChildLine, sock=connection)
    loop.set_exception_handler(lambda _, what: channel.trouble(what.get("exception"), what.get("message", "")))
    threading.excepthook = lambda what: channel.trouble(what.exc_value)
    await channel.over


def _die_with(parent: int) -> None:
    """Die with tau. On Linux the kernel kills this process even if it hangs; elsewhere it ends with the socket."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def _limit_memory(megabytes: int) -> None:
    if megabytes:
        with suppress(ValueError, OSError):  # a lower limit is already set, or there is no such limit
            resource.setrlimit(resource.RLIMIT_AS, (megabytes * MIB, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
