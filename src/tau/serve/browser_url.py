"""`tau serve url`: an address that logs a browser in, once and within five minutes.

The code is in the fragment, which browsers send to no server and put in no Referer.
"""

from __future__ import annotations

import time

from tau.cli.flags import ParsedArguments
from tau.errors import UsageError
from tau.records.host_commands import Scope
from tau.runtime.terminal import emit
from tau.serve.access import RANK
from tau.serve.credentials import Credentials
from tau.store.host_files import running_host
from tau.store.paths import agent_dir


def main(arguments: ParsedArguments) -> int:
    scope = next((one for one in RANK if one == arguments.flags.get("scope", "admin")), None)
    if len(arguments.words) > 2 or scope is None:
        raise UsageError("usage: tau serve url [--scope watch|drive|admin]")
    folder = agent_dir()
    host = running_host(folder)
    if host is None:
        raise UsageError("No host is running: start one with tau serve.")
    if host.url is None:
        raise UsageError("The host listens on its Unix socket only: restart tau serve without --no-tcp.")
    emit(browser_url(host.url, Credentials(folder / "serve", time.time), scope))
    return 0


def browser_url(url: str, credentials: Credentials, scope: Scope = "admin") -> str:
    return f"{url}/#k={credentials.new_code(scope)}"
