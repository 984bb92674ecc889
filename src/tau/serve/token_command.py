"""`tau serve token new|list|revoke`: named tokens for other programs and machines. A running host notices changes."""

from __future__ import annotations

import time
from datetime import datetime

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_hidden
from tau.errors import UsageError
from tau.records.host_commands import Scope
from tau.runtime.terminal import complain, emit, say
from tau.serve.access import RANK
from tau.serve.credentials import MAIN, Credentials
from tau.store.paths import agent_dir

USAGE = "usage: tau serve token new --name NAME [--scope watch|drive|admin], token list, or token revoke NAME|ID"


def main(arguments: ParsedArguments) -> int:
    words = list(arguments.words[2:])
    credentials = Credentials(agent_dir() / "serve", time.time)
    credentials.prepare()
    match words:
        case ["new"]:
            return _new(credentials, arguments)
        case ["list"]:
            return _list(credentials)
        case ["revoke", name]:
            return _revoke(credentials, name)
    raise UsageError(USAGE)


def _new(credentials: Credentials, arguments: ParsedArguments) -> int:
    scope = arguments.flags.get("scope", "drive")
    if "name" not in arguments.flags or scope not in RANK:
        raise UsageError(USAGE)
    granted: Scope = next(one for one in RANK if one == scope)
    token = credentials.new_token(arguments.flags["name"], granted)
    complain(f"This token has the scope {scope} and is shown only once:")
    emit(token)
    return 0


def _list(credentials: Credentials) -> int:
    say(f"{'kind':<7}{'id':<10}{'scope':<7}{'created':<18}{'expires':<18}name")
    say(f"{'token':<7}{'-':<10}{'admin':<7}{'-':<18}{'-':<18}{MAIN}")
    for kind, one in credentials.stored():
        name = escape_hidden(one.name)
        say(f"{kind:<7}{one.id:<10}{one.scope:<7}{_time(one.created):<18}{_time(one.expires):<18}{name}")
    return 0


def _revoke(credentials: Credentials, name: str) -> int:
    count = credentials.revoke(name)
    if not count:
        complain(f"Error: there is no token or login {escape_hidden(name)}: tau serve token list")
        return 1
    say("The main token was replaced." if name == MAIN else f"Revoked {count}.")
    return 0


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
