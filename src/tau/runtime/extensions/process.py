"""One process of an extension, from its start to its end, and the line to it.

It is trusted with nothing. It may end, hang, flood us or talk nonsense at any
moment: then it is killed with everything in its process group, whoever waits for
it is told why, and its owner is told once.
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
    LIMIT,
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
from tau.wire.lines import LineDecoder, TooLong

log = logging.getLogger(__name__)

REACHABLE = 5.0  # seconds to answer a ping, after a call was given up
MESSAGES = 10_000  # that it may send within a second
ACTIONS = 1_000  # that may be under way at once
TROUBLES = 10  # that are told of within a second; a timer can fail for ever
GRACE = 0.5  # seconds for the last words of a process that has ended
PORTION = 64 * 1024


class Owner(Protocol):
    """Whose process it is."""

    def registered(self, message: Register) -> None: ...

    def unregistered(self, message: Unregister) -> None: ...

    def troubled(self, message: Trouble) -> None: ...

    async def acted(self, name: str, params: dict[str, Any]) -> Any:
        """Carry out an action. PATIENCE is that of the call it is made in."""

    def ended(self, why: str, *, heard: bool) -> None:
        """`heard`: somebody waited for it, and has been told."""


@dataclass
class PendingCall:
    """A call that has not been answered."""

    answer: asyncio.Future[Any]
    patience: PausableTimeout | None
    update: ProgressCallback | None
    loud: bool  # that it fails is heard by the client
    dialogs: set[asyncio.Task[None]] = field(default_factory=set)


class ExtensionProcess(asyncio.BufferedProtocol):
    def __init__(self, load: Load, owner: Owner, facts: Callable[[], dict[str, Any]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._load = load
        self._owner = owner
        self._facts = facts
        self._known: dict[str, Any] = dict(load.facts)
        self._decoder = LineDecoder(LIMIT)
        self._buffer = bytearray(PORTION)
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._calls: dict[int, PendingCall] = {}
        self._pings: dict[int, asyncio.TimerHandle] = {}
        self._actions: set[asyncio.Task[None]] = set()
        self._dialogs: set[asyncio.Task[None]] = set()
        self._since, self._heard, self._troubles = 0.0, 0, 0
        self._why: str | None = None  # it was killed, or is on its way out
        self._has_exited = False  # and we know how; the thread that waits for it may know earlier
        self._quiet = False  # the reason was told to somebody already
        self._failed = False  # it was never of any use, and its owner was told when it was to be started
        self.loaded: asyncio.Future[None] = self._loop.create_future()
        self.over: asyncio.Future[None] = self._loop.create_future()

    # For the owner.

    async def start(self, seconds: float) -> None:
        """Until it is loaded. Raises ExtensionFailure, and then nothing is left of it."""
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
        except RuntimeError as error:  # there are too many threads
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
        """Raises ExtensionFailure. If the caller is cancelled the extension is told, and must obey or is killed."""
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
        """Let it come to its end, and end it."""
        if self._why is None:
            self._why = "It was stopped."
            self._quiet = True
            self._send(Stop())
            await asyncio.wait([self.over], timeout=seconds)
        self.kill()
        await asyncio.wait([self.over], timeout=GRACE)

    def kill(self) -> None:
        """At once, with all that it started and that is still in its group. Does not wait."""
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

    # How it ends.

    def _watch(self) -> None:
        """In a thread. While the process is not waited for its number, which is that of its group, is nobody else's."""
        process = self._process
        assert process is not None
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        with suppress(RuntimeError):  # the loop is closed
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
        else:  # it goes, or has closed the line; either way it is of no use
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
        for task in self._dialogs:  # other things that it has said are done to their end
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

    # Saying.

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

    # Hearing.

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._why is not None and not self._quiet:
            return  # it is being killed, and what it says then is noise
        for line in self._decoder.feed(bytes(memoryview(self._buffer)[:nbytes])):
            if isinstance(line, TooLong):
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
        if message.name in DIALOGS:  # nobody shall answer for one who has left
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
