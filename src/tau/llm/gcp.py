"""Google credentials: the file of an account, gcloud, or the metadata server of the machine.

The only module that imports google-auth, which is the extra `vertex`, and only when it is needed. It may read files
and send requests, through the same proxies as model calls: call it in a thread that has no event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

from tau.errors import ModelError, shortened
from tau.llm.http import MAX_ERROR_CHARACTERS
from tau.llm.http_request import fetch
from tau.llm.proxies import environment_proxies

Proxies = tuple[tuple[str, str], ...]  # scheme and proxy

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
REQUEST_TIMEOUT_S = 30


def find_credentials(environment: Mapping[str, str]) -> Mapping[str, str]:
    """`environment` with a token and a project added, if any are found."""
    if environment.get("GOOGLE_CLOUD_API_KEY") or environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
        return environment
    try:
        import google.auth
        import google.auth.exceptions
    except ImportError:
        return environment
    try:
        proxies = tuple(sorted(environment_proxies(environment).items()))
        credentials, project = _account(environment.get("GOOGLE_APPLICATION_CREDENTIALS"), proxies)
        if not credentials.valid:
            credentials.refresh(_sender(proxies))
    except google.auth.exceptions.GoogleAuthError as error:
        raise _credentials_error(error, transient=bool(error.retryable)) from None
    except Exception as error:  # google-auth does not validate what servers return
        raise _credentials_error(error, transient=None) from None
    more = {"GOOGLE_OAUTH_ACCESS_TOKEN": credentials.token}
    if project and not environment.get("GCLOUD_PROJECT"):
        more["GOOGLE_CLOUD_PROJECT"] = environment.get("GOOGLE_CLOUD_PROJECT") or project
    return {**environment, **more}


def _credentials_error(error: Exception, *, transient: bool | None) -> ModelError:
    text = f"Google credentials: {str(error).strip() or type(error).__name__}"
    return ModelError(shortened(text, MAX_ERROR_CHARACTERS), transient=transient)


def forget() -> bool:
    """Discard cached credentials that a server rejected, even if they have not expired. False if there were none."""
    cached = _account.cache_info().currsize > 0
    _account.cache_clear()
    return cached


@lru_cache(maxsize=8)
def _account(file: str | None, proxies: Proxies) -> tuple[Any, str | None]:
    """Cached with its token, which is valid for an hour."""
    import google.auth

    credentials, project = google.auth.default(scopes=[SCOPE], request=_sender(proxies))
    return credentials, project


class Response(NamedTuple):
    """A response in the form that google-auth expects of a transport."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _sender(proxies: Proxies) -> Callable[..., Response]:
    return partial(_send, {f"{scheme}_proxy": proxy for scheme, proxy in proxies})


def _send(
    environment: Mapping[str, str],
    url: str,
    method: str = "GET",
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **others: Any,
) -> Response:
    import google.auth.exceptions

    data = body.encode() if isinstance(body, str) else body or b""
    seconds = timeout or REQUEST_TIMEOUT_S
    try:
        done = asyncio.run(fetch(method, url, headers or {}, data, environment=environment, timeout=seconds))
    except ModelError as error:
        raise google.auth.exceptions.TransportError(error, retryable=bool(error.transient)) from error
    return Response(done.status, done.headers, done.body)
