"""Attachment: one client attached to one live session: its place in the stream, and its commands."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tau.errors import CommandError
from tau.records.base import UNSET, encode
from tau.records.entries import CommandKey
from tau.records.events import Event
from tau.records.host_commands import After
from tau.records.host_events import Attached, SnapshotReason
from tau.records.replies import Accepted
from tau.rpc.commands import HANDLERS
from tau.runtime.clock import now
from tau.runtime.protocol.dispatcher import MAX_CONCURRENT_COMMANDS, Dispatcher
from tau.runtime.protocol.requests import InputLine, InvalidLine, line_type, parse_request
from tau.runtime.protocol.responses import response
from tau.serve.access import Access
from tau.serve.client_operations import ClientOperations
from tau.serve.event_stream import Envelope
from tau.serve.keys import KeyedCall, current_key
from tau.serve.lent_tools import LenderIdentity
from tau.serve.outgoing import LargeLine, Outgoing, StreamReader, with_as_of
from tau.serve.scopes import scope_of
from tau.serve.snapshot import snapshot_line

if TYPE_CHECKING:
    from tau.runtime.session.host_tools import ToolLender
    from tau.serve.host import Host
    from tau.serve.live_session import LiveSession


TOO_MANY_COMMANDS = "Too many commands are under way. Try again later."
MAX_EARLY_BYTES = 4 * 1024 * 1024

EarlyLine = tuple[InputLine, bytes, CommandKey | None]


class Attachment:
    """Takes the lines of the client that are for this session. It is also the sink of the responses."""

    def __init__(
        self,
        host: Host,
        live: LiveSession,
        outgoing: Outgoing,
        envelope: Envelope,
        *,
        client: str,
        client_name: str = "",
        access: Access,
        pace_s: float = 0,
        waits: bool = False,
        stays: bool = True,
        answers: bool = True,
    ) -> None:
        """`stays`: the channel is not for one request alone, so its client may answer dialogs and lend tools.

        `answers`: it says that somebody is there to answer. Permission questions do not wait for the others.
        """
        self.live = live
        self.client = client
        self.access = access
        self.answers = answers
        self.since = now()
        self._metrics = host.metrics
        self._outgoing = outgoing
        self._envelope = envelope
        self._entry: str | None = None
        self.reader = StreamReader(
            live.stream, envelope, live.stream.last, self._snapshot, outgoing.flush, pace_s=pace_s
        )
        self._waits = waits
        self._stays = stays
        self._operations = ClientOperations(host, live, envelope.dialect, client)
        self._dispatcher = Dispatcher(self._operations, HANDLERS, self, envelope.dialect, new_lender=self._lend_tools)
        self._identity = LenderIdentity(client_name, access)
        self.offers_tools = False
        self._lender: ToolLender | None = None  # once the client has offered tools
        self._keyed: set[asyncio.Task[None]] = set()  # commands with keys that are under way
        self._early: deque[EarlyLine] = deque()  # wait for the start of extensions
        self._early_bytes = 0

    def attach(self, after: After | None, entry: str | None = None) -> Attached:
        """Enter the list of listeners. What the client missed is decided in the same turn of the loop."""
        stream, reader = self.live.stream, self.reader
        self._entry = entry
        resumed = after is not None and after.stream == stream.id and stream.ring.reaches(after.seq)
        if resumed:
            assert after is not None
            reader.cursor = after.seq
        elif after is not None or self._envelope.numbers:
            reader.due = "new" if after is None else "stream" if after.stream != stream.id else "old"
        self._outgoing.readers.append(reader)
        stream.listeners.add(reader)
        if self._waits:
            stream.waited_for.add(reader)
        self.live.add(self)
        return Attached(self.live.id, stream.id, stream.last, resumed)

    @property
    def can_answer(self) -> bool:
        """True if the client can answer dialogs."""
        return self._stays and self.access.allows("drive") and self._envelope.dialect.dialogs

    def detach(self) -> None:
        stream = self.live.stream
        stream.listeners.discard(self.reader)
        stream.waited_for.discard(self.reader)
        stream.has_read()
        if self.reader in self._outgoing.readers:
            self._outgoing.readers.remove(self.reader)
        self.live.remove(self)
        if self._lender is not None:
            self.live.lent_tools.leave(self._identity, self._lender)
            self._lender = None
        for line, id, _ in self.take_early():
            self._refuse_line(line, id, "The session was detached before this was carried out.")

    def handle(self, line: InputLine, id: bytes = b"", key: CommandKey | None = None) -> bool:
        """Handle a line; with a key, carry it out only once. Returns True if it started a task."""
        if why := self.live.failure or (f"Session {self.live.id} was closed." if self.live.ended else ""):
            self._refuse_line(line, id, why)
            return False
        if self.live.starting and not self._is_for_start(line):
            self._handle_later(line, id, key)
            return False
        if isinstance(line, bytes) and not self._may(line):
            return False
        if key is not None and isinstance(line, bytes) and self._changes(line):
            return self._handle_keyed(line, id, key)
        return self._dispatcher.handle(line)

    def started(self) -> None:
        """The extensions have started: handle the lines that waited for them."""
        for early in self.take_early():
            self.handle(*early)

    def take_early(self) -> list[EarlyLine]:
        """The lines that wait for the start of the extensions; they are not handled here any more."""
        early = [*self._early]
        self._early.clear()
        self._early_bytes = 0
        return early

    def _handle_later(self, line: InputLine, id: bytes, key: CommandKey | None) -> None:
        size = len(line) if isinstance(line, bytes) else 0
        if len(self._early) >= MAX_CONCURRENT_COMMANDS or self._early_bytes + size > MAX_EARLY_BYTES:
            self._refuse_line(line, id, TOO_MANY_COMMANDS)
            return
        self._early.append((line, id, key))
        self._early_bytes += size

    def _changes(self, line: bytes) -> bool:
        """False for a command that only reads: it is carried out again, and its key takes no place."""
        kind = self._envelope.dialect.command_type(line_name(line))
        return kind is None or scope_of(kind) != "watch"

    def _handle_keyed(self, line: bytes, id: bytes, key: CommandKey) -> bool:
        keys = self.live.keys
        try:
            known = keys.find(key)
        except CommandError as error:
            self.refuse(id, line_name(line), str(error))
            return False
        if known is not None and known.restored is not None:
            self._answer_again(line, id, known.restored)
            return False
        if known is not None:
            known.when_answered(lambda rest: self.send_line(_with_id(id, rest)))
            return False
        if len(self._keyed) >= MAX_CONCURRENT_COMMANDS:
            self.refuse(id, line_name(line), TOO_MANY_COMMANDS)
            return False
        sink = KeyedSink(self, keys.add(key), id, lambda: keys.forget(key))
        dispatcher = Dispatcher(self._operations, HANDLERS, sink, self._envelope.dialect, new_lender=self._lend_tools)
        token = current_key.set(key)
        try:
            started = dispatcher.handle(line)
        finally:
            current_key.reset(token)
        if started:
            self._keyed.add(task := asyncio.create_task(dispatcher.wait()))
            task.add_done_callback(self._keyed.discard)
        return started

    def _answer_again(self, line: bytes, id: bytes, accepted: Accepted) -> None:
        """Answer a message that was accepted before the session was opened."""
        dialect, name = self._envelope.dialect, line_name(line)
        kind = dialect.command_type(name)
        self.send_line(response(id, name, accepted if kind is None else dialect.reply_data(kind, accepted), UNSET))

    def _lend_tools(self) -> ToolLender:
        """The tools that this client offers. Their requests go to this channel alone, and have no number."""
        if not self._stays:
            raise CommandError("Tools need a connection that stays open: lines on the socket, or a WebSocket.")
        if self._lender is None:
            self.offers_tools = True
            self._lender = self.live.lent_tools.lender(self._identity, self._send_unnumbered)
        return self._lender

    def take_over(self, previous: Attachment, early: Sequence[EarlyLine]) -> None:
        """Go on where this client was attached before: with the tools that it offered, and the lines that wait."""
        if previous.offers_tools:
            self._lend_tools()
        for line, id, key in early:
            self._handle_later(line, id, key)

    def _send_unnumbered(self, event: Event) -> None:
        session = b',"session":%b}' % encode(self.live.id) if self._envelope.free else b"}"
        for line in self._envelope.dialect.event_lines(event):
            self._outgoing.send(line[:-1] + session, self.reader)

    @property
    def busy(self) -> bool:
        """True while a command is not answered."""
        return self._dispatcher.busy or bool(self._keyed or self._early)

    async def wait(self) -> None:
        """Wait until every command that was started has its response."""
        await self.live.started()
        await self._dispatcher.wait()
        while self._keyed:
            await asyncio.wait(self._keyed)

    def refuse(self, id: bytes, name: str, why: str) -> None:
        self.send_line(response(id, name, UNSET, why))

    def _refuse_line(self, line: InputLine, id: bytes, why: str) -> None:
        name = line_name(line) if isinstance(line, bytes) else "parse"
        if name != "extension_ui_response":  # an answer has no response
            self.refuse(id, name, why)

    # The sink of responses.

    def send_line(self, line: bytes) -> None:
        self._metrics.count_response(line)
        if self._envelope.numbers:
            line = b'%b,"asOf":%d}' % (line[:-1], self.live.stream.last)
        self._outgoing.send(line, self.reader)

    def send_large(self, pieces: Iterator[bytes], size: int) -> None:
        if self._envelope.numbers:
            pieces = with_as_of(pieces, self.live.stream.last)
        self._outgoing.send(LargeLine(pieces, size), self.reader)

    def _may(self, line: bytes) -> bool:
        """Check the scope of a command, and refuse it."""
        if self.access.allows("drive"):
            return True
        try:
            request = parse_request(line, self._envelope.dialect)
        except InvalidLine:
            return True  # the dispatcher says what is wrong
        if request is None:
            return False
        if not self.access.allows(scope := scope_of(request.kind)):
            self.refuse(request.id, request.name, f"{request.name} needs the scope {scope}.")
            return False
        return True

    def _is_for_start(self, line: InputLine) -> bool:
        """Answers to dialogs and aborts take effect while extensions start: they are meant for them."""
        name = line_name(line) if isinstance(line, bytes) else ""
        if name == "abort" and self.access.allows("drive"):
            self.live.handle.abort_start()
        return name == "extension_ui_response"

    def _snapshot(self, reason: SnapshotReason) -> bytes:
        self._metrics.attached[f"snapshot_{reason}"] += 1
        return snapshot_line(self.live, reason, self._entry)


class KeyedSink:
    """Sends the response of a command with a key, and keeps it for repetitions. A failed command may be tried again."""

    def __init__(self, attachment: Attachment, call: KeyedCall, id: bytes, forget: Callable[[], None]) -> None:
        self._attachment = attachment
        self._call = call
        self._id_bytes = len(_with_id(id, b"{"))
        self._forget = forget

    def send_line(self, line: bytes) -> None:
        self._attachment.send_line(line)
        rest = b"{" + line[self._id_bytes :]
        self._call.answer(rest)
        if b'"success":false' in rest[:200]:
            self._forget()

    def send_large(self, pieces: Iterator[bytes], size: int) -> None:
        self._attachment.send_large(pieces, size)
        self._forget()


def _with_id(id: bytes, line: bytes) -> bytes:
    """A response without an id, with one."""
    return b'{"id":%b,%b' % (id, line[1:]) if id else line


def line_name(line: bytes) -> str:
    """The `type` of a line, "" if it has none."""
    name = line_type(line)
    return name if isinstance(name, str) else ""
