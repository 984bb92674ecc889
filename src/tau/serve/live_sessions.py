"""LiveSessions: the sessions that are open in a host: found, opened once, released when idle, and closed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from tau.errors import CommandError
from tau.records.base import encode
from tau.records.host_commands import MIN_ID_LENGTH, OpenSession
from tau.runtime.app.factory import SessionFactory
from tau.runtime.extensions.hooks import Destination
from tau.serve.garbage import CYCLES
from tau.serve.keys import MAX_KEYS
from tau.serve.live_session import LiveSession
from tau.serve.metrics import HostMetrics
from tau.serve.opened_session import Opening
from tau.serve.opening import HostConfig, NoSession, SessionOpener
from tau.serve.session_watch import SessionWatch

logger = logging.getLogger(__name__)
TOO_MANY = "Too many sessions are open."
CLOSING = "The host is closing."
KEY_LIFETIME_S = 3600.0
COLLECT_DELAY_S = 0.1  # after a session was closed, so that nothing refers to it any more


class LiveSessions:
    def __init__(self, config: HostConfig, opener: SessionOpener, watch: SessionWatch, metrics: HostMetrics) -> None:
        self.closing = False
        self._metrics = metrics
        self._config = config
        self._opener = opener
        self._watch = watch
        self._sessions: set[LiveSession] = set()
        self._by_id: WeakValueDictionary[str, LiveSession] = WeakValueDictionary()  # found before; ids can change
        self._opening: dict[str, Opening] = {}  # by the real path of the file
        self._ending: dict[str, asyncio.Task[None]] = {}  # by the same: a closed session holds its file until then
        self._idle: dict[LiveSession, asyncio.TimerHandle] = {}
        self._held: Counter[LiveSession] = Counter()  # how many clients are about to be attached
        self._keys: dict[str, tuple[bytes, float, Opening]] = {}

    def __iter__(self) -> Iterator[LiveSession]:
        return iter([*self._sessions])

    @property
    def has_room(self) -> bool:
        return len(self._sessions) < self._config.max_live or self._longest_idle() is not None

    def get(self, id: str) -> LiveSession | None:
        """The session with this id, or the only one whose id begins so."""
        known = self._by_id.get(id)
        if known is not None and known.id == id and known in self._sessions:
            return known
        matching = [live for live in self._sessions if live.id.startswith(id)]
        exact = [live for live in matching if live.id == id]
        if exact:
            self._by_id[id] = exact[0]
        if exact or len(id) < MIN_ID_LENGTH:
            return exact[0] if exact else None
        return matching[0] if len(matching) == 1 else None

    def at(self, path: str) -> LiveSession | None:
        """The session of a file."""
        real = os.path.realpath(path)
        paths = ((live, live.handle.log.path) for live in self._sessions)
        return next((live for live, own in paths if own is not None and os.path.realpath(own) == real), None)

    async def find(self, id: str, *, may_open: bool) -> LiveSession:
        """The session with this id; it is opened if it is not live. Raises CommandError."""
        if (live := self.get(id)) is not None:
            if live.failure:
                raise CommandError(live.failure)
            return live
        if not may_open:
            raise CommandError(f"Session {id} is not open, and opening it needs the scope drive.")
        path = await asyncio.to_thread(self._opener.find, id)
        return await self._open_file(str(path), lambda: self._opener.load_file(path))

    async def open(self, wanted: OpenSession) -> tuple[LiveSession, bool]:
        """Open a session. Returns it, and True if it is new. A repeated key opens nothing. Raises CommandError."""
        if wanted.key is None:
            return await self._open(wanted)
        while True:
            opening = self._opening_for(wanted.key, wanted)
            try:
                live = await opening.wait()
            except CommandError:
                self._forget(wanted.key, opening)  # it may be tried again
                raise
            try:
                return live or await self.find(opening.id, may_open=True), opening.created
            except NoSession:  # it was closed, and left no file
                self._forget(wanted.key, opening)

    def _opening_for(self, key: str, wanted: OpenSession) -> Opening:
        """The opening that had this key, or a new one. Raises CommandError if that was another command."""
        now, digest = asyncio.get_running_loop().time(), encode(wanted)
        self._keys = {key: one for key, one in self._keys.items() if one[1] > now}
        known = self._keys.get(key)
        if known is not None and known[0] != digest:
            raise CommandError("key: it was used for another command")
        if known is None:
            opening = Opening(self._open(wanted), self._hold)
            known = self._keys[key] = digest, now + KEY_LIFETIME_S, opening
            while len(self._keys) > MAX_KEYS:
                del self._keys[next(iter(self._keys))]
        return known[2]

    def _forget(self, key: str, opening: Opening) -> None:
        if key in self._keys and self._keys[key][2] is opening:
            del self._keys[key]

    async def close(self, live: LiveSession) -> None:
        """Close a session; its file stays."""
        if live in self._sessions:
            self._end(live)
        await asyncio.gather(*[task for task in self._ending.values() if task.get_name() == live.stream.id])

    async def close_all(self) -> None:
        for live in [*self._sessions]:
            self._end(live)
        await asyncio.gather(*self._ending.values(), return_exceptions=True)

    def limit_rings(self, limit: int) -> None:
        """Keep all rings together within a budget: of those without clients, the one quiet for longest gives first."""
        total = sum(live.stream.ring.size for live in self._sessions)
        if total <= limit:
            return
        for live in sorted(self._sessions, key=lambda live: live.last_used):
            if total > limit and not live.attachments:
                total -= live.stream.ring.size
                live.stream.shrink()

    async def _open(self, wanted: OpenSession) -> tuple[LiveSession, bool]:
        if wanted.session is not None:
            if (live := self.get(wanted.session)) is not None:
                return live, False
            path = str(await asyncio.to_thread(self._opener.file, wanted.session))
            return await self._open_file(path, lambda: self._opener.load(wanted), wanted), False
        live = await self._add(await asyncio.to_thread(self._opener.load, wanted), wanted)
        if wanted.fork_of is not None and wanted.entry_id is not None:
            self._hold(live, 1)
            try:
                await live.handle.navigate(Destination(wanted.entry_id))
            except CommandError:
                await self.close(live)
                raise
            finally:
                self._hold(live, -1)
        return live, True

    async def _open_file(
        self, path: str, load: Callable[[], SessionFactory], wanted: OpenSession | None = None
    ) -> LiveSession:
        """Open a session file once, however many clients ask for it at the same time."""
        real = os.path.realpath(path)
        if (live := self.at(real)) is not None:
            return live
        opening = self._opening.get(real)
        if opening is None:
            opening = self._opening[real] = Opening(self._read_file(real, load, wanted), self._hold)
            opening.task.add_done_callback(lambda done: self._opening.pop(real, None))
        live = await opening.wait()
        assert live is not None
        return live

    async def _read_file(
        self, real: str, load: Callable[[], SessionFactory], wanted: OpenSession | None
    ) -> tuple[LiveSession, bool]:
        if (ending := self._ending.get(real)) is not None:
            await asyncio.wait([ending])
        return await self._add(await asyncio.to_thread(load), wanted), False

    async def _add(self, factory: SessionFactory, wanted: OpenSession | None = None) -> LiveSession:
        if self.closing:
            raise CommandError(CLOSING)
        if len(self._sessions) >= self._config.max_live:
            idle = self._longest_idle()
            if idle is None:
                raise CommandError(TOO_MANY)
            self._end(idle)
        live = LiveSession(factory, self._changed, self._config.answer_timeout_s)
        self._sessions.add(live)
        if wanted is not None and wanted.permissions is not None:
            try:
                self._opener.add_permissions(live.handle, wanted.permissions)
            except CommandError:
                self._end(live)
                raise
        self._watch.opened(live)
        self._changed(live)
        logger.info("session %s is open in %s", live.id, live.cwd)
        return live

    def is_held(self, live: LiveSession) -> bool:
        """True if a client is about to be attached to it."""
        return live in self._held

    def _hold(self, live: LiveSession, clients: int) -> None:
        """More clients, or fewer, are about to be attached: the session is not released before that."""
        self._held[live] += clients
        if not self._held[live]:
            del self._held[live]
            self._changed(live)

    def _unused(self, live: LiveSession) -> bool:
        return live.idle and not live.attachments and live not in self._held

    def _longest_idle(self) -> LiveSession | None:
        idle = [live for live in self._sessions if self._unused(live)]
        return min(idle, key=lambda live: live.last_used, default=None)

    def _end(self, live: LiveSession) -> None:
        """Begin to close a session."""
        path, id = live.handle.log.path, live.id
        self._metrics.session_ended(live.stream.last, live.stream.merged, live.tokens, live.cost)
        self._sessions.discard(live)
        live.ended = True
        if (timer := self._idle.pop(live, None)) is not None:
            timer.cancel()
        place = live.stream.id if path is None else os.path.realpath(path)
        task = self._ending[place] = asyncio.create_task(self._close(live), name=live.stream.id)
        task.add_done_callback(lambda done: self._ending.pop(place, None))
        self._watch.closed(live, id)

    async def _close(self, live: LiveSession) -> None:
        try:
            await live.close()
        except Exception:
            logger.exception("closing session %s failed", live.id)
        asyncio.get_running_loop().call_later(COLLECT_DELAY_S, CYCLES.closed, len(self._sessions))

    def _changed(self, live: LiveSession) -> None:
        """The state of a session changed: tell those who watch, and release it later if it is idle."""
        if live not in self._sessions:
            return
        self._watch.changed(live)
        if self._unused(live):
            if live not in self._idle:
                loop, delay = asyncio.get_running_loop(), 0 if live.failure else self._config.idle_s
                self._idle[live] = loop.call_later(delay, self._release, live)
        elif (timer := self._idle.pop(live, None)) is not None:
            timer.cancel()

    def _release(self, live: LiveSession) -> None:
        self._idle.pop(live, None)
        if live in self._sessions and self._unused(live):
            self._end(live)
