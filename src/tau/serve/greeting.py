"""The greeting of a client: what its hello says, checked, and how a channel ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from tau.errors import UsageError
from tau.records.base import Value
from tau.records.host_commands import PROTOCOL_VERSION, Hello
from tau.serve.access import Access
from tau.serve.event_stream import Envelope
from tau.wire import dialects
from tau.wire.dialect import Dialect
from tau.wire.dialects import DEFAULT

NO_CREDENTIAL = "The token is missing or not valid."
MAX_PACE_MS = 60_000

Kind = Literal["lines", "websocket", "http", "sse", "memory"]
Authenticate = Callable[[str], Access | None]


class Ending(NamedTuple):
    """How a channel ended: the close code of a WebSocket, and a sentence."""

    code: int
    reason: str


NORMAL = Ending(1000, "")
GOING_AWAY = Ending(1001, "The host is closing.")
REVOKED = Ending(1008, "The credential is not valid any more.")
SLOW = Ending(1013, "The client did not read for too long.")


class Refused(Exception):
    """The greeting of a client is not accepted; the channel ends with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.ending = Ending(code, reason)


class Greeting(Value):
    """What a client asked for in its hello, and who it is."""

    hello: Hello
    access: Access
    dialect: Dialect
    numbers: bool

    @property
    def name(self) -> str:
        return self.hello.client or ""

    @property
    def pace_s(self) -> float:
        return min(self.hello.pace or 0, MAX_PACE_MS) / 1000

    @property
    def waits(self) -> bool:
        """True if runs wait for this client. One that may change nothing does not delay them either."""
        return self.hello.flow == "wait" and self.access.allows("drive")

    @property
    def envelope(self) -> Envelope:
        """How the records of sessions look: on a bound channel they do not name the session."""
        return Envelope(self.dialect, self.numbers, self.hello.session is None)


def check_hello(hello: Hello, access: Access | None, authenticate: Authenticate | None) -> Greeting:
    """Raises Refused, or UsageError for an unknown dialect. A client without `access` has to give a token."""
    if hello.version != PROTOCOL_VERSION:
        raise Refused(1002, f"version: {hello.version} is not known; there is {PROTOCOL_VERSION}")
    if access is None and authenticate is not None and hello.token:
        access = authenticate(hello.token)
    if access is None:
        raise Refused(1008, NO_CREDENTIAL)
    dialect = dialects.find(hello.dialect)
    if hello.session is None and not (dialect.responses and dialect.dialogs):
        raise UsageError(f"dialect: {dialect.name} needs a session in the hello")
    return Greeting(hello, access, dialect, dialect is DEFAULT if hello.numbers is None else hello.numbers)
