"""Events about all sessions, for clients that asked for them: at most two in a second for a session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tau.records.base import UNSET
from tau.records.events import Event
from tau.records.host_events import SessionClosed, SessionOpened, SessionStatus
from tau.serve.live_session import LiveSession

INTERVAL_S = 0.5


class SessionWatch:
    """`send` delivers an event about a session, whose id is given, to the clients that watch."""

    def __init__(self, send: Callable[[str, Event], None]) -> None:
        self.enabled = False
        self._send = send
        self._timers: dict[LiveSession, asyncio.TimerHandle] = {}
        self._last: dict[LiveSession, SessionStatus] = {}

    def opened(self, live: LiveSession) -> None:
        if self.enabled:
            self._send(live.id, SessionOpened(live.id, live.cwd, live.handle.tree.name or UNSET))

    def closed(self, live: LiveSession, id: str) -> None:
        if (timer := self._timers.pop(live, None)) is not None:
            timer.cancel()
        self._last.pop(live, None)
        if self.enabled:
            self._send(id, SessionClosed(id))

    def changed(self, live: LiveSession) -> None:
        if self.enabled and live not in self._timers:
            self._timers[live] = asyncio.get_running_loop().call_later(0, self._tell, live)

    def _tell(self, live: LiveSession) -> None:
        name = live.handle.tree.name or UNSET
        total = live.total_cost
        cost = live.cost if total is None else total
        status = SessionStatus(live.id, live.streaming, live.attention, len(live.attachments), cost, name)
        before = self._last.get(live)
        if before == status:
            self._timers.pop(live, None)
            return
        self._last[live] = status
        if before is not None and before.session != live.id:  # it went to another session
            self._send(before.session, SessionClosed(before.session))
            self.opened(live)
        self._send(live.id, status)
        self._timers[live] = asyncio.get_running_loop().call_later(INTERVAL_S, self._tell, live)
