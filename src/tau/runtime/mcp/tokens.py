"""Tokens of OAuth logins to MCP servers, in `tau-mcp-auth.json` of the agent's folder.

An entry belongs to a server name and its address: a token is never sent to another address. pi's `mcp-auth.json` is
neither read nor written.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from tau.concurrency.threads import run_in_thread
from tau.errors import ModelError
from tau.llm.catalog import OAuthClient
from tau.mcp.config import ServerConfig
from tau.records.base import BadRecord, convert, to_builtins
from tau.runtime.login.refresh import refresh_login
from tau.store.auth import AuthFile, OAuthLogin

logger = logging.getLogger(__name__)
FILE_NAME = "tau-mcp-auth.json"


class Tokens:
    def __init__(self, agent_dir: Path, environment: Mapping[str, str]) -> None:
        self.path = agent_dir / FILE_NAME
        self._environment = environment
        self._read: tuple[tuple[int, ...], dict[str, Any]] | None = None  # the entries, and what the file was then

    def entry(self, config: ServerConfig) -> dict[str, Any] | None:
        """The stored login of a server at its address. Blocks."""
        if not config.url or not os.path.exists(self.path):
            return None
        return _entry_for(config, AuthFile(self.path).read())

    async def _current(self, config: ServerConfig) -> dict[str, Any] | None:
        """The same for every request: the file is read only if it has changed."""
        state = _state_of(self.path)
        if state is None:
            return None
        if self._read is None or self._read[0] != state:
            self._read = state, await run_in_thread(lambda: AuthFile(self.path).read(), "mcp token")
        return _entry_for(config, self._read[1])

    def account(self, config: ServerConfig) -> str:
        """A hash that identifies the login, for the cache; empty without one. Blocks."""
        entry = self.entry(config)
        if entry is None:
            return ""
        return sha256(f"{entry.get('issuer')} {entry.get('obtained')}".encode()).hexdigest()

    async def access_token(self, config: ServerConfig) -> str | None:
        """A valid token; None if there is no login, or it cannot be refreshed."""
        entry = await self._current(config)
        login = OAuthLogin.of(entry)
        if entry is None or login is None:
            return None
        if login.valid(time.time() * 1000):
            return login.access
        return await self._refreshed(config, entry, login)

    async def refresh(self, config: ServerConfig) -> bool:
        """The server rejects the token: get another one. False if that is not possible."""
        entry = await self._current(config)
        login = OAuthLogin.of(entry)
        if entry is None or login is None:
            return False
        return await self._refreshed(config, entry, login) is not None

    async def _refreshed(self, config: ServerConfig, entry: Mapping[str, Any], login: OAuthLogin) -> str | None:
        try:
            client = convert(entry.get("client"), OAuthClient)
            fresh = await run_in_thread(
                lambda: refresh_login(config.name, client, login, self.path, self._environment), "mcp token"
            )
        except (BadRecord, ModelError) as error:
            logger.info("the login to the MCP server %s could not be refreshed: %s", config.name, error)
            return None
        if await self._current(config) is None:
            return None  # the user has logged in to another address under this name: its token is not for this one
        token: str = fresh.access
        return token

    def store(self, config: ServerConfig, login: OAuthLogin, client: OAuthClient) -> None:
        """Blocks. Raises BadRecord or OSError."""
        fields = {"url": config.url, "issuer": client.issuer, "obtained": int(time.time())}
        AuthFile(self.path).change(config.name, {**login.stored_over(None), **fields, "client": to_builtins(client)})

    def remove(self, name: str) -> bool:
        """Blocks. Raises BadRecord or OSError."""
        if not os.path.exists(self.path) or name not in AuthFile(self.path).load():
            return False
        AuthFile(self.path).change(name, None)
        return True


def _entry_for(config: ServerConfig, entries: Mapping[str, Any]) -> dict[str, Any] | None:
    entry = entries.get(config.name)
    return entry if isinstance(entry, dict) and entry.get("url") == config.url else None


def _state_of(path: Path) -> tuple[int, ...] | None:
    """What differs after a change of the file; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
