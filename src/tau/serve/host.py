"""Host: the live sessions of this process, and the channels of their clients. It knows no sockets and no HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import urlsafe_b64encode
from contextlib import suppress
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from tau.errors import CommandError
from tau.records.events import Event, event_json
from tau.records.host_commands import ListHostSessions, OpenSession
from tau.records.host_events import (
    HostClosing,
    HostSessionRow,
    HostSessions,
    SessionClosed,
    SessionOpened,
    SessionStatus,
)
from tau.serve.access import Access
from tau.serve.channel import Channel
from tau.serve.fleet_rows import fleet_rows
from tau.serve.greeting import GOING_AWAY, REVOKED, SLOW, Authenticate, Ending, Kind
from tau.serve.host_handlers import HOST_HANDLERS
from tau.serve.live_session import LiveSession
from tau.serve.live_sessions import LiveSessions
from tau.serve.metrics import HostMetrics
from tau.serve.opening import HostConfig, SessionOpener
from tau.serve.session_rows import MAX_ROWS, file_rows, with_live
from tau.serve.session_watch import SessionWatch
from tau.store.sessions import folder_for

if TYPE_CHECKING:
    from tau.runtime.protocol.transport import Transport

logger = logging.getLogger(__name__)
SWEEP_INTERVAL_S = 10.0
STALL_TIMEOUT_S = 60.0  # for a client to take something that is due
ALL_RINGS_BYTES = 128 * 1024 * 1024


class Host:
    """`serve` runs one channel; front ends give it a transport for each connection.

    The transport calls `take` of its source in the event loop.
    """

    def __init__(self, config: HostConfig) -> None:
        self.id = urlsafe_b64encode(os.urandom(12)).decode()
        self.config = config
        self.channels: set[Channel] = set()
        self.metrics = HostMetrics()
        self.handlers = HOST_HANDLERS
        self.opener = SessionOpener(config)
        self.watch = SessionWatch(self._tell_watchers)
        self._live = LiveSessions(config, self.opener, self.watch, self.metrics)
        self._clients = count(1)
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False

    async def serve(
        self, transport: Transport, access: Access | None, kind: Kind, authenticate: Authenticate | None = None
    ) -> Ending:
        """Serve one client to its end. The caller closes the transport, with the code that this returns.

        Without `access`, the client has to prove itself with the `token` of its hello, which `authenticate` checks.
        """
        channel = Channel(self, transport, access, kind, authenticate)
        self.channels.add(channel)
        if self._closed:
            channel.end(GOING_AWAY)
        else:
            self._sweep_later()
        try:
            ending = await channel.run()
            self.metrics.closed[str(ending.code)] += 1
            return ending
        finally:
            self.channels.discard(channel)
            channel.close()
            self.watch.enabled = any(other.watches for other in self.channels)

    def new_client_id(self) -> str:
        return f"c{next(self._clients)}"

    def revoke(self, credential: str) -> None:
        """End the channels of a credential that is not valid any more."""
        for channel in self.channels:
            if channel.credential == credential:
                channel.end(REVOKED)

    # Sessions.

    @property
    def sessions(self) -> list[LiveSession]:
        """The live sessions."""
        return [*self._live]

    @property
    def closing(self) -> bool:
        return self._live.closing

    @property
    def ready(self) -> bool:
        """False while the host is closing or has no room for another session."""
        return not self._live.closing and self._live.has_room

    def live(self, id: str) -> LiveSession | None:
        """The live session with this id, or the only one whose id begins so."""
        return self._live.get(id)

    def live_at(self, path: str) -> LiveSession | None:
        """The live session of a file."""
        return self._live.at(path)

    async def find(self, id: str, access: Access) -> LiveSession:
        """The session with this id; it is opened if it is not live. Raises CommandError."""
        while (live := await self._live.find(id, may_open=access.allows("drive"))).ended:
            pass  # it gave way to another session before it was attached to
        return live

    async def open(self, wanted: OpenSession) -> tuple[LiveSession, bool]:
        """Open a session. Returns it, and True if it is new. Raises CommandError."""
        return await self._live.open(wanted)

    async def close_session(self, live: LiveSession, *, abort: bool = False, client: str | None = None) -> None:
        """Close a session; its file stays. Raises CommandError while it runs, or has clients other than `client`."""
        if live.streaming and not abort:
            raise CommandError(f"Session {live.id} is running; abort: true aborts it.")
        others = any(attachment.client != client for attachment in live.attachments)
        if others or self._live.is_held(live):
            raise CommandError(f"Session {live.id} has other clients.")
        for channel in self.channels:
            if (attachment := channel.attachment(live)) is not None:
                channel.detach(attachment)
        await self._live.close(live)

    async def list_sessions(self, wanted: ListHostSessions) -> HostSessions:
        """One page of sessions, newest first: those of this folder, or of all folders of this host."""
        sessions = [live for live in self.sessions if wanted.all is True or live.cwd == self.config.cwd]
        limit = min(wanted.limit or MAX_ROWS, MAX_ROWS)
        fleets = await self._fleet_rows(wanted, limit)
        if wanted.live is True:
            return with_live(fleets, sessions, first_page=True, only_live=True)
        folders = self.opener.folders()
        if wanted.all is not True and self.config.options.session.folder is None:
            folders = [folder_for(self.config.cwd, self.config.agent_dir)]
        serves = cache(self.opener.serves)
        rows, cursor = await asyncio.to_thread(file_rows, folders, serves, wanted.cursor, limit - len(fleets))
        return with_live([*fleets, *rows], sessions, first_page=wanted.cursor is None, cursor=cursor)

    async def _fleet_rows(self, wanted: ListHostSessions, limit: int) -> list[HostSessionRow]:
        """Sessions of running fleets: on the first page of all sessions, with room for others."""
        if wanted.cursor is not None or wanted.all is not True:
            return []
        rows = await asyncio.to_thread(fleet_rows, self.config.agent_dir)
        return [row for row in rows if self.opener.serves(row.cwd)][: limit - 1]

    # The end.

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new, and let runs settle for some seconds."""
        self._live.closing = True
        line = event_json(HostClosing(timeout_s))
        for channel in self.channels:
            channel.send_event(line)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(live.handle.runs.idle() for live in self.sessions))

    async def close(self) -> None:
        """Close all sessions, then all channels."""
        self._live.closing = self._closed = True
        await self._live.close_all()
        for channel in self.channels:
            channel.end(GOING_AWAY)
        if self._sweeping is not None:
            self._sweeping.cancel()

    # Housekeeping.

    def _tell_watchers(self, id: str, event: Event) -> None:
        line, kind = event_json(event), type(event)
        replaced = [(id, SessionOpened), (id, SessionStatus)] if kind is SessionClosed else []
        for channel in self.channels:
            if channel.watches:
                channel.outgoing.send_latest((id, kind), line, instead_of=replaced)

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        """End channels whose clients do not read, and keep all rings together within their budget."""
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        for channel in self.channels:
            if channel.outgoing.stalled_for(now) > STALL_TIMEOUT_S:
                channel.end(SLOW)
        self._live.limit_rings(ALL_RINGS_BYTES)
        if self.channels:
            self._sweep_later()
