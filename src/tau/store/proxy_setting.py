"""The setting `httpProxy` as environment variables: for model calls, commands and extensions of a session."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY")


def with_proxy(environment: Mapping[str, str], address: str | None) -> Mapping[str, str]:
    """Return the environment with a proxy for HTTP and HTTPS. Variables that are set win over the setting."""
    if not address:
        return environment
    missing = [name for name in VARIABLES if not environment.get(name) and not environment.get(name.lower())]
    return {**environment, **dict.fromkeys(missing, address)} if missing else environment


def process_environment(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment of the process with the proxies of a session's environment; None if they are the same."""
    proxies = {name: environment[name] for name in VARIABLES if environment.get(name)}
    if all(os.environ.get(name) == proxy for name, proxy in proxies.items()):
        return None
    return {**os.environ, **proxies}
