"""PingWheel: pings for many WebSockets with one timer.

A timer for each connection would wake up the process for each ping: a thousand idle clients would cost 2 % of a core.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

PING_INTERVAL_S = 20.0
SLOTS = 20


class Pinged(Protocol):
    """A connection. `ping` sends a ping, or ends it if it has said nothing since the last one."""

    def ping(self) -> None: ...


class PingWheel:
    """Each connection is pinged once in PING_INTERVAL_S; a slot of them at a time."""

    def __init__(self, interval_s: float = PING_INTERVAL_S, slots: int = SLOTS) -> None:
        self._tick_s = interval_s / slots
        self._slots: list[set[Pinged]] = [set() for _ in range(slots)]
        self._places: dict[Pinged, int] = {}
        self._at = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Pinged) -> None:
        """Ping a connection for the first time after a whole interval."""
        self._places[connection] = place = (self._at - 1) % len(self._slots)
        self._slots[place].add(connection)
        if self._timer is None:
            self._start()

    def remove(self, connection: Pinged) -> None:
        place = self._places.pop(connection, None)
        if place is not None:
            self._slots[place].discard(connection)
        if not self._places and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._tick_s, self._tick)

    def _tick(self) -> None:
        self._start()
        self._at = (self._at + 1) % len(self._slots)
        for connection in [*self._slots[self._at]]:
            connection.ping()
