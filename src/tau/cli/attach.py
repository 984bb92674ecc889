"""`tau attach`: which session of which host to open at this terminal, or for lines from a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from tau.cli.connect import open_fields, read_token
from tau.cli.flags import ParsedArguments, parse
from tau.cli.session_options import create_factory
from tau.client.addresses import find_address
from tau.client.errors import AgentGone
from tau.client.host import HostClient
from tau.client.opening import Target, open_command, open_session
from tau.core.text.terminal_text import escape_for_display
from tau.errors import CommandError, UsageError
from tau.records.host_events import HostSessionRow
from tau.runtime.app.factory import SessionFactory
from tau.runtime.terminal import say

WHICH_SESSION = (
    "Without a terminal, tau attach needs the ID of a session: tau attach ID. `tau serve status` lists them."
)
NO_SESSIONS = "The host has no sessions. `tau attach --open` opens one."
TITLE_CHARACTERS = 60
MIN_ID_LENGTH = 8
Answer = TypeVar("Answer")


def choose(arguments: ParsedArguments) -> tuple[Target, SessionFactory, bool]:
    """The session, the settings of this terminal, and whether it is simple. Raises UsageError."""
    flags, words = arguments.flags, arguments.words[1:]
    if arguments.unknown:
        raise UsageError(f"tau attach does not know {arguments.unknown[0]}.")
    if len(words) > 1:
        raise UsageError("usage: tau attach [ID] [--connect URL]")
    at_terminal = os.isatty(0) and os.isatty(1)
    if not (at_terminal or words or "open" in flags):
        raise UsageError(WHICH_SESSION)
    url, token = flags.get("connect", "unix:"), read_token(flags.get("token-file"))
    address = find_address(url, token)
    session: str | None
    if "open" in flags:
        session = _ask_host(open_session(address, open_command(open_fields(flags)))).session
    else:
        session = words[0] if words else None
    rows = _ask_host(_sessions(url, token))
    if session is None:
        session = _ask(rows)
    row = next((row for row in rows if row.id.startswith(session)), None)
    if row is not None and os.path.isdir(row.cwd):
        os.chdir(row.cwd)  # names of files are completed where the session works
    return Target(address, session if row is None else row.id, None), _factory(), not at_terminal or _simple(flags)


def _ask_host(question: Coroutine[Any, Any, Answer]) -> Answer:
    """Ask the host something. Raises UsageError if it is not running, or refuses."""
    try:
        return asyncio.run(question)
    except (AgentGone, CommandError) as error:
        raise UsageError(str(error)) from None


def _simple(flags: Mapping[str, str]) -> bool:
    """True for a screen reader and for a terminal that cannot move the cursor."""
    term, reader = os.environ.get("TERM", ""), os.environ.get("TAU_SCREEN_READER")
    return "plain" in flags or term in ("", "dumb") or reader == "1"


def _factory() -> SessionFactory:
    """The settings of this terminal. The session itself is in memory and runs nothing."""
    return create_factory(parse(["--no-session", "--no-extensions", "--offline", "--no-approve"]), strict=False)


async def _sessions(url: str, token: str | None) -> list[HostSessionRow]:
    async with HostClient(url, token=token) as host:
        return await host.list(all=True)


def _ask(rows: list[HostSessionRow]) -> str:
    """Let the person choose a session from a numbered list. Raises UsageError."""
    if not rows:
        raise UsageError(NO_SESSIONS)
    shown = rows[:20]
    for number, row in enumerate(shown, 1):
        say(f"{number:>3}  {describe(row)}")
    if len(rows) > len(shown):
        say(f"     and {len(rows) - len(shown)} more: tau attach ID")
    while True:
        try:
            answer = input(f"Session [1-{len(shown)}]: ").strip()
        except EOFError:
            sys.exit(0)
        if answer.isdecimal() and len(answer) < 10 and 1 <= int(answer) <= len(shown):
            return shown[int(answer) - 1].id
        found = [row.id for row in rows if len(answer) >= MIN_ID_LENGTH and row.id.startswith(answer)]
        if len(found) == 1:
            return found[0]


def describe(row: HostSessionRow) -> str:
    """One line for a session: id, what it does, its title, its folder."""
    state = "asks" if row.attention else "runs" if row.streaming else "open" if row.live else "-"
    title = row.name if isinstance(row.name, str) else row.first_message
    return escape_for_display(f"{row.id[:13]}  {state:<4}  {' '.join(title.split())[:TITLE_CHARACTERS]}  {row.cwd}")


def main(arguments: ParsedArguments) -> int:
    raise AssertionError("the table of front ends starts it")
