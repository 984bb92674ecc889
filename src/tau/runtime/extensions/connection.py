"""tau's end of the extension protocol: calls, pings, actions and limits, over any transport.

docs/extension-protocol.md describes the protocol. The other end is not trusted. It may end, hang, flood the connection
or send invalid messages at any moment. It is then killed, every pending call fails with the reason, and the owner is
notified once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import copy_context
from itertools import count
from typing import Any, NamedTuple, NoReturn, Protocol

from tau.errors import ExtensionFailure
from tau.extension_api.messages import (
    Action,
    Answer,
    Call,
    Cancel,
    Facts,
    Failed,
    FromExtension,
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
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, decode, encode
from tau.runtime.extensions.action_tasks import ActionTasks
from tau.runtime.extensions.limits import (
    MAX_ACTION_BYTES,
    MAX_ACTIONS,
    MAX_MESSAGES_PER_SECOND,
    MAX_REGISTRATION_BYTES,
    MAX_REGISTRATIONS,
    MessageRate,
    RegistrationLimit,
)
from tau.runtime.extensions.registry import (
    HandlerError,
    PausableTimeout,
    ProgressCallback,
    calling_session,
    current_pieces,
    current_timeout,
)

logger = logging.getLogger(__name__)

PING_TIMEOUT_S = 5.0  # for the ping that follows a cancelled call
KILL_GRACE_S = 0.5  # wait for the end of a killed extension


class Transport(Protocol):
    """Runs the host of an extension and carries messages to and from it, each the JSON text of one message."""

    async def start(self, receiver: ExtensionReceiver) -> None:
        """Start the host and connect to it. Raises ExtensionFailure."""

    def send(self, message: bytes) -> None:
        """Send a message without waiting. Messages to a host that is gone are dropped."""

    def answer_sync(self, message: bytes) -> None:
        """Send the answer to a synchronous read, for which the host blocks."""

    def kill(self) -> None:
        """End the host by force, without waiting. `Receiver.closed` follows."""

    @property
    def peers(self) -> object:
        """Identifies the process: extensions with the same one hear each other's bus without tau."""


class Receiver(Protocol):
    """Receives what the transport reports, in the event loop."""

    def received(self, message: bytes) -> None: ...

    def broken(self, why: str) -> None:
        """The transport can no longer be used, but the host may still run."""

    def closed(self, why: str, *, reported: bool = False) -> None:
        """The host has ended. Called once, and last. `reported`: another extension of the same host reports it."""


class ExtensionReceiver(Receiver, Protocol):
    """What a transport asks that several extensions share."""

    @property
    def busy(self) -> bool:
        """True while a call waits for its answer."""

    @property
    def loaded(self) -> bool:
        """True if the extension was loaded."""

    @property
    def load(self) -> Load:
        """The first message to the extension."""


class Owner(Protocol):
    """Owner of the connection; receives what the extension sends."""

    def registered(self, message: Register) -> None: ...

    def unregistered(self, message: Unregister) -> None: ...

    def report_trouble(self, message: Trouble) -> None: ...

    async def perform(self, name: str, params: dict[str, Any]) -> Any:
        """Perform an action. `current_timeout` is that of the call during which it is requested."""

    def ended(self, why: str, *, reported: bool) -> None:
        """`reported`: the reason has already been reported, for example to a pending call."""


class PendingCall:
    """A call that waits for its answer."""

    def __init__(
        self,
        answer: asyncio.Future[Any],
        timeout: PausableTimeout | None,
        update: ProgressCallback | None,
        loud: bool,
    ) -> None:
        """`loud`: a failure of this call is reported to the client."""
        self.answer = answer
        self.timeout = timeout
        self.update = update
        self.loud = loud
        self.dialogs: set[asyncio.Task[None]] = set()


class End(NamedTuple):
    """Why the connection ends: it is killed, stopping or closed."""

    why: str
    reported: bool = False
    notify_owner: bool = True

    @property
    def ignore_messages(self) -> bool:
        """An extension that stops as requested may still finish what it does; others are only killed."""
        return not self.reported


class ChangedFacts:
    """The facts that have changed since they were sent last."""

    def __init__(self, sent: Mapping[str, Any], current: Callable[[], dict[str, Any]]) -> None:
        self._sent = dict(sent)
        self._current = current

    def take(self) -> dict[str, Any]:
        sent = self._sent
        changed = {name: value for name, value in self._current().items() if name not in sent or sent[name] != value}
        sent.update(changed)
        return changed


class ExtensionConnection:
    """The connection to one running extension, from its first message to its end."""

    def __init__(self, load: Load, transport: Transport, owner: Owner, facts: Callable[[], dict[str, Any]]) -> None:
        loop = asyncio.get_running_loop()
        self.load = load
        self._transport = transport
        self._owner = owner
        self._facts = ChangedFacts(load.facts, facts)
        self._ids = count(1)
        self._calls: dict[int, PendingCall] = {}
        self._pings: dict[int, asyncio.TimerHandle] = {}
        self._actions = ActionTasks(owner, self._answer_action)
        self._rate = MessageRate()
        self._registrations = RegistrationLimit()
        self._end: End | None = None
        self._loaded: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()

    # Called by the owner.

    async def start(self, seconds: float) -> None:
        """Start the extension and wait until it is loaded. Raises ExtensionFailure; the extension is killed then."""
        await self._transport.start(self)
        await self._send_and_load(self.load, seconds)

    async def renew(self, seconds: float) -> None:
        """Let the extension start anew in its process. Raises ExtensionFailure; the extension is killed then."""
        self._loaded = asyncio.get_running_loop().create_future()
        self._registrations = RegistrationLimit()
        self.send_facts()
        await self._send_and_load(Renew(), seconds)

    async def _send_and_load(self, message: Load | Renew, seconds: float) -> None:
        try:
            self._send(message)
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._loaded)
        except TimeoutError:
            await self._fail(f"It was not loaded within {seconds:g} s.")
        except ExtensionFailure as failure:
            await self._fail(str(failure))
        except BaseException:
            self.kill()
            raise

    async def _fail(self, why: str) -> NoReturn:
        self._end = End(why, notify_owner=False)
        self.kill()
        await asyncio.wait([self._closed], timeout=KILL_GRACE_S)
        raise ExtensionFailure(why)

    async def call(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Any:
        """Call a registered function. Raises ExtensionFailure.

        If the caller is cancelled, the extension receives a Cancel; if it then does not answer a ping, it is killed.
        """
        if self._end is not None:
            raise ExtensionFailure(self._end.why)
        id = next(self._ids)
        answer = asyncio.get_running_loop().create_future()
        pending = self._calls[id] = PendingCall(answer, current_timeout.get(), update, loud)
        try:
            self.send_facts()
            self._send(Call(id, target, dict(params)))
            return await answer
        except asyncio.CancelledError:
            self._cancel(id, timed_out=pending.timeout is not None and pending.timeout.over)
            raise
        finally:
            del self._calls[id]
            for task in pending.dialogs:
                task.cancel()

    async def stop(self, seconds: float) -> None:
        """Ask the extension to stop, and kill it after `seconds`."""
        if self._end is None:
            self._end = End("It was stopped.", reported=True)
            self._send(Stop())
            await asyncio.wait([self._closed], timeout=seconds)
        self.kill()
        await asyncio.wait([self._closed], timeout=KILL_GRACE_S)

    def kill(self) -> None:
        """Kill the extension. Does not wait."""
        self._transport.kill()

    # Called by the transport.

    def received(self, message: bytes) -> None:
        if self._end is not None and self._end.ignore_messages:
            return
        now = asyncio.get_running_loop().time()
        if self._rate.too_many_messages(now):
            return self.broken(f"It sent more than {MAX_MESSAGES_PER_SECOND} messages within a second.")
        if len(self._actions) > MAX_ACTIONS or self._actions.size > MAX_ACTION_BYTES:
            limits = f"{MAX_ACTIONS} requests, or {MAX_ACTION_BYTES >> 20} MiB of them"
            return self.broken(f"It has more than {limits} in progress.")
        try:
            parsed: Message = decode(FromExtension, message, MAX_RECEIVED_NESTING)  # type: ignore[arg-type]
        except BadRecord as error:
            return self.broken(f"It sent what is no message: {error}")
        self._handle(parsed, len(message))

    def broken(self, why: str, *, reported: bool = False) -> None:
        """Kill the extension for this reason, unless it is ending already for another."""
        if self._end is None:
            self._end = End(why, reported)
            logger.warning("extension %s: %s", self.load.path, why)
        self.kill()

    @property
    def usable(self) -> bool:
        """False if it has ended, or is about to."""
        return self._end is None

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    @property
    def loaded(self) -> bool:
        return self._loaded.done() and self._loaded.exception() is None

    @property
    def peers(self) -> object:
        return self._transport.peers

    def closed(self, why: str, *, reported: bool = False) -> None:
        end = self._end = self._end or End(why, reported)
        self._closed.set_result(None)
        for timer in self._pings.values():
            timer.cancel()
        self._actions.cancel_dialogs()  # its other actions run to completion
        reported = end.reported
        for pending in list(self._calls.values()):
            if not pending.answer.done():
                reported = reported or pending.loud
                pending.answer.set_exception(ExtensionFailure(end.why))
        if not self._loaded.done():
            self._loaded.set_exception(ExtensionFailure(end.why))
            self._loaded.exception()  # retrieved: `start` may have been cancelled
            reported = True
        if end.notify_owner:
            self._owner.ended(end.why, reported=reported)

    # Sending.

    def _send(self, message: Message) -> None:
        self._transport.send(encode(message))

    def send_facts(self) -> None:
        """Send the facts that have changed since the last message."""
        if changed := self._facts.take():
            self._send(Facts(changed))

    def _answer_action(self, answer: Answer, sync: bool) -> None:
        if sync:
            self._transport.answer_sync(encode(answer))
            return
        self.send_facts()
        self._send(answer)

    def _cancel(self, id: int, *, timed_out: bool) -> None:
        if self._end is not None:
            return
        self._send(Cancel(id))
        ping = next(self._ids)
        self._send(Ping(ping))
        why = "It did not stop what it was asked to stop, and was ended."
        self._pings[ping] = asyncio.get_running_loop().call_later(
            PING_TIMEOUT_S, lambda: self.broken(why, reported=timed_out)
        )

    # Messages from the extension.

    def _handle(self, message: Message, size: int) -> None:
        """Handle a message that had `size` bytes."""
        match message:
            case Answer(id=id) if (pending := self._calls.get(id)) is not None:
                if not pending.answer.done():
                    self._resolve(pending, message)
            case Update(id=id) if (pending := self._calls.get(id)) is not None:
                room = None if pending.update is None else pending.update(message.value)
                if isinstance(message.ask, int):
                    self._actions.answer_when(room, message.ask, self._send)
            case Tell() | Action():
                self._perform(message, size)
            case Register():
                self._register(message, size)
            case Unregister():
                self._registrations.remove(message.target)
                self._owner.unregistered(message)
            case Pong(id=id) if id in self._pings:
                self._pings.pop(id).cancel()
            case Trouble():
                if not self._rate.too_many_reports():
                    self._owner.report_trouble(message)
            case Loaded() if not self._loaded.done():
                self._loaded.set_result(None)
            case Failed(error=error) if not self._loaded.done():
                self._loaded.set_exception(ExtensionFailure(error))

    def _resolve(self, pending: PendingCall, message: Answer) -> None:
        if isinstance(message.error, str):
            if isinstance(message.where, str):
                logger.warning("extension %s: %s at %s", self.load.path, message.error, message.where)
            pending.answer.set_exception(HandlerError(message.error))
        else:
            pending.answer.set_result(message.value)

    def _register(self, message: Register, size: int) -> None:
        if self._registrations.add(message.target, size):
            self._owner.registered(message)
        else:
            limits = f"{MAX_REGISTRATIONS} times, or {MAX_REGISTRATION_BYTES >> 20} MiB"
            self.broken(f"It registered something more than {limits}.")

    def _perform(self, message: Tell | Action, size: int) -> None:
        if message.name == "withdraw":
            self._actions.withdraw(message.params.get("ask"))
            return
        pending = self._calls.get(message.call) if isinstance(message.call, int) else None
        context = copy_context()
        context.run(current_timeout.set, None if pending is None else pending.timeout)
        context.run(calling_session.set, message.session if isinstance(message.session, str) else None)
        if isinstance(message, Action):
            id = message.id
            context.run(current_pieces.set, lambda value: self._send(Piece(id, value)))
        context.run(self._actions.start, message, None if pending is None else pending.dialogs, size)
