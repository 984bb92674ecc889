"""Channel: one client's conversation with the host: lines in, lines out, over any transport.

The first line is `hello`. A channel that it binds to a session is a pipe to that session; on a free channel every
command of a session names it. The commands of the host (records/host_commands.py) can be sent on both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from tau import __version__
from tau.errors import CommandError, TauError
from tau.records.base import MAX_RECEIVED_NESTING, UNSET, BadRecord, Raw, Record, UnsetType, decode, escape_separators
from tau.records.host_commands import HOST_COMMANDS, PROTOCOL_VERSION, After, Hello, HostCommand
from tau.records.host_events import Attached, HelloReply, Limits
from tau.runtime.protocol.requests import InputLine, InvalidLine, parse_envelope
from tau.runtime.protocol.responses import response, unexpected_failure
from tau.serve.access import Access
from tau.serve.attachment import Attachment, EarlyLine
from tau.serve.greeting import NORMAL, Authenticate, Ending, Greeting, Kind, Refused, check_hello
from tau.serve.keys import command_key
from tau.serve.outgoing import MAX_WAITING, Outgoing
from tau.serve.scopes import scope_of
from tau.wire.lines import MAX_LINE_BYTES, LineTooLong

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport
    from tau.serve.host import Host
    from tau.serve.live_session import LiveSession

logger = logging.getLogger(__name__)
HELLO_TIMEOUT_S = 10.0
LINES_PER_YIELD = 64
MAX_HOST_COMMANDS = 64  # of one client under way; then its lines wait, so that others find a free thread
CLOSE_TIMEOUT_S = 1.0
NO_HELLO = "The first record must be a hello."


class LineHead(Record):
    """What the channel itself reads of a line."""

    id: Raw = Raw()
    type: Any = UNSET
    session: Any = None
    key: Any = None


class Channel:
    def __init__(
        self, host: Host, transport: Transport, access: Access | None, kind: Kind, authenticate: Authenticate | None
    ) -> None:
        self.client = host.new_client_id()
        self.kind = kind
        self.watches = False  # the client receives events about all sessions
        self.outgoing = Outgoing(transport, self._connection_lost)
        self.attachments: dict[str, Attachment] = {}  # by stream
        self._left: list[Attachment] = []  # detached, with commands that are not answered yet
        self._host = host
        self._transport = transport
        self._check: Callable[[Hello], Greeting] = lambda hello: check_hello(hello, access, authenticate)
        self._proven = access  # by the connection, before the hello
        self._greeting: Greeting | None = None
        self._bound: Attachment | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    @property
    def greeting(self) -> Greeting:
        """Only valid after the hello."""
        assert self._greeting is not None
        return self._greeting

    @property
    def access(self) -> Access:
        return self.greeting.access

    @property
    def credential(self) -> str | None:
        """Also before the hello: a credential may be revoked while it is awaited."""
        access = self._proven if self._greeting is None else self.access
        return None if access is None else access.credential

    @property
    def bound(self) -> bool:
        return self._bound is not None

    async def run(self) -> Ending:
        """Serve the client until it leaves or the host ends the channel."""
        try:
            greeted = not self._ended.done() and await self._unless_ended(self._greet())
        except Refused as refused:
            await self._flush()
            return refused.ending
        if not greeted:
            await self._flush()
            return self._ended.result()
        reading = asyncio.ensure_future(self._handle_lines())
        try:
            waiting: set[asyncio.Future[Any]] = {reading, self._ended}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._ended.done():
                if self._is_refused:
                    reading.cancel()
                await self._flush()
                return self._ended.result()
            reading.result()
            return NORMAL
        finally:
            reading.cancel()

    async def _unless_ended(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do this until the channel ends. Returns False if it has ended."""
        doing = asyncio.ensure_future(work)
        try:
            waiting: set[asyncio.Future[Any]] = {doing, self._ended}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return not self._ended.done()
        finally:
            doing.cancel()

    def end(self, ending: Ending) -> None:
        """End the channel; what waits is written first, if the client reads it."""
        if not self._ended.done():
            self._ended.set_result(ending)

    @property
    def _is_refused(self) -> bool:
        """True if the host has ended the channel: nothing more is carried out. Lines of a lost client still are."""
        return self._ended.done() and self._ended.result() is not NORMAL

    def close(self) -> None:
        """Called when the channel has ended."""
        self.outgoing.close()
        for attachment in [*self.attachments.values()]:
            self.detach(attachment)

    # Sessions.

    def attach(self, live: LiveSession, after: After | None = None, entry: str | None = None) -> Attached:
        """Attach to a session. Attached again, the client gets what `after` asks for.

        Raises CommandError if the client has left while the session was opened, or if the session was closed.
        """
        if self.outgoing.closed or live.ended:
            raise CommandError(f"Session {live.id} was closed.")
        early: list[EarlyLine] = []
        sent = 0
        if (previous := self.attachments.get(live.stream.id)) is not None:
            early = previous.take_early()
            self.detach(previous)
            sent = previous.reader.cursor
        greeting = self.greeting
        attachment = Attachment(
            self._host,
            live,
            self.outgoing,
            greeting.envelope,
            client=self.client,
            client_name=greeting.name,
            access=greeting.access,
            pace_s=greeting.pace_s,
            waits=greeting.waits,
            stays=self.kind != "http",
            answers=greeting.hello.answers is not False,
        )
        attachment.reader.sent = sent
        attached = attachment.attach(after, entry)
        if attached.resumed:
            self._host.metrics.attached["tail"] += 1
        if previous is not None:
            attachment.take_over(previous, early)
        self.attachments[live.stream.id] = attachment
        return attached

    def detach(self, attachment: Attachment) -> None:
        attachment.detach()
        self.attachments.pop(attachment.live.stream.id, None)
        self._left = [one for one in (*self._left, attachment) if one.busy]

    def attachment(self, live: LiveSession) -> Attachment | None:
        return self.attachments.get(live.stream.id)

    # Output.

    def respond(self, id: bytes, name: str, *, data: Any = UNSET, error: str | UnsetType = UNSET) -> None:
        """Answer a command of the host."""
        line = response(id, name, data, error)
        self._host.metrics.count_response(line)
        self.outgoing.send(line)

    def send_event(self, line: bytes) -> None:
        """Send an event of the channel itself."""
        self.outgoing.send(line)

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.outgoing.drain()
        except TimeoutError:
            logger.info("client %s did not read its last output", self.client)

    def _connection_lost(self) -> None:
        self.end(NORMAL)

    # The greeting.

    async def _greet(self) -> None:
        line = await self._hello_line()
        if line is None:
            raise Refused(1000, "")
        head = self._head(line)
        if head is None or head.type != "hello":
            self.respond(b"" if head is None else bytes(head.id), "hello", error=NO_HELLO)
            raise Refused(1008, NO_HELLO)
        id = escape_separators(bytes(head.id))
        try:
            assert isinstance(line, bytes)
            reply = await self._accept(decode(Hello, line))
        except (TauError, BadRecord) as error:
            self.respond(id, "hello", error=str(error))
            raise Refused(1008, str(error)) from None
        except Refused as refused:
            self.respond(id, "hello", error=str(refused))
            raise
        if not self._ended.done():
            self.respond(id, "hello", data=reply)

    async def _hello_line(self) -> InputLine | None:
        """The first line. Raises Refused if it takes too long, or if the channel is ended meanwhile."""
        reading = asyncio.ensure_future(self._first_line())
        waiting: set[asyncio.Future[Any]] = {reading, self._ended}
        try:
            done, _ = await asyncio.wait(waiting, timeout=HELLO_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
        if self._ended in done:
            raise Refused(*self._ended.result())
        if not done:
            raise Refused(1008, f"No hello came within {HELLO_TIMEOUT_S:g} s.")
        return reading.result()

    async def _first_line(self) -> InputLine | None:
        while isinstance(line := await self._transport.receive(), bytes) and not line.strip():
            pass
        return line

    async def _accept(self, hello: Hello) -> HelloReply:
        greeting = self._greeting = self._check(hello)
        attached: Attached | UnsetType = UNSET
        if hello.session is not None:
            live = await self._host.find(hello.session, self.access)
            attached = self.attach(live, hello.after, hello.entry)
            self._bound = self.attachment(live)
        return HelloReply(
            PROTOCOL_VERSION,
            __version__,
            self._host.id,
            self.client,
            greeting.dialect.name,
            greeting.access.scope,
            Limits(MAX_LINE_BYTES, MAX_WAITING),
            attached,
        )

    # Lines.

    async def _handle_lines(self) -> None:
        """Handle lines until the input ends, then wait for the responses of what was started."""
        self._transport.deliver_to(self._handle_now)
        count = 0
        while (line := await self._transport.receive()) is not None:
            if self._is_refused:
                return
            if not self.outgoing.has_room:
                await self.outgoing.wait_for_room()
            while len(self._tasks) >= MAX_HOST_COMMANDS:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            if self.handle(line):
                await asyncio.sleep(0)  # start the command before handling the next line
            count += 1
            if count % LINES_PER_YIELD == 0:
                await asyncio.sleep(0)
        for attachment in [*self._left, *self.attachments.values()]:
            await attachment.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.outgoing.drain()

    def _handle_now(self, lines: Sequence[InputLine]) -> int:
        """Handle lines in the callback that received them. Returns how many; the others wait for `_handle_lines`."""
        for count, line in enumerate(lines[:LINES_PER_YIELD]):
            if not self.outgoing.has_room or self._is_refused or len(self._tasks) >= MAX_HOST_COMMANDS:
                return count
            if self.handle(line):
                return count + 1
        return min(len(lines), LINES_PER_YIELD)

    def handle(self, line: InputLine) -> bool:
        """Handle one line. Returns True if it started a task."""
        if isinstance(line, bytes) and (not line or line.isspace()):
            return False
        head = self._head(line)
        if head is None or isinstance(line, LineTooLong):
            return self._handle_invalid(line)
        id, name = escape_separators(bytes(head.id)), head.type
        kind = HOST_COMMANDS.get(name) if isinstance(name, str) else None
        if kind is not None and not (name == "list_sessions" and self._bound is not None):
            return self._handle_host_command(kind, name, id, line)
        try:
            attachment = self._bound or self._attachment_for(head.session)
            key = command_key(line, head.key)
        except (CommandError, BadRecord) as error:
            self.respond(id, str(name), error=str(error))
            return False
        return attachment.handle(line, id, key)

    def _head(self, line: InputLine | None) -> LineHead | None:
        """None for a line that is not valid."""
        if not isinstance(line, bytes):
            return None
        try:
            if not line.isascii():
                line.decode()
            return decode(LineHead, line, MAX_RECEIVED_NESTING)
        except (BadRecord, UnicodeDecodeError):
            return None

    def _handle_invalid(self, line: InputLine) -> bool:
        """Say what is wrong with a line, in the words of a pipe."""
        if self._bound is not None:
            return self._bound.handle(line)
        try:
            if isinstance(line, LineTooLong):
                raise InvalidLine(
                    "parse", b"", f"Failed to parse command: the line is longer than {line.size_limit} bytes"
                )
            parse_envelope(line)
        except BadRecord as error:
            self.respond(b"", "parse", error=f"Failed to parse command: {error}")
        except InvalidLine as error:
            self.respond(error.id, error.command, error=str(error))
        return False

    def _attachment_for(self, session: object) -> Attachment:
        if not isinstance(session, str):
            raise CommandError("session: missing")
        # Among its own sessions first: a host may have a thousand.
        own = next((one for one in self.attachments.values() if one.live.id == session), None)
        if own is not None:
            return own
        live = self._host.live(session)
        attachment = None if live is None else self.attachment(live)
        if attachment is None:
            raise CommandError(f"session: {session} is not attached on this channel")
        return attachment

    def _handle_host_command(self, kind: type[HostCommand], name: str, id: bytes, line: bytes) -> bool:
        if not self.access.allows(scope := scope_of(kind)):
            self.respond(id, name, error=f"{name} needs the scope {scope}.")
            return False
        try:
            command = decode(kind, line)
            reply = self._host.handlers.call(self._host, self, command)
        except (TauError, BadRecord) as error:
            self.respond(id, name, error=str(error))
            return False
        except Exception as error:
            self.respond(id, name, error=unexpected_failure(f"command {name}", error))
            return False
        if not asyncio.iscoroutine(reply):
            self.respond(id, name, data=reply)
            return False
        self._tasks.add(task := asyncio.create_task(self._finish(id, name, reply)))
        task.add_done_callback(self._tasks.discard)
        return True

    async def _finish(self, id: bytes, name: str, reply: Any) -> None:
        try:
            data = await reply
        except TauError as error:
            self.respond(id, name, error=str(error))
        except Exception as error:
            self.respond(id, name, error=unexpected_failure(f"command {name}", error))
        else:
            self.respond(id, name, data=data)
