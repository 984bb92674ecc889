"""Logins in a browser: show the address of the login page, and take the address where the browser ends.

A browser on another machine cannot reach this one. The person then copies the address of the page that it could not
open, and pastes it here.
"""

from __future__ import annotations

import asyncio
import os
import sys

from tau.concurrency.threads import run_in_thread
from tau.runtime.terminal import say

MAX_LINE = 64 * 1024


async def open_browser(url: str) -> None:
    import webbrowser

    say("Log in with your browser. If it does not open, open this address:")
    say(url)
    sys.stdout.flush()
    await asyncio.to_thread(webbrowser.open, url)


async def pasted_address(question: str) -> str | None:
    """A line from stdin, or None at its end. Nothing is lost if the caller stops waiting: the login is over then."""
    if _is_in_background():
        return None  # the shell would stop a process that reads
    say(question)
    sys.stdout.flush()
    # Not sys.stdin: a thread that waits in its buffer breaks the end of the interpreter.
    line = await run_in_thread(_read_line, "pasted address")
    return line.decode("utf-8", "replace").strip() if line else None


def _is_in_background() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:  # the terminal of another session, such as a debugger's: it can be read
        return False


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_LINE:
        try:
            piece = os.read(0, MAX_LINE)
        except OSError:
            piece = b""
        if not piece:
            break
        line += piece
    return line
