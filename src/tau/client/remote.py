"""RemoteLine: a `Line` to a session of a host. It connects again when the connection is lost, and nothing is missed.

Events carry numbers. After a reconnect the host goes on after the last number, or sends a `snapshot` if it cannot;
what arrives twice is dropped, and the numbers are removed, so that the lines are those of a pipe. Commands that were
not answered are sent again (unanswered.py).
"""

from __future__ import annotations

import asyncio
import random
import secrets
from dataclasses import dataclass, field
from typing import Any

from tau import __version__
from tau.client.addresses import Address
from tau.client.errors import AgentGone
from tau.client.line import OnEnd, OnLine
from tau.client.links import Link, Refused, Unreachable, dial
from tau.client.unanswered import Unanswered, head_of, number_of
from tau.errors import TauError
from tau.records.base import BadRecord, Record, decode, encode, parse
from tau.wire.lines import LineTooLong

FIRST_DELAY_S = 0.25
MAX_DELAY_S = 10.0
HELLO_TIMEOUT_S = 10.0
HELLO_ID = "hello"
VERSION = 1
STDERR_BYTES = 64 * 1024


@dataclass(frozen=True)
class Binding:
    """What a connection is for. Without `session` it is for commands of the host."""

    session: str | None = None
    dialect: str = "default"
    flow: str = "skip"
    client: str = f"tau/{__version__}"
    options: dict[str, Any] = field(default_factory=dict)


class Attached(Record):
    """Where the host attached this client."""

    session: str
    stream: str
    seq: int
    resumed: bool = False


class HelloReply(Record):
    """The data of the response to `hello`. `scope` says what this client may do."""

    host: str = ""
    client: str = ""
    scope: str = ""
    tau: str = ""
    attached: Attached | None = None


class HelloResponse(Record):
    success: bool = False
    error: Any = None
    data: HelloReply = HelloReply()


class Moved(Record):
    """A session went to another session; `session_id` is its new id."""

    session_id: str


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
        self._cursor = Cursor(binding.session)
        self._unanswered = Unanswered(secrets.token_hex(8))
        self._link: Link | None = None
        self._greeting: asyncio.Future[HelloReply] | None = None  # while the host has not answered `hello`
        self._task: asyncio.Task[None] | None = None
        self._readable = asyncio.Event()
        self._readable.set()
        self._ended = False
        self._error: TauError | None = None
        self._stderr = bytearray()
        self.hello = HelloReply()

    # The line.

    async def start(self) -> None:
        try:
            await self._connect()
        except (Unreachable, Refused) as error:
            raise AgentGone(str(error)) from None

    async def write(self, data: bytes) -> None:
        if self._ended:
            return  # pending calls fail with AgentGone
        line = self._unanswered.add(data)
        if (link := self._link) is not None and self._greeting is None:
            link.send(line)
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

    # Connecting.

    async def _connect(self) -> None:
        """Connect once, say hello, and repeat what was not answered. Raises Unreachable or Refused."""
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
            "version": VERSION,
            "client": binding.client,
            "dialect": binding.dialect,
            "session": cursor.session,
            "after": cursor.after,
            "numbers": True,
            "flow": binding.flow,
            **binding.options,
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
        if not response.success:
            greeting.set_exception(Refused(f"{self._address.name} refuses the connection: {response.error}"))
            return
        self.hello = response.data
        attached = response.data.attached
        lost: list[bytes] = []
        if attached is not None and self._cursor.move_to(attached):
            again, lost = self._unanswered.to_repeat_in_new_stream()
        else:
            again = self._unanswered.to_repeat()
        if self._link is not None:
            self._link.send(again)
            if not self._readable.is_set():
                self._link.pause()
        greeting.set_result(response.data)
        for failure in lost:
            self._on_line(failure)

    def _on_lost(self, reason: str) -> None:
        self._link = None
        if self._greeting is not None:
            if not self._greeting.done():
                self._greeting.set_exception(Unreachable(f"{self._address.name}: {reason}."))
        elif not self._reconnect:
            self._fail(Unreachable(f"The connection to {self._address.name} was lost: {reason}."))
        elif self._task is None:
            self._task = asyncio.ensure_future(self._connect_again())

    async def _connect_again(self) -> None:
        """Try until it succeeds or the host refuses: at once, then after longer and longer delays."""
        delay = 0.0
        while True:
            await self._readable.wait()
            try:
                await self._connect()
                break
            except Unreachable:
                delay = min(delay * 2 or FIRST_DELAY_S, MAX_DELAY_S)
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))
            except TauError as error:
                self._fail(error)
                return
        self._task = None
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
        elif b'"asOf"' in line[-32:]:
            self._unanswered.resolve(number.line)
            self._on_line(number.line)
        elif self._cursor.accepts(number.value):
            if line.startswith(b'{"type":"session_changed"'):
                self._cursor.session = decode(Moved, line, nesting=None).session_id
            self._on_line(number.line)

    def _on_unnumbered(self, line: bytes) -> None:
        kind = head_of(line).type
        if kind == "response":
            self._unanswered.resolve(line)
        elif kind == "snapshot":
            snapshot = parse(line, nesting=None)
            self._cursor.session = snapshot.get("session", self._cursor.session)
            self._cursor.stream, self._cursor.seq = snapshot["stream"], snapshot["seq"]
        self._on_line(line)
