"""Child process of an extension: start, messages, limits and end.

The process is not trusted. It may exit, hang, flood the connection or send invalid messages at any moment. It is
then killed with its whole process group, every pending call fails with the reason, and the owner is notified once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from tau.errors import ExtensionFailure
from tau.extension_api.messages import (
    DIALOGS,
    MAX_LINE_BYTES,
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
    Ping,
    Pong,
    Register,
    Stop,
    Tell,
    Trouble,
    Unregister,
    Update,
)
from tau.records.base import MAX_RECEIVED_NESTING, BadRecord, decode, encode
from tau.runtime.extensions.registry import HandlerError, PausableTimeout, ProgressCallback, current_timeout
from tau.wire.lines import LineDecoder, LineTooLong

log = logging.getLogger(__name__)

REACHABLE = 5.0  # seconds to answer the ping that follows a cancelled call
MESSAGES = 10_000  # per second from one process
ACTIONS = 1_000  # in progress at once
TROUBLES = 10  # reported per second; a timer can fail again and again
GRACE = 0.5  # seconds to read the remaining output of a process that has exited
PORTION = 64 * 1024


class Owner(Protocol):
    """Owner of the process; receives what the process sends."""

    def registered(self, message: Register) -> None: ...

    def unregistered(self, message: Unregister) -> None: ...

    def troubled(self, message: Trouble) -> None: ...

    async def acted(self, name: str, params: dict[str, Any]) -> Any:
        """Carry out an action. `current_timeout` is that of the call during which it is requested."""

    def ended(self, why: str, *, heard: bool) -> None:
        """`heard`: the reason has already been reported, for example to a pending call."""


@dataclass
class PendingCall:
    """A call that waits for its answer."""

    answer: asyncio.Future[Any]
    patience: PausableTimeout | None
    update: ProgressCallback | None
    loud: bool  # a failure of this call is reported to the client
    dialogs: set[asyncio.Task[None]] = field(default_factory=set)


class ExtensionProcess(asyncio.BufferedProtocol):
    def __init__(self, load: Load, owner: Owner, facts: Callable[[], dict[str, Any]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._load = load
        self._owner = owner
        self._facts = facts
        self._known: dict[str, Any] = dict(load.facts)
        self._decoder = LineDecoder(MAX_LINE_BYTES)
        self._buffer = bytearray(PORTION)
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._calls: dict[int, PendingCall] = {}
        self._pings: dict[int, asyncio.TimerHandle] = {}
        self._actions: set[asyncio.Task[None]] = set()
        self._dialogs: set[asyncio.Task[None]] = set()
        self._since, self._heard, self._troubles = 0.0, 0, 0
        self._why: str | None = None  # set once it is killed, stopping or has exited
        self._has_exited = False  # set in the event loop; the waiting thread knows earlier
        self._quiet = False  # the reason has already been reported
        self._failed = False  # it never loaded; `start` has reported that to the owner
        self.loaded: asyncio.Future[None] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()

    # Called by the owner.

    async def start(self, seconds: float) -> None:
        """Start the process and wait until it is loaded. Raises ExtensionFailure; the process is killed then."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ExtensionFailure(f"Its process cannot be started: {error.strerror}") from None
        with theirs:
            command = [
                sys.executable,
                "-P",
                "-m",
                "tau.extension_api.child_process",
                str(theirs.fileno()),
                str(os.getpid()),
            ]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    cwd=self._load.cwd,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise ExtensionFailure(f"Its process cannot be started: {error.strerror}") from None
        try:
            threading.Thread(target=self._watch, name="wait for an extension", daemon=True).start()
        except RuntimeError as error:  # the limit of threads is reached
            self.kill()
            self._process.wait()
            ours.close()
            raise ExtensionFailure(f"Its process cannot be started: {error}") from None
        try:
            await self._loop.create_unix_connection(lambda: self, sock=ours)
            self._send(self._load)
            async with asyncio.timeout(seconds):
                await asyncio.shield(self.loaded)
        except TimeoutError:
            await self._fail(f"It was not loaded within {seconds:g} s.")
        except ExtensionFailure as failure:
            await self._fail(str(failure))
        except BaseException:
            self.kill()
            raise

    async def _fail(self, why: str) -> NoReturn:
        self._why, self._failed = why, True
        self.kill()
        await asyncio.wait([self.over], timeout=GRACE)
        raise ExtensionFailure(why)

    async def call(
        self, target: int, params: Mapping[str, Any], update: ProgressCallback | None = None, *, loud: bool = True
    ) -> Any:
        """Call a registered function. Raises ExtensionFailure.

        If the caller is cancelled, the extension receives a Cancel; if it then does not answer a ping, it is killed.
        """
        if self._why is not None or self._transport is None:
            raise ExtensionFailure(self._why or "It is not there any more.")
        id = self._next()
        waiting = self._calls[id] = PendingCall(self._loop.create_future(), current_timeout.get(), update, loud)
        try:
            self._tell_facts()
            self._send(Call(id, target, dict(params)))
            return await waiting.answer
        except asyncio.CancelledError:
            self._give_up(id, late=waiting.patience is not None and waiting.patience.over)
            raise
        finally:
            del self._calls[id]
            for task in waiting.dialogs:
                task.cancel()

    async def stop(self, seconds: float) -> None:
        """Ask the process to stop, and kill it after `seconds`."""
        if self._why is None:
            self._why = "It was stopped."
            self._quiet = True
            self._send(Stop())
            await asyncio.wait([self.over], timeout=seconds)
        self.kill()
        await asyncio.wait([self.over], timeout=GRACE)

    def kill(self) -> None:
        """Kill the process and everything it started that is still in its group. Does not wait."""
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def _end(self, why: str, *, quiet: bool = False) -> None:
        if self._why is None:
            self._why = why
            self._quiet = quiet
            log.warning("extension %s: %s", self._load.path, why)
        self.kill()

    # End of the process.

    def _watch(self) -> None:
        """Wait for the process, in a thread.

        Until the process is reaped, its PID, which is also the process group id, cannot be reused. So the group is
        killed first.
        """
        process = self._process
        assert process is not None
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code: int) -> None:
        self._has_exited = True
        if self._why is None:
            self._why = (
                f"Its process ended with code {code}." if code >= 0 else f"Its process was ended by {_name(-code)}."
            )
        if self._transport is None:
            self._finish()
        else:
            self._loop.call_later(GRACE, self._finish)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._has_exited:
            self._finish()
        else:  # it is exiting or has closed the connection; both make it unusable
            self._loop.call_later(GRACE, self._end, "It closed its line to tau.")

    def _finish(self) -> None:
        if self.over.done():
            return
        self.over.set_result(None)
        if self._transport is not None:
            self._transport.abort()
        why = self._why or "It is not there any more."
        for timer in self._pings.values():
            timer.cancel()
        for task in self._dialogs:  # its other actions run to completion
            task.cancel()
        heard = self._quiet
        for waiting in list(self._calls.values()):
            if not waiting.answer.done():
                heard = heard or waiting.loud
                waiting.answer.set_exception(ExtensionFailure(why))
        if not self.loaded.done():
            self.loaded.set_exception(ExtensionFailure(why))
            heard = True
        if not self._failed:
            self._owner.ended(why, heard=heard)

    # Sending.

    def _send(self, message: Message) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(message) + b"\n")

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _tell_facts(self) -> None:
        now = self._facts()
        changed = {name: value for name, value in now.items() if name not in self._known or self._known[name] != value}
        if changed:
            self._known.update(changed)
            self._send(Facts(changed))

    def _give_up(self, id: int, *, late: bool) -> None:
        if self._why is not None:
            return
        self._send(Cancel(id))
        ping = self._next()
        self._send(Ping(ping))
        what = "It did not stop what it was asked to stop, and was ended."
        self._pings[ping] = self._loop.call_later(REACHABLE, lambda: self._end(what, quiet=late))

    # Receiving.

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._why is not None and not self._quiet:
            return  # it is being killed; ignore what it still sends
        for line in self._decoder.feed(bytes(memoryview(self._buffer)[:nbytes])):
            if isinstance(line, LineTooLong):
                return self._end(f"It sent a line of more than {line.size_limit} bytes.")
            if self._is_flood():
                return self._end(f"It sent more than {MESSAGES} messages within a second.")
            try:
                message: Message = decode(FromExtension, line, MAX_RECEIVED_NESTING)  # type: ignore[arg-type]
            except BadRecord as error:
                return self._end(f"It sent what is no message: {error}")
            self._hear(message)

    def _is_flood(self) -> bool:
        now = self._loop.time()
        if now - self._since >= 1:
            self._since, self._heard, self._troubles = now, 0, 0
        self._heard += 1
        return self._heard > MESSAGES or len(self._actions) > ACTIONS

    def _hear(self, message: Message) -> None:
        match message:
            case Answer(id=id) if (waiting := self._calls.get(id)) is not None:
                if not waiting.answer.done():
                    self._answered(waiting, message)
            case Update(id=id) if (waiting := self._calls.get(id)) is not None:
                room = None if waiting.update is None else waiting.update(message.value)
                if isinstance(message.ask, int):
                    self._begin(self._answer_when(room, message.ask))
            case Tell() | Action():
                self._act(message)
            case Register():
                self._owner.registered(message)
            case Unregister():
                self._owner.unregistered(message)
            case Pong(id=id) if id in self._pings:
                self._pings.pop(id).cancel()
            case Trouble():
                self._troubles += 1
                if self._troubles <= TROUBLES:
                    self._owner.troubled(message)
            case Loaded() if not self.loaded.done():
                self.loaded.set_result(None)
            case Failed(error=error) if not self.loaded.done():
                self.loaded.set_exception(ExtensionFailure(error))

    def _answered(self, waiting: PendingCall, message: Answer) -> None:
        if isinstance(message.error, str):
            if isinstance(message.where, str):
                log.warning("extension %s: %s at %s", self._load.path, message.error, message.where)
            waiting.answer.set_exception(HandlerError(message.error))
        else:
            waiting.answer.set_result(message.value)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._actions.add(task)
        task.add_done_callback(self._actions.discard)
        return task

    async def _answer_when(self, room: asyncio.Future[None] | None, id: int) -> None:
        if room is not None:
            await asyncio.wait([room])
        self._send(Answer(id))

    def _act(self, message: Tell | Action) -> None:
        waiting = self._calls.get(message.call) if isinstance(message.call, int) else None
        token = current_timeout.set(waiting.patience if waiting is not None else None)
        try:
            task = self._begin(self._carry_out(message))
        finally:
            current_timeout.reset(token)
        if message.name in DIALOGS:  # a dialog is withdrawn when its call or its process ends
            for asking in [self._dialogs] if waiting is None else [self._dialogs, waiting.dialogs]:
                asking.add(task)
                task.add_done_callback(asking.discard)

    async def _carry_out(self, message: Tell | Action) -> None:
        try:
            value = await self._owner.acted(message.name, message.params)
            answer = Answer(message.id, value) if isinstance(message, Action) else None
        except Exception as error:
            if isinstance(message, Tell):
                self._owner.troubled(Trouble(str(error), message.name))
                return
            answer = Answer(message.id, error=str(error) or type(error).__name__)
        if answer is not None:
            self._tell_facts()
            self._send(answer)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
