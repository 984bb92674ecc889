"""Keys of providers, where a key may be the token of an OAuth login that has to be refreshed first."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tau.errors import ModelError
from tau.llm.catalog import Catalog
from tau.store.auth import OAuthLogin
from tau.store.keys import KEY_VARIABLES, Keys

# Makes a key of a login, and refreshes it before if it has expired. Blocks; raises ModelError.
LoginKey = Callable[[OAuthLogin], tuple[OAuthLogin, str]]


def expired_login_error(provider: str) -> str:
    """The error for a login that only pi can refresh."""
    variables = KEY_VARIABLES.get(provider, ())
    key = f"set {variables[-1]}, or store a key with `tau login {provider}`" if variables else f"`tau login {provider}`"
    return (
        f"The OAuth login for {provider} in auth.json has expired, and only pi can refresh it. Send a prompt with pi, "
        f"which refreshes it, or use an API key: {key}."
    )


class ProviderLogins:
    """Refreshes logins: with the OAuth client of models.json, or with the extension that registered the provider."""

    def __init__(self, catalog: Catalog, keys: Keys) -> None:
        self._catalog = catalog
        self._keys = keys
        self._of_extensions: Mapping[str, LoginKey] = {}

    def use_extensions(self, keys: Mapping[str, LoginKey]) -> None:
        """Let extensions handle the logins of these providers, and no others."""
        self._keys.refreshable = self._keys.refreshable - self._of_extensions.keys() | keys.keys()
        self._of_extensions = keys

    def take_time(self, provider: str) -> bool:
        """True if `current_key` may block."""
        refreshes = self._keys.expired_login(provider) is not None or self._of_extension(provider) is not None
        return refreshes or self._keys.runs_command(provider)

    def current_key(self, provider: str) -> tuple[str | None, bool]:
        """The key of a provider, and whether it is a bearer token. Raises ModelError if a login cannot be refreshed."""
        if (extension := self._of_extension(provider)) is not None:
            make_key, login = extension
            login, made = make_key(login)
            self._keys.set_login(provider, login, made)
            return made, False
        if (expired := self._keys.expired_login(provider)) is not None:
            self._refresh(provider, expired)
        key = self._keys.get(provider)
        return key, key is not None and self._keys.is_token(provider)

    def _of_extension(self, provider: str) -> tuple[LoginKey, OAuthLogin] | None:
        """The function of an extension and the login that is used; None for other keys."""
        login = self._keys.login(provider) if provider in self._of_extensions else None
        return None if login is None else (self._of_extensions[provider], login)

    def _refresh(self, provider: str, expired: OAuthLogin) -> None:
        """Replace an expired login. Sends a request, so it must not run in the event loop."""
        configured = self._catalog.configured.get(provider)
        client = configured.oauth_client if configured is not None else None
        if client is None:
            if self._keys.reload_login(provider) and self._keys.expired_login(provider) is None:
                return
            raise ModelError(expired_login_error(provider), transient=False)
        from tau.runtime.login.refresh import refresh_login

        environment = self._keys.environment(provider)
        self._keys.set_login(provider, refresh_login(provider, client, expired, self._keys.auth_file, environment))
