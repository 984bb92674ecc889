"""RPC server: one session for one client.

Every line gets exactly one response, unless it is blank or the answer to a dialog. Commands start in the order of
their lines. A command that takes time does not delay the next one, so `abort` can overtake the command that it
aborts.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from itertools import chain
from typing import Any

from tau.errors import CommandError
from tau.records.base import UNSET, BadRecord, Spliced, UnsetType, decode, encode, keep, one_line, parse
from tau.records.commands import Command
from tau.records.replies import Messages
from tau.rpc.commands import HANDLERS
from tau.rpc.envelopes import opened
from tau.rpc.inbox import Inbox, Line
from tau.rpc.outbox import Outbox
from tau.runtime.session.session import Session
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT
from tau.wire.lines import TooLong

log = logging.getLogger(__name__)

AT_THE_SAME_TIME = 1024
LINES_PER_YIELD = 64
COMMAND_TIMEOUT_S = 1.0  # for a slash command of an extension to end after the input has ended and no run is active


class InvalidLine(Exception):
    """A line that is not a known command. Holds the command, id and error of the response."""

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
        self._tasks: set[asyncio.Task[None]] = set()
        self.answered = asyncio.Event()

    async def serve(self) -> None:
        """Handle lines until the input ends, then wait for everything that was started."""
        session = self._session
        lines = await self._start_extensions() if session.extension_lifecycle.has_extensions else deque()
        count = 0
        while (line := lines.popleft() if lines else await self._inbox.next()) is not None:
            if (backpressure := self._outbox.room()) is not None:
                await backpressure
            if self._handle(line):
                await asyncio.sleep(0)  # start the command before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)
        session.dialogs.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await session.runs.idle()
        while not await session.running_commands.wait(COMMAND_TIMEOUT_S) and session.runs.busy:
            await session.runs.idle()  # a run that the slash command started or waits for
        await session.runs.idle()

    async def _start_extensions(self) -> deque[Line | None]:
        """Start the extensions while reading ahead. Returns the lines that were read.

        Only answers to dialogs and aborts take effect during the start: they are meant for the extensions.
        """
        session, lines = self._session, deque[Line | None]()
        start = asyncio.ensure_future(session.extension_lifecycle.start())
        try:
            while not start.done() and (not lines or lines[-1] is not None):
                reading = asyncio.ensure_future(self._inbox.next())
                await asyncio.wait({start, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                lines.append(line := reading.result())
                kind = _type_of(line)
                if kind == "extension_ui_response" and line is not None:
                    lines.pop()
                    self._handle(line)
                elif kind == "abort":
                    session.hooks.abort()
                    session.dialogs.cancel()
            if lines and lines[-1] is None:
                session.dialogs.close()
            await start
        finally:
            start.cancel()
        return lines

    def _handle(self, line: Line) -> bool:
        """Handle one line. Returns True if it started a task."""
        if isinstance(line, bytes) and not line.strip():
            return False
        try:
            request = parse_request(line, self._dialect)
        except InvalidLine as invalid:
            self._respond(invalid.id, invalid.command, error=str(invalid))
            return False
        except Exception as error:
            self._respond_with_bug(b"", "parse", error)
            return False
        if request is None:
            assert isinstance(line, bytes)
            self._session.dialogs.answer(parse(line))
            return False
        kind, name, id, body = request
        try:
            command = self._dialect.filled(keep(decode(kind, body), body))
            if len(self._tasks) >= AT_THE_SAME_TIME:
                raise CommandError("Too many commands are under way. Try again later.")
            reply = HANDLERS[kind](self._session, command)
        except (CommandError, BadRecord) as error:
            self._respond(id, name, error=str(error))
            return False
        except Exception as error:
            self._respond_with_bug(id, name, error)
            return False
        if not inspect.iscoroutine(reply):
            self._respond(id, name, data=self._dialect.reply(kind, reply))
            return False
        task = asyncio.create_task(self._finish(kind, id, name, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _finish(self, kind: type[Command], id: bytes, name: str, reply: Any) -> None:
        try:
            data = self._dialect.reply(kind, await reply)
        except CommandError as error:
            self._respond(id, name, error=str(error))
        except Exception as error:
            self._respond_with_bug(id, name, error)
        else:
            self._respond(id, name, data=data)

    def _respond_with_bug(self, id: bytes, name: str, error: Exception) -> None:
        log.error("unexpected error in command %s", name, exc_info=error)
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


def _type_of(line: Line | None) -> Any:
    try:
        return opened(line).type if isinstance(line, bytes) else None
    except BadRecord:
        return None


def parse_request(line: Line, dialect: Dialect = DEFAULT) -> tuple[type[Command], str, bytes, bytes] | None:
    """Return the record type of a command, its name in the line, its id and its JSON; None for an answer to a dialog.

    Raises InvalidLine.
    """
    if isinstance(line, TooLong):
        raise InvalidLine("parse", b"", f"Failed to parse command: the line is longer than {line.size_limit} bytes")
    try:
        envelope = opened(line)
    except BadRecord as error:
        raise InvalidLine("parse", b"", f"Failed to parse command: {error}") from None
    id, name = one_line(bytes(envelope.id)), envelope.type
    if not isinstance(name, str):
        raise InvalidLine("parse", id, 'Failed to parse command: expected an object with a string "type"')
    if name == "extension_ui_response":
        return None
    kind = dialect.kind(name)
    if kind is None:
        raise InvalidLine(name, id, f"Unknown command: {name}")
    return kind, name, id, with_canonical_type(line, kind, name)


def with_canonical_type(line: bytes, kind: type[Command], name: str) -> bytes:
    """Replace the dialect's name of a command by tau's, because records are decoded by their tag."""
    canonical = str(kind.__struct_config__.tag)
    return line if name == canonical else encode({**parse(line), "type": canonical})


def response(id: bytes, name: str, data: Any, error: str | UnsetType) -> bytes:
    """Encode a response, with fields in the order of pi: id, type, command, success, data or error."""
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
