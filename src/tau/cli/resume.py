"""`pi --resume`: list this project's sessions and let the user choose one."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from tau.core.text.terminal_text import displayed
from tau.errors import UsageError
from tau.records.replies import SessionRow
from tau.runtime.terminal import complain
from tau.store.listing import rows
from tau.store.paths import agent_dir, working_folder
from tau.store.sessions import folder_for

MAX_LISTED = 20


def chosen(folder: str | None) -> str:
    """The path of the chosen session. Asks on stderr, because stdout belongs to the mode."""
    cwd = working_folder()
    listed = rows(Path(folder).expanduser() if folder else folder_for(cwd, agent_dir()), cwd)[:MAX_LISTED]
    if not listed:
        raise UsageError("There is no session of this project to resume.")
    if not sys.stdin.isatty():
        raise UsageError("--resume asks which session, so it needs a terminal; use --continue or --session.")
    for number, row in enumerate(listed, 1):
        complain(f"{number:3}  {_line(row)}")
    complain("Which one? [1] ", end="")
    answer = sys.stdin.readline().strip() or "1"
    if not answer.isdecimal() or not 1 <= int(answer) <= len(listed):
        raise UsageError(f"--resume: {answer!r} is not one of 1 to {len(listed)}")
    return listed[int(answer) - 1].path


def _line(row: SessionRow) -> str:
    when = datetime.fromtimestamp(row.modified / 1000).strftime("%Y-%m-%d %H:%M")
    title = displayed((row.name or row.first_message.partition("\n")[0])[:60], keep="")
    return f"{when}  {row.message_count:4} messages  {displayed(title[:60], '')}"
