"""A channel for HTTP requests: in memory, with a hello that is made from the request."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from tau.records.base import UNSET, BadRecord, Raw, Record, decode, encode
from tau.runtime.protocol.memory import MemoryTransport
from tau.serve.access import Access
from tau.serve.greeting import Ending, Kind
from tau.serve.host import Host
from tau.serve.live_sessions import CLOSING, TOO_MANY
from tau.store.paths import NOT_BELOW
from tau.wire.lines import LineDecoder, LineTooLong

NO_LIMIT = 2**62  # for lines of the channel itself
_FIELD_ERROR = re.compile(r"[A-Za-z][\w.\[\]]*: ")


class Answer(Record):
    """A response, as far as HTTP has to know it."""

    type: str
    success: bool = True
    command: Any = None
    error: str = ""
    data: Raw = Raw(b"null")
    as_of: int = 0


class Call:
    """One channel. `lines` are the records that it sends."""

    def __init__(self, host: Host, access: Access, kind: Kind) -> None:
        self._transport = MemoryTransport()
        self._decoder = LineDecoder(NO_LIMIT)
        self._lines: deque[bytes] = deque()
        self._serving = asyncio.create_task(self._serve(host, access, kind))

    async def _serve(self, host: Host, access: Access, kind: Kind) -> Ending:
        try:
            return await host.serve(self._transport, access, kind)
        finally:
            await self._transport.close()

    async def hello(self, **fields: Any) -> Answer:
        await self.send(encode({"type": "hello", "version": 1, **fields}))
        return await self.answer()

    async def send(self, line: bytes) -> None:
        await self._transport.client.write(line + b"\n")

    def end_input(self) -> None:
        """No more commands: the channel ends when all of them are answered."""
        self._transport.client.end_input()

    async def line(self) -> bytes | None:
        """The next record; None at the end of the channel."""
        while not self._lines:
            data = await self._transport.client.read()
            if not data:
                return None
            self._lines += [line for line in self._decoder.feed(data) if not isinstance(line, LineTooLong)]
        return self._lines.popleft()

    async def response(self) -> bytes | None:
        """The next response; events are skipped."""
        while (line := await self.line()) is not None:
            if is_response(line):
                return line
        return None

    async def responses(self) -> AsyncIterator[bytes]:
        while (line := await self.response()) is not None:
            yield line

    async def answer(self) -> Answer:
        line = await self.response()
        return Answer("response", False, error=CLOSING) if line is None else parse_answer(line)

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call this when the channel has ended."""
        self._serving.add_done_callback(lambda done: callback())

    async def close(self) -> None:
        """End the channel, whatever it does."""
        self._transport.client.disconnect()
        await asyncio.wait({self._serving})


def is_response(line: bytes) -> bool:
    """True for a response. The type of an event is its first field, so events need no decoding."""
    if line.startswith(b'{"type":'):
        return line.startswith(b'{"type":"response"')
    return parse_answer(line).type == "response"


def parse_answer(line: bytes) -> Answer:
    try:
        return decode(Answer, line, nesting=None)  # a session tree is nested as deeply as the session is long
    except BadRecord:  # an event with fields of these names
        return Answer("")


async def ask(host: Host, access: Access, type: str, fields: Mapping[str, Any]) -> Answer:
    """Carry out one command of the host."""
    call = Call(host, access, "http")
    try:
        greeting = await call.hello()
        if not greeting.success:
            return greeting
        given = {name: value for name, value in fields.items() if value is not None and value is not UNSET}
        await call.send(encode({**given, "type": type}))
        call.end_input()
        return await call.answer()
    finally:
        await call.close()


def status_of(answer: Answer) -> int:
    """The HTTP status of a response."""
    error = answer.error
    if answer.success:
        return 200
    if error.startswith("Unknown command") or "there is no session" in error or error.endswith("is not live"):
        return 404
    if "needs the scope" in error or NOT_BELOW in error:
        return 403
    if error in (TOO_MANY, CLOSING):
        return 503
    if _FIELD_ERROR.match(error) or error.startswith("Failed to parse"):
        return 400
    return 409
