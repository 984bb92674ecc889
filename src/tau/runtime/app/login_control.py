"""Keys and logins of a running session: which there are, to store one, to remove one, and models that need none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tau.errors import CommandError, ExtensionFailure
from tau.records.base import BadRecord
from tau.records.models import Model
from tau.runtime.extensions.provider_logins import ExtensionLogin
from tau.runtime.login.login import LoggedOut, Logins, key_variable
from tau.runtime.login.oauth import DeviceCode, LoginError
from tau.runtime.models.discovery import discover
from tau.runtime.session import choices
from tau.runtime.session.session import Session

if TYPE_CHECKING:
    from tau.runtime.app.factory import SessionFactory


class ProviderState(NamedTuple):
    name: str
    source: str | None  # where its key comes from
    missing: Sequence[str]  # the variables that this refers to and that are not set: there is no key
    stored: bool  # auth.json has an entry
    variable: str | None  # an environment variable that can hold the key
    oauth: bool  # models.json says how to log in, or an extension does it


class StoredKey(NamedTuple):
    path: Path
    note: str  # what the provider said of the key


class LoginControl:
    """Raises CommandError for what cannot be done."""

    def __init__(self, opening: SessionFactory, session: Session) -> None:
        self._session = session
        self._logins = Logins(opening.config.agent_dir, opening.environment)

    def providers(self) -> Sequence[ProviderState]:
        """Blocks."""
        logins, keys = self._logins, self._session.models.keys
        try:
            stored = logins.stored()
        except (BadRecord, OSError) as error:
            raise CommandError(f"{logins.path}: {error}") from None
        of_extensions = self._session.extensions.logins
        return [
            ProviderState(
                name,
                keys.source(name),
                keys.missing(name),
                name in stored,
                key_variable(name),
                name in of_extensions or logins.oauth_client(name) is not None,
            )
            for name in sorted({*logins.providers, *stored, *of_extensions})
        ]

    def provider(self, name: str) -> ProviderState:
        """Raises UsageError for an unknown name. Blocks."""
        known = name if name in self._session.extensions.logins else self._logins.provider(name)
        return next(one for one in self.providers() if one.name == known)

    async def store_key(self, provider: str, text: str) -> StoredKey:
        """Check a key where that costs nothing, store it and use it."""
        logins = self._logins
        try:
            key = logins.resolve(text.strip())
            check = await logins.check(provider, key)
            if check.outcome == "rejected":
                raise CommandError(f"{check.why}. Nothing was stored.")
            await self._in_thread(lambda: logins.store_key(provider, text.strip()))
        except (LoginError, BadRecord, OSError) as error:
            raise CommandError(str(error)) from None
        note = f"{provider} accepted the key." if check.outcome == "accepted" else f"It was not checked: {check.why}"
        return StoredKey(logins.path, note)

    async def log_in(self, provider: str, show: Callable[[str], Awaitable[None]]) -> None:
        """Log in with OAuth. `show` tells the user which address to open."""
        if provider in self._session.extensions.logins:
            await self._log_in_by_extension(provider, show)
            return
        logins = self._logins
        client = logins.oauth_client(provider)

        async def show_code(device: DeviceCode) -> None:
            await show(f"Open {device.complete_url or device.url} in a browser. The code is {device.code}")

        try:
            flow = logins.oauth_flow(provider)
            by_device = client is not None and client.authorization_url is None
            login = await (flow.authorize_device(show_code) if by_device else flow.authorize(show))
            await self._in_thread(lambda: logins.store_login(provider, login))
        except (LoginError, BadRecord, OSError) as error:
            raise CommandError(str(error)) from None

    async def _log_in_by_extension(self, provider: str, show: Callable[[str], Awaitable[None]]) -> None:
        try:
            await ExtensionLogin(provider, self._session.extensions, self._logins.path).log_in(show)
        except (ExtensionFailure, BadRecord, OSError) as error:
            raise CommandError(str(error)) from None
        await self._in_thread(lambda: None)

    async def log_out(self, provider: str) -> LoggedOut:
        try:
            done = await self._logins.log_out(provider)
        except (LoginError, BadRecord, OSError) as error:
            raise CommandError(str(error)) from None
        await self._in_thread(lambda: None)
        return done

    def default_model(self, provider: str) -> Model | None:
        """The model to begin with, when a provider can be used for the first time."""
        return self._session.models.catalog.default(provider)

    async def begin_with(self, name: str) -> None:
        """Choose the first model, with the thinking level that the session was to start with."""
        session = self._session
        match = session.models.find(name, session.settings)
        session.models.level = session.models.start_level  # without a model it is off
        await choices.set_model(session, match.model.provider, match.model.id)

    async def local_models(self) -> Sequence[Model]:
        """The models that servers on this machine offer now."""
        models = self._session.models
        found = await self._session.services.machine.in_thread(lambda: discover(models.catalog, models.keys))
        return [model for server in found.values() for model in server.models]

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """Do something with auth.json, and read it again."""
        keys = self._session.models.keys

        def change() -> None:
            work()
            keys.reload()

        await self._session.services.machine.in_thread(change)
