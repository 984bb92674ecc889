"""LiveSession: a session that is open in the host, with its stream, its clients and its keys."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tau.core.agent.draft import Update
from tau.records.base import UNSET
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled
from tau.records.host_events import Interrupted, RunningBash, SessionChanged
from tau.records.replies import Accepted
from tau.runtime.app.factory import SessionFactory
from tau.runtime.protocol.responses import response
from tau.serve.attachment import Attachment
from tau.serve.event_stream import EventStream, Published
from tau.serve.keys import Keys, stored_keys

log = logging.getLogger(__name__)
CLOSE_TIMEOUT_S = 2.0


class LiveSession:
    """`changed` is called when the state that lists of sessions show may have changed."""

    def __init__(self, factory: SessionFactory, changed: Callable[[LiveSession], None]) -> None:
        self.stream = EventStream()
        self.handle = factory.open(self.stream.publish, "rpc", saves=False, shared=True)
        self.stream.on_event = self._published
        self.stream.view.queue = self.handle.queues
        self.cwd = factory.cwd
        self.attachments: set[Attachment] = set()
        self.keys = Keys()
        self.interrupted: Interrupted | None = None
        self.closed = False
        self._changed = changed
        self._bash: dict[object, RunningBash] = {}
        self._starting: asyncio.Task[None] | None = None
        self._restore_keys()
        if self.handle.has_extensions:
            self._starting = asyncio.create_task(self._start())

    @property
    def id(self) -> str:
        return self.handle.log.id

    @property
    def starting(self) -> asyncio.Task[None] | None:
        """The start of the extensions, while it is under way."""
        return self._starting

    @property
    def streaming(self) -> bool:
        return self.handle.runs.busy

    @property
    def attention(self) -> bool:
        """True if a dialog waits for an answer."""
        return bool(self.stream.view.dialogs)

    @property
    def idle(self) -> bool:
        """True if nothing would be lost or interrupted by closing it, apart from its clients."""
        view = self.stream.view
        waits = view.dialogs or view.queue.steering or view.queue.follow_up or self._bash
        return not (self.handle.runs.busy or waits or self._starting is not None)

    def running_bash(self) -> list[RunningBash]:
        return list(self._bash.values())

    def bash_began(self, token: object, command: str, id: Any) -> None:
        self._bash[token] = RunningBash(command, id)

    def bash_ended(self, token: object) -> None:
        self._bash.pop(token, None)
        self._changed(self)

    def moved(self, reason: str) -> None:
        """The session went to another session, or to another place in it."""
        path = self.handle.log.path
        file = UNSET if path is None else str(path)
        self.interrupted = None
        self.stream.publish(SessionChanged(self.id, file, self.handle.tree.leaf_id, reason))
        self._changed(self)

    async def close(self) -> None:
        """Close the session; its file stays. What runs is aborted."""
        self.closed = True
        try:
            await self.handle.close(CLOSE_TIMEOUT_S)
        finally:
            await self.handle.release()

    async def _start(self) -> None:
        try:
            await self.handle.start()
        except Exception as error:
            log.warning("the extensions of session %s did not start: %s", self.id, error)
        finally:
            self._starting = None
            for attachment in [*self.attachments]:
                attachment.started()

    def _published(self, event: Published) -> None:
        if isinstance(event, Update):
            return
        if isinstance(event, AgentSettled):
            self.interrupted = None
        if isinstance(event, AgentSettled | UiRequest | SessionChanged):
            self._changed(self)

    def _restore_keys(self) -> None:
        for key, disposition in stored_keys(self.handle.tree):
            whole = response(b"", "prompt", Accepted(disposition), UNSET)
            self.keys.add(key, whole)
