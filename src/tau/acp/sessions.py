"""The sessions of a client: open, list, load, close and delete them. Loaded with the first session."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from weakref import WeakValueDictionary

from tau.acp.client import Client
from tau.acp.errors import failed, invalid_params, unknown_session
from tau.acp.mcp_servers import mcp_entries
from tau.acp.prompts import PromptRunner
from tau.acp.replay import Replay
from tau.acp.requests import ListSessions, McpServer
from tau.acp.session import AcpSession
from tau.acp.updates import SessionInfo
from tau.core.agent.draft import Update as DraftUpdate
from tau.errors import CommandError, ExtensionFailure, SessionInUse, UsageError
from tau.records.base import UNSET
from tau.records.dialogs import UiRequest
from tau.records.events import AgentSettled, Event
from tau.records.replies import SessionRow
from tau.runtime.app.factory import SessionFactory
from tau.runtime.app.options import SessionTarget
from tau.runtime.app.process import GarbageCollector
from tau.runtime.app.stored_sessions import BadCursor, StoredSessions
from tau.store.empty_sessions import EmptySessions

logger = logging.getLogger(__name__)
MAX_TITLE = 80  # characters of the first message, if a session has no name
ENTRIES_PER_YIELD = 32
_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")


class Loader(Protocol):
    """Reads the configuration, as the command line asks for it. Every method blocks and may raise UsageError."""

    def load(self, cwd: str, target: SessionTarget, mcp_servers: Mapping[str, Any]) -> SessionFactory:
        """The configuration of a session in a folder. `mcp_servers` are entries as in `mcp.json`."""

    def stored_sessions(self, cwd: str) -> StoredSessions:
        """The session files, as the settings of a folder place them."""

    @property
    def empty_sessions(self) -> EmptySessions:
        """The sessions that have no file yet."""

    def has_key(self) -> bool:
        """Read the keys again. True if there is one for any provider."""

    @property
    def asks(self) -> bool:
        """True if sessions begin with `--permissions ask`."""


class EventRelay:
    """The client of a session that is being built: keeps events until the session can publish them.

    `on_settled` is called when a prompt is settled.
    """

    def __init__(self, on_settled: Callable[[], None]) -> None:
        self._on_settled = on_settled
        self._publish: Callable[[Any], Awaitable[None] | None] | None = None
        self._early: list[Any] = []
        self._waiting: list[asyncio.Future[None]] = []  # for room at the client; nothing waits for these

    def __call__(self, event: Event | DraftUpdate | UiRequest) -> Awaitable[None] | None:
        if type(event) is AgentSettled:
            self._on_settled()
        if self._publish is not None:
            return self._publish(event)
        self._early.append(event)
        return None

    def connect(self, publish: Callable[[Any], Awaitable[None] | None]) -> None:
        self._publish = publish
        waiting = [publish(event) for event in self._early]
        self._waiting = [asyncio.ensure_future(one) for one in waiting if one is not None]


class Sessions:
    def __init__(self, client: Client, loader: Loader) -> None:
        self._client = client
        self._loader = loader
        self._collector = GarbageCollector()
        self._open: dict[str, AcpSession] = {}
        self._closing: dict[AcpSession, asyncio.Task[None]] = {}
        self._runners: dict[str, PromptRunner] = {}
        self._locks = WeakValueDictionary[str, asyncio.Lock]()  # one request at a time opens or removes a session

    def get(self, id: str) -> AcpSession:
        """Raises AcpError if the session is not open."""
        if id not in self._open:
            raise unknown_session(id)
        return self._open[id]

    def find(self, id: str) -> AcpSession | None:
        return self._open.get(id)

    def runner(self, id: str) -> PromptRunner:
        self.get(id)
        return self._runners[id]

    # Open.

    async def new(self, cwd: str, servers: Sequence[McpServer]) -> AcpSession:
        """Open a new session. The caller announces it after its answer."""
        session = await self._open_session(cwd, SessionTarget(), servers)
        await self.remember(session)
        return session

    async def remember(self, session: AcpSession) -> None:
        """Keep a session that has no prompt yet, and its choices, so that another process can load it."""
        path, empty = session.handle.log.path, self._loader.empty_sessions
        if path is None:
            return

        def write() -> None:
            if not os.path.exists(path):
                empty.write(session.id, choices)

        try:
            async with self._locks.setdefault(session.id, asyncio.Lock()):
                choices = session.choices.values()
                await asyncio.to_thread(write)
        except OSError as error:
            logger.warning("session %s cannot be loaded again before its first prompt: %s", session.id, error)

    async def existing(self, id: str, cwd: str, servers: Sequence[McpServer]) -> AcpSession:
        """Open a stored session, or return it if it is open."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            if (session := self._open.get(id)) is not None:
                return session
            if closing := [task for session, task in self._closing.items() if session.id == id]:
                await asyncio.wait(closing)  # its file is locked until then
            _check_folder(cwd)
            if not _ID.fullmatch(id):
                raise unknown_session(id)
            stored = await self._in_thread(lambda: self._loader.stored_sessions(cwd))
            path = await self._in_thread(lambda: stored.find(id))
            if path is not None:
                return await self._open_session(cwd, SessionTarget(named=str(path)), servers)
            choices = await self._in_thread(lambda: self._loader.empty_sessions.read(id))
            if choices is None:
                raise unknown_session(id)
            session = await self._open_session(cwd, SessionTarget(id=id), servers)
            await session.choices.restore(choices)
            return session

    async def _open_session(self, cwd: str, target: SessionTarget, servers: Sequence[McpServer]) -> AcpSession:
        _check_folder(cwd)
        entries = mcp_entries(servers)
        factory = await self._in_thread(lambda: self._loader.load(cwd, target, entries))
        relay = EventRelay(self._collect_garbage)
        try:
            handle = factory.open(relay, "acp", saves=False, shared=True)
        except SessionInUse as error:
            raise failed(
                f"This session is {error.where}. Close it there and load it again, or begin a new session."
            ) from None
        except CommandError as error:
            raise failed(str(error)) from None
        if self._loader.asks:
            handle.permissions.add("ask")
        session = AcpSession(self._client, handle, factory.warnings, handle.start)
        relay.connect(session.publish)
        try:
            await session.ready()
        except (ExtensionFailure, UsageError) as error:
            await self._close(session)
            raise failed(str(error)) from None
        except BaseException:
            await self._close(session)
            raise
        self._open[session.id] = session
        self._runners[session.id] = PromptRunner(session)
        return session

    async def replay(self, session: AcpSession) -> None:
        """Send the conversation, with the backpressure of the client."""
        session.writer.release()
        tree = session.handle.tree
        replay = Replay(session.calls, session.handle.cwd, compaction=self._client.capabilities.compaction)
        for count, at in enumerate(tree.branch):
            if count % ENTRIES_PER_YIELD == 0:
                await asyncio.sleep(0)  # other sessions go on meanwhile
            if at in tree.dropped:
                continue
            for update in replay.read(tree.entry(at)):
                session.writer.send(update)
            if (waiting := self._client.wait_for_room()) is not None:
                await waiting
        for update in replay.end():
            session.writer.send(update)
        session.calls.ids.add(replay.ids)

    # Stored sessions.

    async def listed(self, params: ListSessions) -> dict[str, Any]:
        cwd = params.cwd
        if cwd is not None:
            _check_path(cwd)
        try:
            stored = await self._in_thread(lambda: self._loader.stored_sessions(cwd or os.getcwd()))
            rows, cursor = await self._in_thread(lambda: stored.page(cwd, params.cursor))
        except BadCursor:
            raise invalid_params("cursor", "it is not one of an earlier answer") from None
        result: dict[str, Any] = {"sessions": [_info(row) for row in rows]}
        if cursor is not None:
            result["nextCursor"] = cursor
        return result

    async def delete(self, id: str) -> None:
        """Remove a session file. An unknown id is a success."""
        async with self._locks.setdefault(id, asyncio.Lock()):
            session = self._open.get(id)
            cwd = os.getcwd() if session is None else session.handle.cwd
            path = None if session is None else session.handle.log.path
            if session is not None:
                await self._close(session)
            if not _ID.fullmatch(id):
                return
            stored = await self._in_thread(lambda: self._loader.stored_sessions(cwd))
            await self._in_thread(lambda: stored.delete(path or stored.find(id)))
            await self._in_thread(lambda: self._loader.empty_sessions.remove(id))

    # Close.

    async def close(self, id: str) -> None:
        await self._close(self.get(id))

    async def _close(self, session: AcpSession) -> None:
        """Close a session. It is closed even if the request is cancelled meanwhile."""
        self._open.pop(session.id, None)
        self._runners.pop(session.id, None)
        if (closing := self._closing.get(session)) is None:
            closing = self._closing[session] = asyncio.create_task(self._end(session))
            closing.add_done_callback(lambda done: self._closed(session))
        await asyncio.shield(closing)

    async def _end(self, session: AcpSession) -> None:
        await session.close()
        path, empty = session.handle.log.path, self._loader.empty_sessions
        if path is not None and os.path.exists(path):
            await asyncio.to_thread(empty.remove, session.id)

    def _closed(self, session: AcpSession) -> None:
        del self._closing[session]
        asyncio.get_running_loop().call_soon(gc.collect)  # a session is full of reference cycles

    def _collect_garbage(self) -> None:
        asyncio.get_running_loop().call_soon(self._collector.settled, "")

    async def close_all(self) -> None:
        await asyncio.gather(*(self._close(session) for session in [*self._open.values(), *self._closing]))

    def kill(self) -> None:
        """Kill every process of every session."""
        for session in (*self._open.values(), *self._closing):
            session.handle.kill()

    async def reload_keys(self) -> bool:
        """True if there is a key for any provider."""
        found: bool = await self._in_thread(self._loader.has_key)
        for session in list(self._open.values()):  # others may be opened or closed meanwhile
            await self._in_thread(session.handle.models.keys.reload)
            session.send_choices()
        return found

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        try:
            return await asyncio.to_thread(work)
        except (CommandError, UsageError) as error:
            raise failed(str(error)) from None


def _check_path(cwd: str) -> None:
    try:
        os.fsencode(cwd)
    except UnicodeEncodeError:
        raise invalid_params("cwd", "it has half of a surrogate pair") from None
    if "\0" in cwd or not os.path.isabs(cwd):
        raise invalid_params("cwd", f"expected an absolute path, not {cwd!r}")


def _check_folder(cwd: str) -> None:
    _check_path(cwd)
    if not os.path.isdir(cwd):
        raise invalid_params("cwd", f"there is no folder {cwd}")


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _info(row: SessionRow) -> SessionInfo:
    title = row.name or " ".join(row.first_message.split())[:MAX_TITLE]
    return SessionInfo(row.id, row.cwd, title or UNSET, _iso(row.modified))
