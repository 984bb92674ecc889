"""Refreshes an expired OAuth login, under the lock of auth.json.

A server may accept a refresh token only once, so two processes must not send the same one: the second waits for the
lock, reads the file again and finds the new tokens. The entry in the file is never removed: after a failure it is as
before, and after a success that cannot be written, the new tokens are used by this process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from tau.errors import ModelError
from tau.llm.catalog import OAuthClient
from tau.records.base import BadRecord
from tau.runtime.login.oauth import LoginError, OAuthFlow
from tau.store.auth import AuthFile, OAuthLogin

logger = logging.getLogger(__name__)


def refresh_login(
    provider: str, client: OAuthClient, expired: OAuthLogin, auth_file: Path, environment: Mapping[str, str]
) -> OAuthLogin:
    """Return valid tokens: those of another process, or new ones of the server. Blocks. Raises ModelError."""
    file = AuthFile(auth_file)
    try:
        with file.exclusive(provider) as locked:
            stored = OAuthLogin.of(locked.entry)
            if stored is None:  # the user has logged out; do not undo that
                raise LoginError("it is no longer in auth.json", rejected=True)
            if stored.access != expired.access and stored.valid(time.time() * 1000):
                return stored
            fresh = asyncio.run(OAuthFlow(client, environment).refresh(stored))
            try:
                locked.write(fresh.stored_over(locked.entry))
            except (OSError, BadRecord) as error:
                logger.warning("%s: the refreshed login for %s could not be saved: %s", auth_file, provider, error)
            return fresh
    except LoginError as error:
        return _after_failure(provider, file, expired, error)
    except (OSError, BadRecord) as error:
        raise ModelError(f"The login for {provider} could not be refreshed: {error}", transient=True) from None


def _after_failure(provider: str, file: AuthFile, expired: OAuthLogin, error: LoginError) -> OAuthLogin:
    """A program that does not use the lock may have refreshed the login in the meantime."""
    stored = OAuthLogin.of(file.read().get(provider))
    if stored is not None and stored.access != expired.access and stored.valid(time.time() * 1000):
        return stored
    advice = "" if error.transient else f" Log in again with `tau login {provider}`."
    raise ModelError(
        f"The login for {provider} could not be refreshed: {str(error).rstrip('.')}.{advice}",
        transient=error.transient,
    ) from None
