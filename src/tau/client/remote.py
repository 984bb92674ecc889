"""RemoteLine: a `Line` to a session of a host. It connects again when the connection is lost, and nothing is missed.

Events carry numbers. After a reconnect the host goes on after the last number, or sends a `snapshot` if it cannot;
what arrives twice is dropped, and the numbers are removed, so that the lines are those of a pipe. Commands that were
not answered are sent again (unanswered.py).
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tau import __version__
from tau.client.addresses import Address
from tau.client.errors import AgentGone
from tau.client.line import OnEnd, OnLine
from tau.client.links import Link, Refused, Unreachable, dial
from tau.client.unanswered import Number, Unanswered, head_of, number_of
from tau.errors import TauError
from tau.records.base import UNSET, BadRecord, Record, UnsetType, decode, encode
from tau.records.events import ToolRequest, ToolRequestCancelled
from tau.records.host_commands import PROTOCOL_VERSION
from tau.records.host_events import HOST_CHANNEL_EVENTS, Attached, HelloReply
from tau.wire.lines import LineTooLong

FIRST_DELAY_S = 0.25
MAX_DELAY_S = 10.0
FIRST_ATTEMPTS = 4
HELLO_TIMEOUT_S = 10.0
HELLO_ID = "hello"
UNNOTICED_ID = "req_0"  # the response to it is ignored
STDERR_BYTES = 64 * 1024
MAX_REQUESTS = 1000
RETRY_LATER = ("Too many sessions are open.", "The host is closing.")
# Events without a number: those of the channel, and calls of the tools of this client.
CHANNEL_EVENTS = {str(kind.__struct_config__.tag) for kind in (*HOST_CHANNEL_EVENTS, ToolRequest, ToolRequestCancelled)}


class LostAtOnce(Unreachable):
    """The connection was made, and lost before the host answered."""


@dataclass(frozen=True)
class Binding:
    """What a connection is for. Without `session` it is for commands of the host."""

    session: str | None = None
    dialect: str = "default"
    flow: str = "skip"
    client: str = f"tau/{__version__}"
    answers: bool = False  # somebody is there to answer permission questions
    responses: bool = True  # false for a dialect without responses: its commands cannot be repeated


class HelloResponse(Record):
    success: bool = False
    error: Any = None
    data: HelloReply | UnsetType = UNSET


class Moved(Record):
    """A session went to another session; `session_id` is its new id."""

    session_id: str


class Place(Record):
    """The fields of a snapshot that say where it stands."""

    session: str
    stream: str
    seq: int


class Cursor:
    """The place in the stream of a session up to which this client has everything."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.stream: str | None = None
        self.seq: int | None = None  # None while a snapshot is awaited

    @property
    def after(self) -> dict[str, Any] | None:
        return None if self.seq is None else {"stream": self.stream, "seq": self.seq}

    def move_to(self, attached: Attached) -> bool:
        """Follow the host's answer. Returns True if the stream is another one than before."""
        changed = self.stream is not None and self.stream != attached.stream
        self.session, self.stream = attached.session, attached.stream
        if not attached.resumed:
            self.seq = None
        return changed

    def jump_to(self, place: Place) -> None:
        """A snapshot stands for everything up to its number."""
        self.session, self.stream, self.seq = place.session, place.stream, place.seq

    def accepts(self, seq: int) -> bool:
        """True for a number that is new."""
        if self.seq is not None and seq <= self.seq:
            return False
        self.seq = seq
        return True


class RemoteLine:
    """`hello` is what the host said last, `connected` is false while the connection is lost."""

    def __init__(
        self, address: Address, binding: Binding, on_line: OnLine, on_end: OnEnd, *, reconnect: bool = True
    ) -> None:
        self._address, self._binding, self._reconnect = address, binding, reconnect
        self._on_line, self._on_end = on_line, on_end
        self._name = f"{binding.client} {secrets.token_hex(4)}"  # the host recognises a client that comes back
        self._cursor = Cursor(binding.session)
        self._unanswered = Unanswered(secrets.token_hex(8))
        self._link: Link | None = None
        self._greeting: asyncio.Future[HelloReply] | None = None  # while the host has not answered `hello`
        self._task: asyncio.Task[None] | None = None
        self._readable = asyncio.Event()
        self._readable.set()
        self._delay = 0.0  # before the next attempt
        self._ended = False
        self._error: TauError | None = None
        self._event_lines: list[bytes] = []  # of an event whose last line has not arrived
        self._requests: deque[bytes] = deque(maxlen=MAX_REQUESTS)  # ids of tool requests that were passed on
        self._stderr = bytearray()
        self.hello: HelloReply
        self.on_every_connection = b""  # lines to send after every `hello`
        self.on_change: Callable[[bool], None] = lambda connected: None  # the connection was lost, or made again

    # The line.

    async def start(self) -> None:
        """Connect. A host that is not there is an error; a connection that is lost at once is tried again."""
        for attempt in range(FIRST_ATTEMPTS):
            try:
                await self._connect()
                return
            except LostAtOnce as error:
                if not self._reconnect or attempt == FIRST_ATTEMPTS - 1:
                    raise AgentGone(str(error)) from None
                await asyncio.sleep(FIRST_DELAY_S * attempt)
            except (Unreachable, Refused) as error:
                raise AgentGone(str(error)) from None

    async def write(self, data: bytes) -> None:
        if self._ended:
            return  # pending calls fail with AgentGone
        line = self._unanswered.add(data)
        limit = self.hello.limits.line
        if len(line) > limit + 1:  # a WebSocket would lose the connection, on each attempt again
            for failure in self._unanswered.refuse_longer(limit):
                self._on_line(failure)
        elif (link := self._link) is not None and self._greeting is None:
            link.send(line)
            if not self._binding.responses:
                self._unanswered.clear()
            await link.drained()

    def pause(self) -> None:
        if self._readable.is_set():
            self._readable.clear()
            if self._link is not None:
                self._link.pause()

    def resume(self) -> None:
        if not self._readable.is_set():
            self._readable.set()
            if self._link is not None:
                self._link.resume()

    async def stop(self, *, gracefully: bool) -> None:
        """Detach. What runs goes on."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self.connected and self._link is not None and not self._unanswered:
            await self._link.finish()  # also while a run is active: it goes on
        self._drop_link()
        self._end()

    def append_stderr(self, data: bytes) -> None:
        self._stderr += data
        del self._stderr[:-STDERR_BYTES]

    def gone_error(self) -> AgentGone:
        return AgentGone(str(self._error) if self._error else f"The connection to {self._address.name} was closed.")

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    @property
    def pid(self) -> int | None:
        return None

    @property
    def exit_code(self) -> int | None:
        return None

    # What a session of a host adds.

    @property
    def session(self) -> str | None:
        """The id of the session, which may change while it runs."""
        return self._cursor.session

    @property
    def connected(self) -> bool:
        return self._link is not None and self._greeting is None

    @property
    def unanswered(self) -> int:
        """How many commands have no response."""
        return len(self._unanswered)

    @property
    def unanswered_messages(self) -> int:
        """How many prompts and queued messages have no response."""
        return self._unanswered.messages

    # Connecting.

    async def _connect(self) -> None:
        """Connect once, say hello, and repeat what was not answered. Raises Unreachable or Refused."""
        self._event_lines = []
        greeting = self._greeting = asyncio.get_running_loop().create_future()
        try:
            self._link = await dial(self._address, self._receive, self._on_lost)
            self._link.send(self._hello())
            async with asyncio.timeout(HELLO_TIMEOUT_S):
                await greeting
        except TimeoutError:
            self._drop_link()
            raise Unreachable(f"{self._address.name} did not answer within {HELLO_TIMEOUT_S:g} s.") from None
        except BaseException:
            self._drop_link()
            raise

    def _hello(self) -> bytes:
        binding, cursor = self._binding, self._cursor
        hello = {
            "id": HELLO_ID,
            "type": "hello",
            "version": PROTOCOL_VERSION,
            "client": self._name,
            "dialect": binding.dialect,
            "session": cursor.session,
            "after": cursor.after,
            "numbers": True,
            "flow": binding.flow,
            "answers": binding.answers,
        }
        return encode({name: value for name, value in hello.items() if value is not None}) + b"\n"

    def _on_hello_answered(self, line: bytes) -> None:
        """The first line of a connection. What follows it belongs to the stream."""
        greeting, self._greeting = self._greeting, None
        assert greeting is not None
        if greeting.done():
            return
        try:
            response = decode(HelloResponse, line, nesting=None)
        except BadRecord:
            greeting.set_exception(Refused(f"{self._address.name} is not a host of tau."))
            return
        data = response.data
        if not response.success or isinstance(data, UnsetType):
            kind = Unreachable if response.error in RETRY_LATER else Refused
            greeting.set_exception(kind(f"{self._address.name} refuses the connection: {response.error}"))
            return
        self.hello = data
        attached, lost = data.attached, self._unanswered.refuse_longer(data.limits.line)
        if not isinstance(attached, UnsetType) and self._cursor.move_to(attached):
            again, unknown = self._unanswered.to_repeat_in_new_stream()
            lost += unknown
        else:
            again = self._unanswered.to_repeat()
        if self._link is not None:
            for line in (self.on_every_connection, *again):
                self._link.send(line)
            if not self._readable.is_set():
                self._link.pause()
        greeting.set_result(data)
        for failure in lost:
            self._on_line(failure)

    def _on_lost(self, reason: str) -> None:
        self._link = None
        if self._greeting is not None:
            if not self._greeting.done():
                self._greeting.set_exception(LostAtOnce(f"{self._address.name}: {reason}."))
        elif not self._reconnect:
            self._fail(Unreachable(f"The connection to {self._address.name} was lost: {reason}."))
        elif self._task is None:
            self.on_change(False)
            self._task = asyncio.ensure_future(self._connect_again())

    async def _connect_again(self) -> None:
        """Try until it succeeds or the host refuses: at once, then after longer and longer delays.

        Only a connection that was good for something ends the delays.
        """
        while True:
            await asyncio.sleep(self._delay * random.uniform(0.5, 1.0))
            await self._readable.wait()
            self._delay = min(self._delay * 2 or FIRST_DELAY_S, MAX_DELAY_S)
            try:
                await self._connect()
                break
            except Unreachable:
                continue
            except TauError as error:
                self._fail(error)
                return
        self._task = None
        self.on_change(True)
        if self._link is None:  # lost again at once
            self._on_lost("the host closed the connection")

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        self._greeting = None
        if link is not None:
            link.close()

    def _fail(self, error: TauError) -> None:
        self._error = error
        self._drop_link()
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end()

    # Reading.

    def _receive(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            self._on_line(line)
        elif self._greeting is not None:
            self._on_hello_answered(line)
        elif (number := number_of(line)) is None:
            self._on_unnumbered(line)
        elif number.is_response:
            self._delay = 0.0
            if self._unanswered.resolve(number.line):
                self._on_line(number.line)
        else:
            self._on_event(number)

    def _on_event(self, number: Number) -> None:
        """An event, or the last line of one that is several lines in this dialect."""
        before, self._event_lines = self._event_lines, []
        if not self._cursor.accepts(number.value):
            return
        self._delay = 0.0
        if number.line.startswith(b'{"type":"session_changed"'):
            self._cursor.session = decode(Moved, number.line, nesting=None).session_id
        for line in before:
            self._on_line(line)
        self._on_line(number.line)

    def _on_unnumbered(self, line: bytes) -> None:
        head = head_of(line)
        kind = head.type
        if kind == "response":
            self._delay = 0.0
            if not self._unanswered.resolve(line):
                return
        elif kind == "snapshot":
            self._cursor.jump_to(decode(Place, line, nesting=None))
        elif kind == "tool_request":
            id = bytes(head.id)
            if id in self._requests:
                return  # it is sent again after a reconnect
            self._requests.append(id)
        elif self._cursor.stream is not None and kind not in CHANNEL_EVENTS:
            self._event_lines.append(line)
            return
        self._on_line(line)
