"""`tau login [PROVIDER]` and `tau logout [PROVIDER]`: store or remove an API key or an OAuth login in auth.json.

Prints and asks; runtime/login does the work. A key is asked for without echo, or read from a pipe.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tau.cli.browser_login import open_browser, pasted_address
from tau.cli.flags import ParsedArguments
from tau.errors import UsageError
from tau.records.base import BadRecord
from tau.runtime.login.login import Logins, key_variable
from tau.runtime.login.oauth import DeviceCode, LoginError
from tau.runtime.machine.core_dumps import forbid_core_dumps
from tau.runtime.terminal import complain, say
from tau.store.paths import agent_dir

MAX_KEY_BYTES = 16 * 1024
REPLACE = "auth.json already has an OAuth login for {provider}. Replace it by an API key? [y/N] "


def main(arguments: ParsedArguments) -> int:
    command, *names = arguments.words
    if len(names) > 1:
        raise UsageError(f"usage: tau {command} [PROVIDER]")
    forbid_core_dumps()
    logins = Logins(agent_dir(), os.environ)
    for problem in logins.problems:
        complain(f"Warning: {problem}")
    try:
        if command == "logout":
            return _log_out(logins, names)
        provider = logins.provider(names[0] if names else _ask_provider(logins))
        if logins.oauth_client(provider) is not None:
            return _log_in(logins, provider, by_device="device" in arguments.flags)
        if "device" in arguments.flags:
            raise UsageError(f"--device needs an oauthClient for {provider} in models.json.")
        return _store_key(logins, provider, offline="offline" in arguments.flags)
    except (LoginError, OSError, BadRecord) as error:
        where = "" if isinstance(error, LoginError) else f"{logins.path}: "
        complain(f"Error: {where}{error}")
        return 1


def _ask_provider(logins: Logins) -> str:
    if not sys.stdin.isatty():
        raise UsageError("usage: tau login PROVIDER")
    stored = logins.stored()
    say("Providers (* has an entry in auth.json):")
    for name in logins.providers:
        say(f"  {'*' if name in stored else ' '} {name}")
    return _ask("Provider: ")


def _ask(question: str) -> str:
    say(question, end="")
    return sys.stdin.readline().strip()


def _store_key(logins: Logins, provider: str, *, offline: bool) -> int:
    at_a_terminal = sys.stdin.isatty()
    if at_a_terminal and logins.stored().get(provider) == "oauth" and not _confirmed(provider):
        say("Nothing was changed.")
        return 1
    text = _read_key(provider, at_a_terminal=at_a_terminal)
    key = logins.resolve(text)
    if not offline:
        check = asyncio.run(logins.check(provider, key))
        if check.outcome == "rejected":
            raise LoginError(f"{check.why}. Nothing was stored.")
        if check.outcome == "accepted":
            say(f"{provider} accepted the key.")
        else:
            complain(f"The key was not checked: {check.why}")
    logins.store_key(provider, text)
    say(f"The key for {provider} is stored in {logins.path}.")
    return 0


def _confirmed(provider: str) -> bool:
    return _ask(REPLACE.format(provider=provider)).lower() in ("y", "yes")


def _read_key(provider: str, *, at_a_terminal: bool) -> str:
    if not at_a_terminal:
        return sys.stdin.readline(MAX_KEY_BYTES).strip()
    from getpass import getpass

    if variable := key_variable(provider):
        say(f"Instead of storing a key, you can set the variable {variable}.")
    try:
        return getpass(f"API key for {provider} (not shown): ").strip()
    except EOFError:  # Ctrl+D
        say()
        return ""


def _log_in(logins: Logins, provider: str, *, by_device: bool) -> int:
    flow, client = logins.oauth_flow(provider), logins.oauth_client(provider)
    assert client is not None
    if by_device or client.authorization_url is None:
        login = asyncio.run(flow.authorize_device(_show_code))
    else:
        login = asyncio.run(flow.authorize(open_browser, pasted_address))
    logins.store_login(provider, login)
    say(f"Logged in to {provider}. The login is stored in {logins.path}.")
    return 0


async def _show_code(device: DeviceCode) -> None:
    say(f"Open {device.url} in a browser and enter the code {device.code}")
    if device.complete_url is not None:
        say(f"or open {device.complete_url}")
    say("Waiting for the confirmation ...")


def _log_out(logins: Logins, names: list[str]) -> int:
    stored = logins.stored()
    if not names:
        kinds = {"key": "API key", "oauth": "OAuth login", "other": "unknown entry"}
        for name, kind in stored.items():
            say(f"{name}: {kinds[kind]}")
        raise UsageError("usage: tau logout PROVIDER" if stored else "auth.json has no entries.")
    (provider,) = names
    if provider not in stored:
        complain(f"auth.json has no entry for {provider}.")
        return 1
    done = asyncio.run(logins.log_out(provider))
    say(f"The entry for {provider} was removed from {logins.path}.")
    if done.not_revoked is not None:
        complain(f"Warning: the tokens may still be valid: {done.not_revoked}")
    if done.other_source is not None:
        say(f"{provider} still has a key: {done.other_source}.")
    return 0
