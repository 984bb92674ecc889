"""OAuth login to an MCP server: find its authorization server, register a client, log in with PKCE.

RFC 9728 (protected resource metadata), RFC 8414 (authorization server metadata), RFC 7591 (client registration), RFC
8707 (the token is for this server only). The flow itself is in runtime/login. Only https addresses, or this machine.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from tau.errors import ModelError
from tau.llm.catalog import OAuthClient
from tau.llm.http_request import SmallResponse, fetch
from tau.mcp.config import ServerConfig
from tau.mcp.definitions import safe_text
from tau.records.base import BadRecord, convert, encode
from tau.runtime.login.oauth import LoginError, OAuthFlow
from tau.runtime.login.redirect import Paste
from tau.store.auth import OAuthLogin

_METADATA_ADDRESS = re.compile(r'resource_metadata="?([^",\s]+)"?')
_SCOPE = re.compile(r'\bscope="([^"]*)"')
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class _Registered(NamedTuple):
    """A client of the authorization server. `secret` is one that the server issued."""

    client_id: str
    secret: str | None = None
    secret_in_header: bool = False


class McpLogin:
    def __init__(self, config: ServerConfig, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment

    def _check(self, address: str) -> str:
        """The address, if a login may use it: https, or this machine if the server itself runs there.

        Else a server elsewhere could make tau send requests to services of this machine. Raises LoginError.
        """
        if not _is_secure(address) and not (_is_local(address) and _is_local(self._config.url)):
            raise LoginError(f"The address {safe_text(address, 200)} is neither https nor on this machine.")
        return address

    async def run(
        self, show_url: Callable[[str], Awaitable[None]], pasted: Paste | None = None
    ) -> tuple[OAuthLogin, OAuthClient]:
        """Log in. Returns the tokens and the client that can refresh them. Raises LoginError."""
        challenge = await self._challenge()
        resource = await self._resource_metadata(challenge)
        issuer = _first_text(resource.get("authorization_servers")) or _origin(self._config.url)
        server = await self._server_metadata(issuer)
        scopes = self._scopes(challenge, resource)
        redirect = f"http://127.0.0.1:{self._config.oauth.callback_port or _free_port()}/callback"
        registered = _Registered(self._config.oauth.client_id or "")
        if not registered.client_id:
            registered = await self._register(server, redirect, scopes)
        client = OAuthClient(
            client_id=registered.client_id,
            token_url=self._address(server, "token_endpoint"),
            authorization_url=self._address(server, "authorization_endpoint"),
            revocation_url=self._address(server, "revocation_endpoint") if "revocation_endpoint" in server else None,
            client_secret=self._config.oauth.client_secret,
            issued_secret=registered.secret,
            secret_in_header=registered.secret_in_header,
            scopes=scopes,
            redirect_uri=redirect,
            resource=self._config.url,
            issuer=str(server.get("issuer") or issuer),
        )
        names_issuer = server.get("authorization_response_iss_parameter_supported") is True
        flow = OAuthFlow(client, self._environment)
        return await flow.authorize(show_url, pasted, names_issuer=names_issuer), client

    async def revoke(self, entry: Mapping[str, Any]) -> str:
        """Revoke stored tokens, where the server offers that. Returns why it failed; empty if it did not."""
        login = OAuthLogin.of(entry)
        try:
            client = convert(entry.get("client"), OAuthClient)
            if login is not None:
                await OAuthFlow(client, self._environment).revoke(login)
        except (BadRecord, LoginError) as error:
            return str(error)
        return ""

    async def _challenge(self) -> str:
        """The WWW-Authenticate header with which the server refuses a request."""
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        response = await self._fetch("POST", self._config.url, headers, encode(PROBE))
        if response.status == 401:
            return str(response.headers.get("www-authenticate", ""))
        if response.status // 100 == 2:
            raise LoginError(f"{self._config.name} answers without a login.")
        return ""

    async def _resource_metadata(self, challenge: str) -> Mapping[str, Any]:
        named = _METADATA_ADDRESS.search(challenge)
        addresses = [named[1]] if named else list(_well_known(self._config.url, "oauth-protected-resource"))
        for address in addresses:
            if not address.startswith(f"{_origin(self._config.url)}/"):
                raise LoginError("The server names metadata on another host, which is refused.")
            content = await self._metadata(address)
            if content:
                wanted, given = self._config.url, content.get("resource")
                if isinstance(given, str) and not _covers(given, wanted):
                    raise LoginError(f"The metadata is for another server: {safe_text(given, 200)}")
                return content
        return {}  # servers of 2025-03-26 have no such document and are their own authorization server

    async def _server_metadata(self, issuer: str) -> Mapping[str, Any]:
        self._check(issuer)
        for kind in ("oauth-authorization-server", "openid-configuration"):
            for address in _well_known(issuer, kind):
                content = await self._metadata(address)
                if content:
                    if str(content.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
                        raise LoginError("The authorization server names another issuer than the one that was asked.")
                    methods = content.get("code_challenge_methods_supported")
                    if isinstance(methods, list) and "S256" not in methods:
                        raise LoginError("The authorization server does not support PKCE with S256.")
                    return content
        base = _origin(issuer)
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
        }

    async def _register(self, server: Mapping[str, Any], redirect: str, scopes: list[str]) -> _Registered:
        """Register as a public client. The server may make it a confidential one (RFC 7591, 3.2.1)."""
        if "registration_endpoint" not in server:
            raise LoginError("The server has no client registration. Set oauth.clientId to a client of your own.")
        request = {
            "client_name": "tau",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            **({"scope": " ".join(scopes)} if scopes else {}),
        }
        headers = {"content-type": "application/json"}
        address = self._address(server, "registration_endpoint")
        response = await self._fetch("POST", address, headers, encode(request))
        client_id = response.content.get("client_id")
        if response.status not in (200, 201) or not isinstance(client_id, str):
            reason = safe_text(response.content.get("error_description") or response.content.get("error"), 200)
            raise LoginError(f"The server did not register tau: {response.status} {reason}".rstrip())
        secret = response.content.get("client_secret")
        method = response.content.get("token_endpoint_auth_method") or "client_secret_basic"
        if not isinstance(secret, str) or not secret or method == "none":
            return _Registered(client_id)
        if method not in ("client_secret_basic", "client_secret_post"):
            raise LoginError(
                f"The server wants tau to identify itself in a way it does not know: {safe_text(method, 100)}"
            )
        return _Registered(client_id, secret, method == "client_secret_basic")

    def _scopes(self, challenge: str, resource: Mapping[str, Any]) -> list[str]:
        if self._config.oauth.scope is not None:
            return self._config.oauth.scope.split()
        if named := _SCOPE.search(challenge):
            return named[1].split()
        supported = resource.get("scopes_supported")
        return [scope for scope in supported if isinstance(scope, str)] if isinstance(supported, list) else []

    async def _metadata(self, address: str) -> Mapping[str, Any]:
        response = await self._fetch("GET", self._check(address), {})
        return response.content if response.status == 200 else {}

    def _address(self, server: Mapping[str, Any], name: str) -> str:
        address = server.get(name)
        if not isinstance(address, str):
            raise LoginError(f"The authorization server has no {name}.")
        return self._check(address)

    async def _fetch(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> SmallResponse:
        try:
            return await fetch(method, url, headers, body, environment=self._environment)
        except ModelError as error:
            raise LoginError(str(error), transient=bool(error.transient)) from None


def _well_known(url: str, kind: str) -> Iterator[str]:
    """The addresses of a metadata document: with the path of the URL, then without."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if path:
        yield urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{kind}{path}", "", ""))
        if kind == "openid-configuration":
            yield urlunsplit((parts.scheme, parts.netloc, f"{path}/.well-known/{kind}", "", ""))
    yield urlunsplit((parts.scheme, parts.netloc, f"/.well-known/{kind}", "", ""))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _covers(resource: str, url: str) -> bool:
    try:
        given, wanted = urlsplit(resource), urlsplit(url)
    except ValueError:
        return False
    same = (given.scheme, given.netloc.lower()) == (wanted.scheme, wanted.netloc.lower())
    path = given.path.rstrip("/")
    return same and (wanted.path == path or wanted.path.startswith(f"{path}/") or wanted.path.rstrip("/") == path)


def _is_secure(url: str) -> bool:
    return _host(url, "https") not in ("", *LOCAL_HOSTS)


def _is_local(url: str) -> bool:
    return (_host(url, "http") or _host(url, "https")) in LOCAL_HOSTS


def _host(url: str, scheme: str) -> str:
    """The host of an address with this scheme; empty for anything else."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "") if parts.scheme == scheme and parts.port != 0 and url.isprintable() else ""
    except ValueError:  # brackets without an address, or a port that is none
        return ""


def _first_text(items: Any) -> str:
    return next((item for item in items if isinstance(item, str)), "") if isinstance(items, list) else ""


def _free_port() -> int:
    """A port for the redirect: the server must know it when the client is registered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
