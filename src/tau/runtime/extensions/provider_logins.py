"""OAuth logins of providers that extensions register.

The extension logs in, refreshes tokens and makes a key of them; tau stores the credentials in auth.json. A refresh
holds the lock of the file, because a server may accept a refresh token only once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from tau.errors import ExtensionFailure, ModelError
from tau.records.base import BadRecord
from tau.runtime.extensions.registry import ExtensionRegistry, ProviderLogin
from tau.store.auth import AuthFile, OAuthLogin

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 60.0
Show = Callable[[str], Awaitable[None]]


class ExtensionLogin:
    """The login of one provider. `auth_file` is auth.json."""

    def __init__(self, provider: str, extensions: ExtensionRegistry, auth_file: Path) -> None:
        self._provider = provider
        self._extensions = extensions
        self._file = AuthFile(auth_file)
        self._loop = asyncio.get_running_loop()

    def key(self, login: OAuthLogin) -> tuple[OAuthLogin, str]:
        """Return valid tokens and the key made of them. Blocks outside of the event loop. Raises ModelError."""
        try:
            entry = self._file.load().get(self._provider)
            stored = OAuthLogin.of(entry)
            if stored is None or not self._is_newer(stored, login):
                entry, stored = self._refreshed(login)
        except (OSError, BadRecord) as error:
            raise self._failure(str(error), transient=True) from None
        key = self._ask({"oauth": "key", "credentials": entry})
        if not isinstance(key, str):
            raise self._failure("the extension returned no key")
        return stored, key

    async def log_in(self, show: Show) -> None:
        """Let the extension log in, and store what it returns. `show` gets addresses and messages for the user.

        Raises ExtensionFailure; OSError or BadRecord if auth.json cannot be changed.
        """
        shown: list[asyncio.Task[None]] = []

        def progress(value: Any) -> None:
            shown.extend(asyncio.ensure_future(show(text)) for text in _texts(value))

        work = self._login().call({"oauth": "login"}, progress)
        entry = await self._extensions.ask(work, None)
        if shown:
            await asyncio.wait(shown)
        stored = _entry(entry)
        if stored is None:
            raise ExtensionFailure("The extension returned no credentials.")
        await asyncio.to_thread(self._file.change, self._provider, stored)
        await self._extensions.ask(self._login().call({"oauth": "stored"}, None), CALL_TIMEOUT_S)

    def _login(self) -> ProviderLogin:
        login = self._extensions.logins.get(self._provider)
        if login is None:
            raise ExtensionFailure("Its extension is not running.")
        return login

    def _is_newer(self, stored: OAuthLogin, login: OAuthLogin) -> bool:
        """True if the tokens in the file can be used: `login` has expired, or a server has rejected it."""
        now = time.time() * 1000
        return stored.valid(now) and (stored.access != login.access or login.valid(now))

    def _refreshed(self, login: OAuthLogin) -> tuple[dict[str, Any], OAuthLogin]:
        with self._file.exclusive(self._provider) as locked:
            before = OAuthLogin.of(locked.entry)
            if before is None:  # the user has logged out; do not undo that
                raise self._failure("it is no longer in auth.json")
            if self._is_newer(before, login):
                return locked.entry, before
            entry = _entry(self._ask({"oauth": "refresh", "credentials": locked.entry}))
            fresh = OAuthLogin.of(entry)
            if entry is None or fresh is None:
                raise self._failure("the extension returned no credentials")
            try:
                locked.write(entry)
            except (OSError, BadRecord) as error:
                logger.warning("the refreshed login for %s could not be saved: %s", self._provider, error)
            return entry, fresh

    def _ask(self, params: Mapping[str, Any]) -> Any:
        """Call the extension, from another thread than that of the event loop."""

        async def call() -> Any:
            return await self._extensions.ask(self._login().call(params, None), CALL_TIMEOUT_S)

        try:
            return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
        except (ExtensionFailure, CancelledError) as error:
            raise self._failure(str(error) or "it was cancelled") from None

    def _failure(self, why: str, *, transient: bool = False) -> ModelError:
        advice = "" if transient else f" Log in again with /login {self._provider}."
        text = f"The login for {self._provider} could not be used: {why.rstrip('.')}.{advice}"
        return ModelError(text, transient=transient)


def _entry(credentials: Any) -> dict[str, Any] | None:
    """The entry of auth.json for what an extension returns; None if these are no credentials."""
    entry = {**credentials, "type": "oauth"} if isinstance(credentials, dict) else None
    return entry if OAuthLogin.of(entry) is not None else None


def _texts(value: Any) -> list[str]:
    """What to show of a message that the extension sends during a login: an address alone can be opened."""
    if not isinstance(value, dict):
        return []
    return [text for name in ("url", "message") if isinstance(text := value.get(name), str) and text]
