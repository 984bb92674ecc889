"""The extension's end of the extension protocol: registrations, calls and actions, over any transport.

A pong means two things: the extension responds, and no cancelled call is still running. tau therefore kills an
extension in which cancelled code does not stop.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from itertools import count
from typing import Any, Protocol

from tau.concurrency.tasks import INNER_CANCELLATION, await_foreign, failure_of
from tau.errors import ExtensionFailure
from tau.extension_api.api import Pi
from tau.extension_api.channel import SetupChannel, TargetFunction
from tau.extension_api.latest_tells import LATEST_WINS, LatestTells
from tau.extension_api.loader import ModuleSources, describe_error, error_location, error_text, load_setup
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
    Piece,
    Ping,
    Pong,
    Register,
    Renew,
    Stop,
    Tell,
    Trouble,
    Unregister,
    Update,
)
from tau.records.base import UNSET, UnsetType, decode, encode

current_call: contextvars.ContextVar[int | UnsetType] = contextvars.ContextVar("call", default=UNSET)


class Transport(Protocol):
    """Carries messages to tau. What it receives it passes to `TauConnection.received` and `TauConnection.end`."""

    def send(self, message: bytes) -> None:
        """Send the JSON text of one message. Called in the thread of the event loop only."""


class LoopThread:
    """The event loop and its thread: code of extensions may run in others."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def is_current(self) -> bool:
        return threading.get_ident() == self._thread

    def call_soon(self, work: Callable[..., object], *args: Any) -> None:
        """Schedule work in the event loop; thread-safe."""
        (self.loop.call_soon if self.is_current() else self.loop.call_soon_threadsafe)(work, *args)

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        """Schedule work for later in the event loop; thread-safe."""
        self.call_soon(lambda: self.loop.call_later(seconds, work))


class OrderedSender:
    """Sends the messages of all threads in the order in which they were sent.

    What another thread has sent waits for the event loop, which may send the answer to the call of that thread first.
    """

    def __init__(self, transport: Transport, thread: LoopThread) -> None:
        self._transport = transport
        self._thread = thread
        self._waiting: deque[bytes] = deque()  # of other threads

    def send(self, message: bytes) -> None:
        self._waiting.append(message)
        if self._thread.is_current():
            self._flush()
        else:
            self._thread.call_soon(self._flush)

    def _flush(self) -> None:
        while self._waiting:
            self._transport.send(self._waiting.popleft())


class ActiveCall:
    """A call in progress. Updates are coalesced: of those not sent yet, only the newest is sent."""

    def __init__(self, id: int, connection: TauConnection) -> None:
        self.id = id
        self.cancelled = False
        self.task: asyncio.Task[None] | None = None
        self._connection = connection
        self._newest: list[Any] = []

    def update(self, value: Any) -> None:
        scheduled = bool(self._newest)
        self._newest[:] = [value]
        if not scheduled:
            self._connection.thread.call_soon(self.flush)

    async def put(self, value: Any) -> None:
        await self._connection.request(lambda id: Update(self.id, value, id))

    def flush(self) -> None:
        if self._newest:
            self._connection.send(Update(self.id, self._newest.pop()))


class TauConnection:
    """The channel of an extension to tau.

    `before_load` runs when tau has sent what to load, before any code of the extension.
    """

    def __init__(self, transport: Transport, before_load: Callable[[Load], None] = lambda load: None) -> None:
        self.facts: dict[str, Any] = {}
        self.thread = LoopThread()
        self.closed: asyncio.Future[None] = self.thread.loop.create_future()
        self._sender = OrderedSender(transport, self.thread)
        self._before_load = before_load
        self._path = ""
        self._present: SetupChannel | None = None
        self._begin_again: Callable[[], None] = lambda: None
        self._ids = count(1)
        self._targets: dict[int, TargetFunction] = {}
        self._calls: dict[int, ActiveCall] = {}
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._latest = LatestTells(lambda message: self._sender.send(encode(message)), self.thread.call_later)

    # Called by the transport.

    def received(self, line: bytes) -> None:
        message: Message = decode(FromTau, line, nesting=None)  # type: ignore[arg-type]
        MESSAGE_HANDLERS[type(message)](self, message)

    def end(self) -> None:
        """tau has asked for the end, or is gone."""
        if not self.closed.done():
            self.closed.set_result(None)

    # Messages to tau

    def send(self, message: Message) -> None:
        self._send_encoded(encode(message))

    def register(self, kind: str, name: str, spec: dict[str, Any], run: TargetFunction | None = None) -> int:
        target = next(self._ids)
        if run is not None:
            self._targets[target] = run
        self.send(Register(kind, target, name, spec))
        return target

    def unregister(self, target: int) -> None:
        self._targets.pop(target, None)
        self.send(Unregister(target))

    def tell(self, name: str, params: dict[str, Any]) -> None:
        message = Tell(name, params, current_call.get(), self._session_id())
        if name in LATEST_WINS and self.facts.get("mode") == "tui":
            self._latest.put(message)
        else:
            self.send(message)

    async def act(self, name: str, params: dict[str, Any]) -> Any:
        return await self.request(lambda id: Action(id, name, params, current_call.get(), self._session_id()))

    def _session_id(self) -> str | UnsetType:
        id = self.facts.get("sessionId")
        return id if isinstance(id, str) else UNSET

    async def request(self, message: Callable[[int], Message]) -> Any:
        """Send a message with a new id and wait for its answer."""
        id = next(self._ids)
        answer = self._pending[id] = self.thread.loop.create_future()
        try:
            self.send(message(id))
            return await answer
        finally:
            self._pending.pop(id, None)

    def report_failure(self, error: BaseException | None, what: str = "") -> None:
        """Report a failure outside of any call."""
        with suppress(Exception):
            self.send(Trouble(describe_error(error, self._path) if error else what))

    def _send_encoded(self, message: bytes) -> None:
        self._latest.flush()
        self._sender.send(message)

    # Messages from tau

    def _load(self, message: Load) -> None:
        self.facts = message.facts
        self._path = message.path
        self._before_load(message)
        self._begin_again = partial(self._begin, message, ModuleSources(message.modules))
        self._begin_again()

    def _renew(self, message: Renew) -> None:
        self._latest.clear()
        for target in list(self._targets):
            self.unregister(target)
        self._begin_again()

    def _begin(self, message: Load, sources: ModuleSources) -> None:
        left, self._present = self._present, SetupChannel(self)
        if left is not None:
            left.next = self._present
        self._create_task(self._set_up(message, sources, self._present))

    async def _set_up(self, message: Load, sources: ModuleSources, channel: SetupChannel) -> None:
        pi = Pi(channel, message.flags, message.following)
        try:
            setup = load_setup(message.path, sources)
        except ExtensionFailure as failure:  # its text contains the location
            self.send(Failed(str(failure)))
            return
        try:
            value = setup(pi)
            if isawaitable(value):
                await await_foreign(value)
        except BaseException as error:
            self.send(Failed(describe_error(failure_of(error), message.path)))
        else:
            pi.mark_loaded()
            self.send(Loaded())

    def _update_facts(self, message: Facts) -> None:
        self.facts.update(message.facts)

    def _call(self, message: Call) -> None:
        run = self._targets.get(message.target)
        if run is None:  # unregistered while the call was in transit
            self.send(Answer(message.id))
            return
        call = self._calls[message.id] = ActiveCall(message.id, self)
        call.task = self.thread.loop.create_task(self._answer(call, run, message.params))

    async def _answer(self, call: ActiveCall, run: TargetFunction, params: dict[str, Any]) -> None:
        current_call.set(call.id)
        try:
            answer = Answer(call.id, await run(params, call))
            call.flush()
            data = encode(answer)
        except asyncio.CancelledError as error:
            if call.cancelled or self.closed.done():
                raise
            data = encode(Answer(call.id, error=INNER_CANCELLATION, where=error_location(error, self._path) or UNSET))
        except BaseException as error:
            failure = failure_of(error)
            data = encode(
                Answer(call.id, error=error_text(failure), where=error_location(failure, self._path) or UNSET)
            )
        finally:
            del self._calls[call.id]
        self._send_encoded(data)

    def _cancel(self, message: Cancel) -> None:
        call = self._calls.get(message.id)
        if call is not None and call.task is not None:
            call.cancelled = True
            call.task.cancel()

    def _pong(self, message: Ping) -> None:
        self._create_task(self._send_pong(message.id))

    async def _send_pong(self, id: int) -> None:
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
        self.end()

    def _create_task(self, work: Any) -> None:
        task = self.thread.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


MESSAGE_HANDLERS: dict[type[Message], Callable[[TauConnection, Any], None]] = {
    Load: TauConnection._load,
    Renew: TauConnection._renew,
    Facts: TauConnection._update_facts,
    Call: TauConnection._call,
    Cancel: TauConnection._cancel,
    Ping: TauConnection._pong,
    Piece: lambda connection, message: None,  # no action of this API has parts
    Answer: TauConnection._answered,
    Stop: TauConnection._stop,
}
