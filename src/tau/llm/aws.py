"""AWS credentials that are not in the environment: profiles, roles, containers, SSO.

The only module that imports botocore, which is the extra `bedrock`, and only when it is needed. It may read files and
send requests: call it in a thread.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tau.concurrency.helper_commands import collect_output, helper_command
from tau.errors import ModelError, shortened
from tau.llm.http import MAX_ERROR_CHARACTERS
from tau.llm.proxies import environment_proxies

PROCESS_TIMEOUT_S = 60.0  # of a `credential_process`; it may ask the user for a second factor


def find_credentials(environment: Mapping[str, str]) -> Mapping[str, str]:
    """`environment` with credentials and region added, if any are found."""
    if any(environment.get(name) for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_BEDROCK_SKIP_AUTH")):
        return environment
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return environment
    session = _session(environment.get("AWS_PROFILE"), _own_proxies(environment))
    if session is None:
        return environment
    try:
        credentials = session.get_credentials()
        frozen = credentials.get_frozen_credentials() if credentials is not None else None
        region = session.get_config_variable("region")
    except Exception as error:  # from any of a dozen sources
        text = shortened(f"AWS credentials: {error}", MAX_ERROR_CHARACTERS)  # it may quote all output of a command
        raise ModelError(text, transient=False) from None
    if frozen is None:
        return environment
    more = {"AWS_ACCESS_KEY_ID": frozen.access_key, "AWS_SECRET_ACCESS_KEY": frozen.secret_key}
    if frozen.token:
        more["AWS_SESSION_TOKEN"] = frozen.token
    if region and not environment.get("AWS_REGION"):
        more["AWS_REGION"] = region
    return {**environment, **more}


def forget() -> bool:
    """Discard cached credentials that a server rejected, even if they have not expired. False if there were none."""
    cached = _session.cache_info().currsize > 0
    _session.cache_clear()
    return cached


def _own_proxies(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The proxies by scheme, unless they are those of the process, which botocore reads itself."""
    proxies = environment_proxies(environment)
    if proxies == environment_proxies(os.environ):
        return ()
    return tuple((scheme, proxies[scheme]) for scheme in ("http", "https") if scheme in proxies)


@lru_cache(maxsize=8)
def _session(profile: str | None, proxies: tuple[tuple[str, str], ...]) -> Any:
    """Cached, because it renews credentials before they expire."""
    try:
        import botocore.config
        import botocore.session
    except ImportError:
        return None
    session = botocore.session.Session(profile=profile)
    if proxies:
        session.set_default_client_config(botocore.config.Config(proxies=dict(proxies)))
    for provider in session.get_component("credential_provider").providers:
        if hasattr(provider, "_popen"):  # botocore waits for a `credential_process` for ever, and leaves it behind
            provider._popen = CredentialProcess
    return session


class CredentialProcess(subprocess.Popen[bytes]):
    """The program of a `credential_process`, with a time limit."""

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        try:
            with self, helper_command(self):
                return collect_output(self, PROCESS_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the credential_process did not end within {PROCESS_TIMEOUT_S:g} s") from None
