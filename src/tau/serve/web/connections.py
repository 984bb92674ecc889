"""ConnectionTable: the open connections of a listener, with limits for all, for each credential and without one."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Protocol

from tau.serve.descriptors import running_out

logger = logging.getLogger(__name__)

EXTENSION = "tau.connection"  # of an ASGI scope: the connection of the request, under our own listener
MAX_CONNECTIONS = 2048
MAX_UNPROVED = 64  # connections that have not shown a credential
MAX_PER_CREDENTIAL = 1024  # so that a lost one cannot keep the others out


class Connection(Protocol):
    """A connection that can be ended at once."""

    def abort(self) -> None: ...


class ConnectionTable:
    """A connection is unproved until `prove`. When there are too many of these, the oldest one is closed."""

    def __init__(
        self,
        max_connections: int = MAX_CONNECTIONS,
        max_unproved: int = MAX_UNPROVED,
        max_per_credential: int = MAX_PER_CREDENTIAL,
    ) -> None:
        self._max_connections, self._max_unproved = max_connections, max_unproved
        self._max_per_credential = max_per_credential
        self._unproved: dict[Connection, None] = {}  # oldest first
        self._proved: dict[Connection, str] = {}  # with the credential
        self._per_credential: Counter[str] = Counter()
        self.refused = 0  # connections that were closed because of a limit
        self._short = False  # of descriptors

    def __len__(self) -> int:
        return len(self._unproved) + len(self._proved)

    def refuses(self, descriptor: int) -> bool:
        """True if too few descriptors are free for a new connection. The log has one line until there are enough."""
        short = running_out(descriptor)
        if short and not self._short:
            logger.warning("descriptors are running out: new connections are refused")
        self._short = short
        self.refused += short
        return short

    def add(self, connection: Connection) -> None:
        """Add a new connection. It may be closed at once, or the oldest unproved one."""
        if len(self._proved) >= self._max_connections:
            self.refused += 1
            connection.abort()
            return
        self._unproved[connection] = None
        while len(self._unproved) > self._max_unproved or len(self) > self._max_connections:
            oldest = next(iter(self._unproved))
            del self._unproved[oldest]
            self.refused += 1
            oldest.abort()

    def prove(self, connection: Connection, credential: str) -> bool:
        """The client of this connection has shown a credential. False if that has too many connections already."""
        if connection in self._unproved:
            if self._per_credential[credential] >= self._max_per_credential:
                self.refused += 1
                return False
            del self._unproved[connection]
            self._proved[connection] = credential
            self._per_credential[credential] += 1
        return True

    def replace(self, old: Connection, new: Connection) -> None:
        """A connection was upgraded to a WebSocket, which has to prove itself again."""
        if old in self._unproved or old in self._proved:
            self.remove(old)
            self._unproved[new] = None

    def remove(self, connection: Connection) -> None:
        self._unproved.pop(connection, None)
        if (credential := self._proved.pop(connection, None)) is not None:
            self._per_credential[credential] -= 1
            if not self._per_credential[credential]:
                del self._per_credential[credential]

    @property
    def full(self) -> bool:
        return len(self._proved) >= self._max_connections
