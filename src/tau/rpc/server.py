"""Serve one session to one client.

Every line gets exactly one response, unless it is blank or answers a dialog.
Commands start in the order they come; those that take time do not hold up the
next, so `abort` can overtake what it is meant to stop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from itertools import chain
from typing import Any

from tau.errors import CommandError
from tau.host.session import Session
from tau.records.base import UNSET, BadRecord, Spliced, UnsetType, decode, encode, keep, one_line, parse
from tau.records.commands import Command
from tau.records.replies import Messages
from tau.rpc.commands import HANDLERS
from tau.rpc.envelopes import opened
from tau.rpc.inbox import Inbox, Line
from tau.rpc.outbox import Outbox
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT
from tau.wire.lines import TooLong

log = logging.getLogger(__name__)

AT_THE_SAME_TIME = 1024
IN_ONE_GO = 64
PATIENCE = 1.0  # seconds for a command of an extension to end, when nothing more is said and nothing runs


class Refused(Exception):
    """A line that is no command we know: the response's command, id and error."""

    def __init__(self, command: str, id: bytes, error: str) -> None:
        super().__init__(error)
        self.command = command
        self.id = id


class Server:
    def __init__(self, session: Session, inbox: Inbox, outbox: Outbox, dialect: Dialect = DEFAULT) -> None:
        self._session = session
        self._dialect = dialect
        self._inbox = inbox
        self._outbox = outbox
        self._under_way: set[asyncio.Task[None]] = set()
        self.answered = asyncio.Event()

    async def serve(self) -> None:
        """Answer until the client has nothing more to say, then finish what was begun."""
        session = self._session
        said = await self._begun() if session.guests.expected else deque()
        count = 0
        while (line := said.popleft() if said else await self._inbox.next()) is not None:
            if (waiting := self._outbox.room()) is not None:
                await waiting
            if self._handle(line):
                await asyncio.sleep(0)  # so that it has started before the next line is looked at
            count += 1
            if count % IN_ONE_GO == 0:
                await asyncio.sleep(0)
        session.dialogs.close()
        while self._under_way:
            await asyncio.wait(self._under_way)
        await session.runs.idle()
        while not await session.errands.done(PATIENCE) and session.runs.busy:
            await session.runs.idle()  # what a command has begun, or waits for
        await session.runs.idle()

    async def _begun(self) -> deque[Line | None]:
        """Let extensions begin. What the client says meanwhile waits, except to them."""
        session, said = self._session, deque[Line | None]()
        beginning = asyncio.ensure_future(session.guests.begin())
        try:
            while not beginning.done() and (not said or said[-1] is not None):
                saying = asyncio.ensure_future(self._inbox.next())
                await asyncio.wait({beginning, saying}, return_when=asyncio.FIRST_COMPLETED)
                if not saying.done():
                    saying.cancel()
                    break
                said.append(line := saying.result())
                kind = _kind(line)
                if kind == "extension_ui_response" and line is not None:
                    said.pop()
                    self._handle(line)
                elif kind == "abort":
                    session.hooks.abort()
                    session.dialogs.cancel()
            if said and said[-1] is None:
                session.dialogs.close()
            await beginning
        finally:
            beginning.cancel()
        return said

    def _handle(self, line: Line) -> bool:
        """True if a task was started for it."""
        if isinstance(line, bytes) and not line.strip():
            return False
        try:
            asked = understood(line, self._dialect)
        except Refused as refusal:
            self._respond(refusal.id, refusal.command, error=str(refusal))
            return False
        except Exception as error:
            self._broke(b"", "parse", error)
            return False
        if asked is None:
            assert isinstance(line, bytes)
            self._session.dialogs.answer(parse(line))
            return False
        kind, name, id, body = asked
        try:
            command = self._dialect.filled(keep(decode(kind, body), body))
            if len(self._under_way) >= AT_THE_SAME_TIME:
                raise CommandError("Too many commands are under way. Try again later.")
            answer = HANDLERS[kind](self._session, command)
        except (CommandError, BadRecord) as error:
            self._respond(id, name, error=str(error))
            return False
        except Exception as error:
            self._broke(id, name, error)
            return False
        if not inspect.iscoroutine(answer):
            self._respond(id, name, data=self._dialect.reply(kind, answer))
            return False
        task = asyncio.create_task(self._finish(kind, id, name, answer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return True

    async def _finish(self, kind: type[Command], id: bytes, name: str, answer: Any) -> None:
        try:
            data = self._dialect.reply(kind, await answer)
        except CommandError as error:
            self._respond(id, name, error=str(error))
        except Exception as error:
            self._broke(id, name, error)
        else:
            self._respond(id, name, data=data)

    def _broke(self, id: bytes, name: str, error: Exception) -> None:
        log.error("command %s failed in an unforeseen way", name, exc_info=error)
        self._respond(id, name, error=f"Internal error: {type(error).__name__}: {error}")

    def _respond(self, id: bytes, name: str, *, data: Any = UNSET, error: str | UnsetType = UNSET) -> None:
        if not self._dialect.responses:
            for line in self._dialect.instead(name, data, error):
                self._outbox.put(line)
        elif isinstance(data, Messages) and isinstance(data.messages, Spliced):
            head, _, tail = response(id, name, Messages([]), error).rpartition(b"[]")
            self._outbox.put_parts(chain([head], data.messages, [tail]), data.messages.size)
        else:
            self._outbox.put(response(id, name, data, error))
        self.answered.set()


def _kind(line: Line | None) -> Any:
    try:
        return opened(line).type if isinstance(line, bytes) else None
    except BadRecord:
        return None


def understood(line: Line, dialect: Dialect = DEFAULT) -> tuple[type[Command], str, bytes, bytes] | None:
    """The kind of a command, its name as the client said it, its id and its text; None for an answer to a dialog."""
    if isinstance(line, TooLong):
        raise Refused("parse", b"", f"Failed to parse command: the line is longer than {line.size_limit} bytes")
    try:
        envelope = opened(line)
    except BadRecord as error:
        raise Refused("parse", b"", f"Failed to parse command: {error}") from None
    id, name = one_line(bytes(envelope.id)), envelope.type
    if not isinstance(name, str):
        raise Refused("parse", id, 'Failed to parse command: expected an object with a string "type"')
    if name == "extension_ui_response":
        return None
    kind = dialect.kind(name)
    if kind is None:
        raise Refused(name, id, f"Unknown command: {name}")
    return kind, name, id, as_ours(line, kind, name)


def as_ours(line: bytes, kind: type[Command], name: str) -> bytes:
    """The same command by the name it has here: a record is read by its tag."""
    ours = str(kind.__struct_config__.tag)
    return line if name == ours else encode({**parse(line), "type": ours})


def response(id: bytes, name: str, data: Any, error: str | UnsetType) -> bytes:
    """The envelope, in the order of pi: id, type, command, success, data or error."""
    return b"".join(
        (
            b'{"id":%b,' % id if id else b"{",
            b'"type":"response","command":',
            encode(name),
            b',"success":true' if error is UNSET else b',"success":false,"error":' + encode(error),
            b',"data":' + encode(data) if data is not UNSET else b"",
            b"}",
        )
    )
