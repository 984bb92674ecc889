"""Login and logout of one user: which providers there are, and what auth.json stores for them.

The operations of `tau login` and `tau logout`, for any user interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from tau.errors import UsageError
from tau.llm.catalog import LOCAL_PROVIDERS, Catalog, OAuthClient, parse_providers
from tau.runtime.login.key_check import KeyCheck, check_key
from tau.runtime.login.oauth import LoginError, OAuthFlow
from tau.store.auth import AuthFile, OAuthLogin
from tau.store.config_values import missing_variables, not_set, resolve_value
from tau.store.keys import KEY_VARIABLES, Keys
from tau.store.models import read_models

Stored = Literal["key", "oauth", "other"]


class LoggedOut(NamedTuple):
    """Result of a logout: whether there was an entry, why it was not revoked, and where a key still comes from."""

    removed: bool
    not_revoked: str | None
    other_source: str | None


class Logins:
    def __init__(self, agent_dir: Path, environment: Mapping[str, str]) -> None:
        """Raises UsageError if models.json cannot be read."""
        content, trouble = read_models(agent_dir / "models.json")
        if trouble is not None:
            raise UsageError(trouble)
        configs, problems = parse_providers(content) if content is not None else ({}, [])
        self.problems = [problem.text for problem in problems]
        self._catalog = Catalog(configs, environment)
        self._file = AuthFile(agent_dir / "auth.json")
        self._environment = environment

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def providers(self) -> list[str]:
        """The providers that need a key or a login."""
        return [name for name in self._catalog.providers if name not in LOCAL_PROVIDERS]

    def provider(self, name: str) -> str:
        """The name of a provider as the catalogue spells it. Raises UsageError."""
        known = self._catalog.canonical_name(name)
        if known is None:
            raise UsageError(f'Unknown provider "{name}". models.json in the agent folder can define others.')
        return known

    def oauth_client(self, provider: str) -> OAuthClient | None:
        config = self._catalog.configured.get(provider)
        return config.oauth_client if config is not None else None

    def stored(self) -> dict[str, Stored]:
        """What auth.json contains for each provider. Raises BadRecord or OSError if it cannot be read."""
        return {name: _kind(entry) for name, entry in self._file.load().items()}

    def resolve(self, text: str) -> str:
        """The key that a text means: itself, a variable or the output of a command. Raises LoginError."""
        if not text.strip():
            raise LoginError("There is no key: nothing was stored.")
        if any(ord(character) < 32 for character in text):
            raise LoginError("The key contains control characters: nothing was stored.")
        if unset := missing_variables(text, self._environment, is_key=True):
            raise LoginError(f"{not_set(unset)}: nothing was stored.")
        key = resolve_value(text, self._environment)
        if key is None:
            raise LoginError("The command prints no key: nothing was stored.")
        return key

    async def check(self, provider: str, key: str) -> KeyCheck:
        """Ask the provider whether it accepts a key, where this costs nothing."""
        model = self._catalog.default(provider) if provider in self._catalog.providers else None
        if model is None:
            return KeyCheck("unknown", f"{provider} has no model to check the key with.")
        return await check_key(model, key, self._environment, configured=provider in self._catalog.configured)

    def store_key(self, provider: str, text: str) -> None:
        """Store a key; variables that belong to the provider's entry are kept. Raises BadRecord or OSError."""
        entry = self._file.load().get(provider)
        kept = {"env": entry["env"]} if isinstance(entry, dict) and isinstance(entry.get("env"), dict) else {}
        self._file.change(provider, {"type": "api_key", "key": text, **kept})

    def oauth_flow(self, provider: str) -> OAuthFlow:
        client = self.oauth_client(provider)
        if client is None:
            raise LoginError(f"{provider} has no oauthClient in models.json.")
        return OAuthFlow(client, self._environment)

    def store_login(self, provider: str, login: OAuthLogin) -> None:
        self._file.change(provider, login.stored_over(None))

    async def log_out(self, provider: str) -> LoggedOut:
        """Remove the entry of a provider, and revoke its tokens where the server offers that."""
        entry = self._file.load().get(provider)
        login, client, trouble = OAuthLogin.of(entry), self.oauth_client(provider), None
        if login is not None and client is not None:
            try:
                await OAuthFlow(client, self._environment).revoke(login)
            except LoginError as error:
                trouble = str(error)
        if entry is not None:
            self._file.change(provider, None)
        keys = Keys(self.path, self._environment)
        configured = self._catalog.configured.get(provider)
        if configured is not None and configured.api_key:
            keys.configured[provider] = configured.api_key
        return LoggedOut(entry is not None, trouble, keys.source(provider) if keys.has(provider) else None)


def key_variable(provider: str) -> str | None:
    """The environment variable that is an alternative to storing a key."""
    names = KEY_VARIABLES.get(provider)
    return names[-1] if names else None


def _kind(entry: object) -> Stored:
    if not isinstance(entry, dict):
        return "other"
    return {"api_key": "key", "oauth": "oauth"}.get(str(entry.get("type")), "other")  # type: ignore[return-value]
