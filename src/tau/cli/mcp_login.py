"""`tau mcp login NAME` and `logout NAME`: OAuth logins to HTTP servers."""

from __future__ import annotations

import asyncio
import os
from argparse import Namespace

from tau.cli.browser_login import open_browser, pasted_address
from tau.cli.mcp_servers import open_program
from tau.errors import UsageError
from tau.mcp.names import server_key
from tau.runtime.mcp.oauth_login import McpLogin
from tau.runtime.terminal import say


def run_login(arguments: Namespace) -> int:
    program = open_program()
    config = program.config(arguments.name)
    if not config.url:
        raise UsageError(f"{config.name} is not an HTTP server, so it has no login.")
    login, client = asyncio.run(McpLogin(config, os.environ).run(open_browser, pasted_address))
    program.tokens.store(config, login, client)
    say(f"Logged in to {config.name}. The login is stored in {program.tokens.path}.")
    return 0


def run_logout(arguments: Namespace) -> int:
    program = open_program()
    config = program.loaded.configs.get(server_key(arguments.name))
    entry = None if config is None else program.tokens.entry(config)
    if config is not None and entry is not None:
        trouble = asyncio.run(McpLogin(config, os.environ).revoke(entry))
        if trouble:
            say(f"The tokens may still be valid: {trouble}")
    if not program.tokens.remove(config.name if config is not None else arguments.name):
        say(f"There was no login to {arguments.name}.")
        return 1
    say(f"The login to {arguments.name} was removed.")
    return 0
