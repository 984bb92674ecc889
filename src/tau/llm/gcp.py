"""Where Google credentials come from: the file of an account, gcloud, or the machine.

The only file that knows google-auth, which is the extra `vertex` and is loaded
when it is needed. It may read files and ask servers: to be called off the event
loop.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from tau.errors import ModelError

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PATIENCE = 30  # seconds


def found(environment: Mapping[str, str]) -> Mapping[str, str]:
    """`environment` with a token and a project in it, if any can be found."""
    if environment.get("GOOGLE_CLOUD_API_KEY") or environment.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
        return environment
    try:
        import google.auth
        import google.auth.exceptions
    except ImportError:
        return environment
    try:
        credentials, project = _account(environment.get("GOOGLE_APPLICATION_CREDENTIALS"))
        if not credentials.valid:
            credentials.refresh(_ask)
    except google.auth.exceptions.GoogleAuthError as error:
        raise _failed(error, transient=bool(error.retryable)) from None
    except Exception as error:  # google-auth believes that a server says what it should
        raise _failed(error, transient=None) from None
    more = {"GOOGLE_OAUTH_ACCESS_TOKEN": credentials.token}
    if project and not environment.get("GCLOUD_PROJECT"):
        more["GOOGLE_CLOUD_PROJECT"] = environment.get("GOOGLE_CLOUD_PROJECT") or project
    return {**environment, **more}


def _failed(error: Exception, *, transient: bool | None) -> ModelError:
    return ModelError(f"Google credentials: {str(error).strip() or type(error).__name__}", transient=transient)


def forget() -> bool:
    """What is kept was not accepted, whatever it says of how long it is good. False if nothing is kept."""
    kept = _account.cache_info().currsize > 0
    _account.cache_clear()
    return kept


@lru_cache(maxsize=8)
def _account(file: str | None) -> tuple[Any, str | None]:
    """Kept with its token, which is good for an hour."""
    import google.auth

    credentials, project = google.auth.default(scopes=[SCOPE], request=_ask)
    return credentials, project


class Answer(NamedTuple):
    """What google-auth expects of a transport."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def _ask(
    url: str,
    method: str = "GET",
    body: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    **others: Any,
) -> Answer:
    import google.auth.exceptions

    data = body.encode() if isinstance(body, str) else body
    request = urllib.request.Request(url, data, dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout or PATIENCE) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        return Answer(error.code, dict(error.headers), error.read())
    except (OSError, http.client.HTTPException) as error:
        raise google.auth.exceptions.TransportError(error, retryable=True) from error
