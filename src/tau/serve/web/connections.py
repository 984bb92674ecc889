"""ConnectionTable: the open connections of a listener, with limits for all, for each credential and without one."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Protocol

from tau.serve.descriptors import running_out
from tau.serve.rates import Seldom

logger = logging.getLogger(__name__)

EXTENSION = "tau.connection"  # of an ASGI scope: the connection of the request, under our own listener
MAX_CONNECTIONS = 2048  # that have shown a credential
MAX_PER_CREDENTIAL = 1024  # so that a lost one cannot keep the others out
MAX_UNPROVED = 64  # connections that have not shown a credential within PROOF_GRACE_S
PROOF_GRACE_S = 3.0  # from the start of a connection, and again from its upgrade to a WebSocket
MAX_NEW = 4096  # connections without a credential, also within that time
CLOSED_AT_ONCE = 2  # for a new one: thousands would keep the event loop busy
WARNING_INTERVAL_S = 60.0
_WARNINGS = {  # by limit
    "unproved": "too many connections without a credential: the oldest are closed",
    "descriptors": "descriptors are running out: the oldest connections without a credential are closed",
    "connections": "too many connections: new ones are closed",
}


class Connection(Protocol):
    """A connection that can be ended at once."""

    def abort(self) -> None: ...


class ConnectionTable:
    """A connection is unproved until `prove`. When there are too many of these, the oldest one is closed.

    Those that are older than PROOF_GRACE_S have a small limit of their own. The large one is for new connections: a
    client with a token is safe as long as fewer than MAX_NEW others connect before the event loop has read its token.
    Reads no clock: `now` is given.
    """

    def __init__(
        self,
        max_connections: int = MAX_CONNECTIONS,
        max_unproved: int = MAX_UNPROVED,
        max_per_credential: int = MAX_PER_CREDENTIAL,
        max_new: int = MAX_NEW,
    ) -> None:
        self._max_connections, self._max_unproved = max_connections, max_unproved
        self._max_per_credential = max_per_credential
        self._max_new = max_new
        self._unproved: dict[Connection, float] = {}  # with the time of its start, oldest first
        self._proved: dict[Connection, str] = {}  # with the credential
        self._per_credential: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()  # connections that were closed because of a limit, by the limit
        self._may_warn = {why: Seldom(WARNING_INTERVAL_S) for why in _WARNINGS}

    def __len__(self) -> int:
        return len(self._unproved) + len(self._proved)

    @property
    def counts(self) -> dict[str, int]:
        """The open connections, by whether they have shown a credential."""
        return {"no": len(self._unproved), "yes": len(self._proved)}

    def add(self, connection: Connection, now: float, descriptor: int = -1) -> None:
        """Add a new connection. It may be closed at once, or the oldest unproved one."""
        if len(self._proved) >= self._max_connections:
            self._close(connection, "connections", now)
            return
        self._unproved[connection] = now
        if running_out(descriptor):
            self._close(next(iter(self._unproved)), "descriptors", now)
        for _ in range(CLOSED_AT_ONCE):
            if not self._is_crowded(now):
                break
            self._close(next(iter(self._unproved)), "unproved", now)

    def prove(self, connection: Connection, credential: str) -> bool:
        """The client of this connection has shown a credential. False if that has too many connections already."""
        if connection in self._unproved:
            if self._per_credential[credential] >= self._max_per_credential:
                self.closed["credential"] += 1
                return False
            del self._unproved[connection]
            self._proved[connection] = credential
            self._per_credential[credential] += 1
        return True

    def replace(self, old: Connection, new: Connection, now: float) -> None:
        """A connection was upgraded to a WebSocket, which has to prove itself again."""
        if old in self._unproved or old in self._proved:
            self.remove(old)
            self._unproved[new] = now

    def remove(self, connection: Connection) -> None:
        self._unproved.pop(connection, None)
        if (credential := self._proved.pop(connection, None)) is not None:
            self._per_credential[credential] -= 1
            if not self._per_credential[credential]:
                del self._per_credential[credential]

    @property
    def full(self) -> bool:
        return len(self._proved) >= self._max_connections

    def _is_crowded(self, now: float) -> bool:
        """True if the oldest connection without a credential has to make room."""
        count = len(self._unproved)
        return count > self._max_unproved and (
            count > self._max_new or now - next(iter(self._unproved.values())) > PROOF_GRACE_S
        )

    def _close(self, connection: Connection, why: str, now: float) -> None:
        self._unproved.pop(connection, None)
        self.closed[why] += 1
        if self._may_warn[why].allows(now):
            logger.warning("%s (tau_connections_closed_total counts them)", _WARNINGS[why])
        connection.abort()
