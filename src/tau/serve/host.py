"""Host: the live sessions of this process, and the channels of their clients. It knows no sockets and no HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from tau.errors import CommandError
from tau.records.events import event_json
from tau.records.host_commands import OpenSession
from tau.records.host_events import HostClosing
from tau.runtime.app.factory import SessionFactory
from tau.runtime.protocol.transport import Transport
from tau.serve.access import Access
from tau.serve.attachment import Attachment
from tau.serve.channel import GOING_AWAY, Authenticate, Channel, Ending, Kind
from tau.serve.host_handlers import HOST_HANDLERS
from tau.serve.live_session import LiveSession
from tau.serve.opening import HostConfig, SessionOpener

log = logging.getLogger(__name__)
TOO_MANY = "Too many sessions are open."
CLOSING = "The host is closing."
NOT_LIVE = "Session {id} is not open, and opening it needs the scope drive."


class Host:
    """Sessions by id. `serve` runs one channel; front ends give it a transport for each connection.

    The transport calls `take` of its source in the event loop.
    """

    def __init__(self, config: HostConfig) -> None:
        self.id = urlsafe_b64encode(os.urandom(12)).decode()
        self.config = config
        self.channels: set[Channel] = set()
        self.handlers = HOST_HANDLERS
        self.opener = SessionOpener(config)
        self._sessions: set[LiveSession] = set()
        self._opening: dict[Path, asyncio.Task[LiveSession]] = {}
        self._clients = count(1)
        self._closing = False

    async def serve(
        self, transport: Transport, access: Access | None, kind: Kind, authenticate: Authenticate | None = None
    ) -> Ending:
        """Serve one client to its end. The caller closes the transport, with the code that this returns.

        Without `access`, the client has to prove itself with the `token` of its hello, which `authenticate` checks.
        """
        channel = Channel(self, transport, access, kind, authenticate)
        self.channels.add(channel)
        try:
            return await channel.run()
        finally:
            self.channels.discard(channel)
            channel.close()

    def new_client_id(self) -> str:
        return f"c{next(self._clients)}"

    # Sessions.

    @property
    def sessions(self) -> list[LiveSession]:
        """The live sessions."""
        return [*self._sessions]

    def live(self, id: str) -> LiveSession | None:
        """The live session with this id, or with an id that begins so."""
        exact = next((live for live in self._sessions if live.id == id), None)
        if exact is not None or len(id) < 8:
            return exact
        matching = [live for live in self._sessions if live.id.startswith(id)]
        return matching[0] if len(matching) == 1 else None

    async def find(self, id: str, access: Access) -> LiveSession:
        """The session with this id; it is opened if it is not live. Raises CommandError."""
        if (live := self.live(id)) is not None:
            return live
        if not access.allows("drive"):
            raise CommandError(NOT_LIVE.format(id=id))
        path = await asyncio.to_thread(self.opener.find, id)
        return await self._open_file(path, lambda: self.opener.load_file(path))

    async def open(self, wanted: OpenSession) -> tuple[LiveSession, bool]:
        """Open a session. Returns it, and True if it is new. Raises CommandError."""
        if wanted.session is not None:
            if (live := self.live(wanted.session)) is not None:
                return live, False
            path = await asyncio.to_thread(self.opener._file, wanted.session)
            return await self._open_file(path, lambda: self.opener.load(wanted)), False
        factory = await asyncio.to_thread(self.opener.load, wanted)
        return self._add(factory), True

    async def _open_file(self, path: Path, load: Callable[[], SessionFactory]) -> LiveSession:
        """Open a session file once, however many clients ask for it at the same time."""
        path = Path(os.path.realpath(path))
        for live in self._sessions:
            if live.handle.log.path is not None and Path(os.path.realpath(live.handle.log.path)) == path:
                return live
        task = self._opening.get(path)
        if task is None:
            task = self._opening[path] = asyncio.create_task(self._open(load))
            task.add_done_callback(lambda done: self._opening.pop(path, None))
        return await asyncio.shield(task)

    async def _open(self, load: Callable[[], SessionFactory]) -> LiveSession:
        return self._add(await asyncio.to_thread(load))

    def _add(self, factory: SessionFactory) -> LiveSession:
        if self._closing:
            raise CommandError(CLOSING)
        if len(self._sessions) >= self.config.max_live:
            raise CommandError(TOO_MANY)
        live = LiveSession(factory, self._changed)
        self._sessions.add(live)
        return live

    async def close_session(self, live: LiveSession) -> None:
        self._sessions.discard(live)
        for attachment in [*live.attachments]:
            attachment.detach()
        await live.close()

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new, and let runs settle for some seconds."""
        self._closing = True
        line = event_json(HostClosing(timeout_s))
        for channel in self.channels:
            channel.send_event(line)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(live.handle.runs.idle() for live in self.sessions))

    async def close(self) -> None:
        """Close all sessions and channels at once."""
        self._closing = True
        for channel in self.channels:
            channel.end(GOING_AWAY)
        await asyncio.gather(*(self.close_session(live) for live in self.sessions))

    def _changed(self, live: LiveSession) -> None:
        """The state of a session in lists may have changed."""

    # Called by channels.

    def attached(self, attachment: Attachment) -> None:
        self._changed(attachment.live)

    def detached(self, attachment: Attachment) -> None:
        self._changed(attachment.live)
