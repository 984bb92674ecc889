"""A copy of a session at a host, kept up to date, so that a front end reads entries and totals as it always does."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tau.client.client import RpcClient
from tau.core.conversation.tree import ROOT, Tree
from tau.errors import CommandError
from tau.records.base import UNSET, UnsetType, encode, replace
from tau.records.entries import Header
from tau.records.models import Model
from tau.records.replies import SessionState
from tau.runtime.clock import iso
from tau.runtime.history.session_log import SessionLog
from tau.runtime.models.selection import ModelSelection
from tau.runtime.session.session import Session
from tau.runtime.session.state import StateReader
from tau.store.sessions import OpenedSession, open_session


class RemoteModels(ModelSelection):
    """The models that the host can use, and the one that the session uses."""

    def __init__(self, local: ModelSelection) -> None:
        super().__init__(local.catalog, local.keys)
        self.offered: list[Model] = []

    @property
    def available(self) -> list[Model]:
        return self.offered


class RemoteState(StateReader):
    """The state of the session at the host, as far as it was told."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.told: SessionState | None = None
        self.streaming = self.compacting = False
        self.queued = 0

    def masked(self) -> SessionState:
        state, told = super().masked(), self.told
        if told is None:
            return state
        return replace(
            told,
            model=state.model,
            thinking_level=state.thinking_level,
            is_streaming=self.streaming,
            is_compacting=self.compacting,
            session_id=state.session_id,
            session_name=state.session_name,
            message_count=state.message_count,
            pending_message_count=self.queued,
        )

    def file(self) -> str | UnsetType:
        return UNSET if self.told is None else self.told.session_file


class SessionMirror:
    """Replaces the log and the models of a session that runs nothing."""

    def __init__(self, session: Session, client: RpcClient) -> None:
        self._session = session
        self._client = client
        self.models = RemoteModels(session.models)
        session.models = self.models
        self.state = RemoteState(session)
        self.active_tools: Sequence[str] = ()
        self._changes = 0  # requests to update
        self._updating: asyncio.Lock = asyncio.Lock()

    async def load(self) -> None:
        """Read the whole session. One reading at a time: an older one must not replace what a newer one has read."""
        async with self._updating:
            self._changes = 0
            await self._load()

    async def _load(self) -> None:
        state = await self.read_facts()
        if not self.models.offered:
            self.models.offered = await self._client.get_available_models()
        reply = await self._client.get_entries()
        opened = await asyncio.to_thread(self._read, state.session_id, [encode(entry) for entry in reply.entries])
        self._use(opened.header, opened.tree, reply.leaf_id)

    async def read_facts(self) -> SessionState:
        """Read what no entry and no event says."""
        self.active_tools = [tool.name for tool in await self._client.get_tools() if tool.active]
        return await self.read_state()

    async def read_state(self) -> SessionState:
        state = await self._client.get_state()
        self.state.told, self.state.streaming, self.state.compacting = state, state.is_streaming, state.is_compacting
        self.state.queued = state.pending_message_count
        self.models.current, self.models.level = state.model, state.thinking_level
        return state

    async def update(self) -> None:
        """Read the entries that were added. Requests that come meanwhile are served by one more reading."""
        self._changes += 1
        async with self._updating:
            if self._changes:
                self._changes = 0
                await self._update()

    async def _update(self) -> None:
        tree = self._session.log.tree
        last = tree.id(len(tree) - 1) if len(tree) else None
        try:
            reply = await self._client.get_entries(last)
        except CommandError:  # the session went to another one
            await self._load()
            return
        added: Sequence[Any] = reply.entries
        for entry in added:
            if entry.get("parentId") != tree.leaf_id or entry.get("type") == "leaf":
                await self._load()
                return
            tree.add(encode(entry), str(entry["id"]), str(entry["type"]))
        if added or reply.leaf_id != tree.leaf_id:
            self._use(self._session.log.header, tree, reply.leaf_id)

    def _read(self, id: str, lines: Sequence[bytes]) -> OpenedSession:
        """Entries as a session in memory. They are read from a file, which knows branches; it is deleted at once."""
        header = Header(id=id, timestamp=iso(), cwd=self._session.services.cwd, parent_session=UNSET)
        handle, name = tempfile.mkstemp(prefix="tau-attach-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(b"\n".join([encode(header), *lines, b""]))
            return open_session(Path(name))
        finally:
            os.unlink(name)

    def _use(self, header: Header, tree: Tree, leaf_id: str | None) -> None:
        """`leaf_id` is the place of the session: entries alone do not say that it went back to an earlier one."""
        if leaf_id != tree.leaf_id:
            at = ROOT if leaf_id is None else tree.find(leaf_id)
            tree.leaf = tree.leaf if at is None else at
        self._session.log = SessionLog(header, None, self._session.write_failed, tree)
