"""Where AWS credentials come from when they do not simply stand in the environment: profiles, roles, containers, SSO.

The only file that knows botocore, which is the extra `bedrock` and is loaded
when it is needed. It may read files and ask servers: to be called off the event
loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tau.errors import ModelError


def found(environment: Mapping[str, str]) -> Mapping[str, str]:
    """`environment` with credentials and region in it, if any can be found."""
    if any(environment.get(name) for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_BEDROCK_SKIP_AUTH")):
        return environment
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return environment
    session = _session(environment.get("AWS_PROFILE"))
    if session is None:
        return environment
    try:
        credentials = session.get_credentials()
        frozen = credentials.get_frozen_credentials() if credentials is not None else None
        region = session.get_config_variable("region")
    except Exception as error:  # of any of a dozen sources
        raise ModelError(f"AWS credentials: {error}", transient=False) from None
    if frozen is None:
        return environment
    more = {"AWS_ACCESS_KEY_ID": frozen.access_key, "AWS_SECRET_ACCESS_KEY": frozen.secret_key}
    if frozen.token:
        more["AWS_SESSION_TOKEN"] = frozen.token
    if region and not environment.get("AWS_REGION"):
        more["AWS_REGION"] = region
    return {**environment, **more}


def forget() -> bool:
    """What is kept was not accepted, whatever it says of how long it is good. False if nothing is kept."""
    kept = _session.cache_info().currsize > 0
    _session.cache_clear()
    return kept


@lru_cache(maxsize=8)
def _session(profile: str | None) -> Any:
    """Kept, since it renews credentials by itself before they expire."""
    try:
        import botocore.session
    except ImportError:
        return None
    return botocore.session.Session(profile=profile)
