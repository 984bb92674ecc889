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
from tau.records.base import (
    UNSET,
    BadRecord,
    SplicedList,
    UnsetType,
    attach_source,
    decode,
    encode,
    escape_separators,
    parse,
)
from tau.records.commands import Command
from tau.records.replies import Messages
from tau.rpc.commands import HANDLERS
from tau.rpc.envelopes import parse_envelope
from tau.rpc.inbox import Inbox, InputLine
from tau.rpc.outbox import Outbox
from tau.runtime.app.handle import SessionHandle
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT
from tau.wire.lines import LineTooLong

log = logging.getLogger(__name__)

MAX_CONCURRENT_COMMANDS = 1024
LINES_PER_YIELD = 64
COMMAND_TIMEOUT_S = 1.0  # for a slash command of an extension to end after the input has ended and no run is active


class InvalidLine(Exception):
    """A line that is not a known command. Holds the command, id and error of the response."""

    def __init__(self, command: str, id: bytes, error: str) -> None:
        super().__init__(error)
        self.command = command
        self.id = id


class Server:
    def __init__(self, handle: SessionHandle, inbox: Inbox, outbox: Outbox, dialect: Dialect = DEFAULT) -> None:
        self._handle = handle
        self._dialect = dialect
        self._inbox = inbox
        self._outbox = outbox
        self._tasks: set[asyncio.Task[None]] = set()
        self.first_response_sent = asyncio.Event()

    async def serve(self) -> None:
        """Handle lines until the input ends, then wait for everything that was started."""
        handle = self._handle
        lines = await self._start_extensions() if handle.has_extensions else deque()
        count = 0
        while (line := lines.popleft() if lines else await self._inbox.next()) is not None:
            if (backpressure := self._outbox.wait_for_room()) is not None:
                await backpressure
            if self._handle_line(line):
                await asyncio.sleep(0)  # start the command before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)
        handle.close_dialogs()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await handle.settled(COMMAND_TIMEOUT_S)

    async def _start_extensions(self) -> deque[InputLine | None]:
        """Start the extensions while reading ahead. Returns the lines that were read.

        Only answers to dialogs and aborts take effect during the start: they are meant for the extensions.
        """
        handle, lines = self._handle, deque[InputLine | None]()
        start = asyncio.ensure_future(handle.start())
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
                    self._handle_line(line)
                elif kind == "abort":
                    handle.abort_start()
            if lines and lines[-1] is None:
                handle.close_dialogs()
            await start
        finally:
            start.cancel()
        return lines

    def _handle_line(self, line: InputLine) -> bool:
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
            self._handle.answer_dialog(parse(line))
            return False
        kind, name, id, body = request
        try:
            command = self._dialect.fill_defaults(attach_source(decode(kind, body), body))
            if len(self._tasks) >= MAX_CONCURRENT_COMMANDS:
                raise CommandError("Too many commands are under way. Try again later.")
            reply = HANDLERS[kind](self._handle, command)
        except (CommandError, BadRecord) as error:
            self._respond(id, name, error=str(error))
            return False
        except Exception as error:
            self._respond_with_bug(id, name, error)
            return False
        if not inspect.iscoroutine(reply):
            self._respond(id, name, data=self._dialect.reply_data(kind, reply))
            return False
        task = asyncio.create_task(self._finish(kind, id, name, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _finish(self, kind: type[Command], id: bytes, name: str, reply: Any) -> None:
        try:
            data = self._dialect.reply_data(kind, await reply)
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
            for line in self._dialect.substitute(name, data, error):
                self._outbox.send_line(line)
        elif isinstance(data, Messages) and isinstance(data.messages, SplicedList):
            head, _, tail = response(id, name, Messages([]), error).rpartition(b"[]")
            self._outbox.send_large(chain([head], data.messages, [tail]), data.messages.size)
        else:
            self._outbox.send_line(response(id, name, data, error))
        self.first_response_sent.set()


def _type_of(line: InputLine | None) -> Any:
    try:
        return parse_envelope(line).type if isinstance(line, bytes) else None
    except BadRecord:
        return None


def parse_request(line: InputLine, dialect: Dialect = DEFAULT) -> tuple[type[Command], str, bytes, bytes] | None:
    """Return the record type of a command, its name in the line, its id and its JSON; None for an answer to a dialog.

    Raises InvalidLine.
    """
    if isinstance(line, LineTooLong):
        raise InvalidLine("parse", b"", f"Failed to parse command: the line is longer than {line.size_limit} bytes")
    try:
        envelope = parse_envelope(line)
    except BadRecord as error:
        raise InvalidLine("parse", b"", f"Failed to parse command: {error}") from None
    id, name = escape_separators(bytes(envelope.id)), envelope.type
    if not isinstance(name, str):
        raise InvalidLine("parse", id, 'Failed to parse command: expected an object with a string "type"')
    if name == "extension_ui_response":
        return None
    kind = dialect.command_type(name)
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
