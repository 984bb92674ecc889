"""OAuth 2.0 for clients that a user has registered: authorization code with PKCE, device code, refresh, revocation.

RFC 6749, 7009 (revocation), 7636 (PKCE), 8252 (loopback redirects) and 8628 (device code). tau ships no client id of
any provider. Errors never contain a token, a code or the secret of the client.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit, urlunsplit

from tau.core.checks.secrets import mask_secrets
from tau.errors import ModelError, TauError, shortened
from tau.llm.catalog import OAuthClient
from tau.llm.http_request import SmallResponse, fetch
from tau.runtime.login.redirect import Paste, RedirectListener
from tau.store.auth import OAuthLogin
from tau.store.config_values import missing_variables, not_set, resolve_value

DEFAULT_LIFETIME_S = 3600  # of a token whose server does not say
MAX_MARGIN_S = 300  # a token is refreshed this long before it expires, or after 90% of a short life
DEFAULT_POLL_S = 5.0
MIN_POLL_S = 0.1
MAX_POLL_S = 60.0
MAX_DEVICE_LIFETIME_S = 1800.0
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class LoginError(TauError):
    """A login or a refresh failed.

    `transient` says whether a retry may help, `rejected` that a new login is needed, `slow_down` that the server wants
    fewer requests.
    """

    def __init__(
        self, message: str, *, transient: bool = False, rejected: bool = False, slow_down: bool = False
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.rejected = rejected
        self.slow_down = slow_down


class DeviceCode(NamedTuple):
    """What the user needs on another device: an address, and the code to enter there."""

    url: str
    code: str
    complete_url: str | None


class OAuthFlow:
    """The requests of one client. `environment` names proxies, and the variable of a client secret."""

    def __init__(self, client: OAuthClient, environment: Mapping[str, str]) -> None:
        self._client = client
        self._environment = environment
        self._secret = client.issued_secret
        if self._secret is None and client.client_secret:
            if unset := missing_variables(client.client_secret, environment, is_key=True):
                raise LoginError(f"{not_set(unset)}: clientSecret refers to it.")
            self._secret = resolve_value(client.client_secret, environment)

    async def authorize(
        self,
        show_url: Callable[[str], Awaitable[None]],
        pasted: Paste | None = None,
        *,
        names_issuer: bool = False,
    ) -> OAuthLogin:
        """Log in with a browser: `show_url` opens the address of the login page.

        `pasted` asks for the address where a browser on another machine ends. `names_issuer`: the server has announced
        that every answer says who gives it (RFC 9207), so one that does not is refused.
        """
        if self._client.authorization_url is None:
            raise LoginError("This provider has no authorizationUrl.")
        verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
        async with RedirectListener(self._client.redirect_uri, state) as listener:
            await show_url(self._authorization_url(verifier, state, listener.redirect_uri))
            answer = await listener.received(pasted)
        expected = self._client.issuer
        if expected is not None and answer.get("iss", None if names_issuer else expected) != expected:
            raise LoginError("The answer to the login comes from another server than the one that was asked.")
        if "code" not in answer:
            raise LoginError(f"The login was refused: {_error_text(answer, (verifier, state))}")
        fields = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": listener.redirect_uri,
            "code_verifier": verifier,
        }
        return await self._token(fields, previous_refresh="")

    def _authorization_url(self, verifier: str, state: str, redirect_uri: str) -> str:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self._scope(),
            **self._resource(),
        }
        parts = urlsplit(self._client.authorization_url or "")
        return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, urlencode(query))))))

    async def authorize_device(self, show_code: Callable[[DeviceCode], Awaitable[None]]) -> OAuthLogin:
        """Log in with a browser on any device: `show_code` shows the user where to enter the code."""
        if self._client.device_authorization_url is None:
            raise LoginError("This provider has no deviceAuthorizationUrl.")
        response = await self._post(self._client.device_authorization_url, self._scope())
        content = response.content
        device_code, user_code = content.get("device_code"), content.get("user_code")
        url = content.get("verification_uri") or content.get("verification_url")
        if response.status != 200 or not all(isinstance(text, str) and text for text in (device_code, user_code, url)):
            raise self._refused("The device login could not be started", response)
        complete = content.get("verification_uri_complete")
        shown = DeviceCode(str(url), str(user_code), complete if isinstance(complete, str) else None)
        for address in (shown.url, shown.complete_url or shown.url):
            if not _is_web_page(address):
                raise LoginError("The server sent an address for the login that is not a web page.")
        await show_code(shown)
        lifetime = min(_seconds(content.get("expires_in"), MAX_DEVICE_LIFETIME_S), MAX_DEVICE_LIFETIME_S)
        interval = max(_seconds(content.get("interval"), DEFAULT_POLL_S), MIN_POLL_S)
        try:
            async with asyncio.timeout(lifetime):
                return await self._poll(str(device_code), interval)
        except TimeoutError:
            raise LoginError("The code has expired before the login was confirmed.") from None

    async def _poll(self, device_code: str, interval: float) -> OAuthLogin:
        fields = {"grant_type": DEVICE_GRANT, "device_code": device_code}
        while True:
            await asyncio.sleep(interval)
            try:
                return await self._token(fields, previous_refresh="")
            except LoginError as error:
                if not error.transient:
                    raise
                if error.slow_down:
                    interval += 5
            interval = min(interval, MAX_POLL_S)

    async def refresh(self, login: OAuthLogin) -> OAuthLogin:
        """Exchange the refresh token. A server may replace it, or let it stay valid."""
        if not login.refresh:
            raise LoginError("the server gave no refresh token", rejected=True)
        fields = {"grant_type": "refresh_token", "refresh_token": login.refresh, **self._scope()}
        return await self._token(fields, previous_refresh=login.refresh)

    async def revoke(self, login: OAuthLogin) -> None:
        if self._client.revocation_url is None:
            return
        token, kind = (login.refresh, "refresh_token") if login.refresh else (login.access, "access_token")
        fields = {"token": token, "token_type_hint": kind}
        response = await self._post(self._client.revocation_url, fields)
        if response.status == 400 and self._secret is None:  # servers of the Python SDK for MCP require the field
            response = await self._post(self._client.revocation_url, {**fields, "client_secret": ""})
        if response.status != 200:
            raise self._refused("The server did not revoke the login", response, token)

    async def _token(self, fields: Mapping[str, str], previous_refresh: str) -> OAuthLogin:
        asked_at = time.time()
        response = await self._post(self._client.token_url, {**fields, **self._resource()})
        content = response.content
        access, kind = content.get("access_token"), content.get("token_type", "bearer")
        if response.status != 200 or "error" in content:
            raise self._refused("the server answered", response, *fields.values())
        if not isinstance(access, str) or not access or str(kind).lower() != "bearer":
            raise LoginError("the server's answer has no bearer token")
        refresh = content.get("refresh_token")
        lifetime = _seconds(content.get("expires_in"), DEFAULT_LIFETIME_S)
        expires = asked_at + lifetime - min(MAX_MARGIN_S, lifetime / 10)
        kept = refresh if isinstance(refresh, str) and refresh else previous_refresh
        return OAuthLogin(access, kept, int(expires * 1000))

    async def _post(self, url: str, fields: Mapping[str, str]) -> SmallResponse:
        sent = {"client_id": self._client.client_id, **fields}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if self._secret is not None and self._client.secret_in_header:
            headers["authorization"] = f"Basic {self._credentials(self._secret)}"
        elif self._secret is not None:
            sent["client_secret"] = self._secret
        try:
            return await fetch("POST", url, headers, urlencode(sent).encode(), environment=self._environment)
        except ModelError as error:
            raise LoginError(str(error), transient=bool(error.transient)) from None

    def _credentials(self, secret: str) -> str:
        return base64.b64encode(f"{quote_plus(self._client.client_id)}:{quote_plus(secret)}".encode()).decode()

    def _refused(self, what: str, response: SmallResponse, *sent: str) -> LoginError:
        """The error for a response, in the words of the server but without what tau sent."""
        content = response.content
        code = content.get("error")
        pending = code in ("authorization_pending", "slow_down")
        secret = self._secret
        text = _error_text(content, (*sent, secret, None if secret is None else self._credentials(secret)))
        return LoginError(
            f"{what}: {response.status} {text}".rstrip(),
            transient=pending or response.status >= 500 or response.status == 429,
            rejected=code == "invalid_grant",
            slow_down=code == "slow_down" or response.status == 429,
        )

    def _resource(self) -> dict[str, str]:
        return {"resource": self._client.resource} if self._client.resource else {}

    def _scope(self) -> dict[str, str]:
        return {"scope": " ".join(self._client.scopes)} if self._client.scopes else {}


def _error_text(content: Mapping[str, Any], sent: tuple[str | None, ...]) -> str:
    words = [content[name] for name in ("error", "error_description") if isinstance(content.get(name), str)]
    return mask_secrets(shortened(": ".join(words), 500), [text for text in sent if text and len(text) > 7])


def _is_web_page(address: str) -> bool:
    try:
        return urlsplit(address).scheme in ("http", "https") and address.isprintable()
    except ValueError:
        return False


def _seconds(value: Any, default: float) -> float:
    """A duration in a response. Some servers send it as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return default
    return number if 0 <= number < 10**10 else default
