"""Questions about a session before it is opened: which one (`pi --resume`), and where, if its folder is gone."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tau.cli.sessions import project_sessions, summary
from tau.core.checks.exit_codes import ANSWERED
from tau.core.text.terminal_text import escape_for_display
from tau.errors import SessionFolderGone, UsageError
from tau.records.base import replace
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.terminal import complain

MAX_LISTED = 20
ID_WIDTH = 13  # the time in an id; enough to distinguish sessions


def choose_session(flags: Mapping[str, str]) -> str:
    """The path of the chosen session. Asks on stderr, because stdout belongs to the mode."""
    listed = project_sessions(flags)[:MAX_LISTED]
    if not listed:
        raise UsageError("There is no session of this project to resume.")
    if not sys.stdin.isatty():
        raise UsageError("--resume asks which session, so it needs a terminal; use --continue or --session.")
    for number, row in enumerate(listed, 1):
        complain(f"{number:3}  {escape_for_display(row.id[:ID_WIDTH], '')}  {summary(row)}")
    complain("Which one? [1] ", end="")
    answer = sys.stdin.readline().strip() or "1"
    if not answer.isdecimal() or len(answer) > 9 or not 1 <= int(answer) <= len(listed):
        raise UsageError(f"--resume: {answer!r} is not one of 1 to {len(listed)}")
    return listed[int(answer) - 1].path


def choose_folder(error: SessionFolderGone, options: SessionOptions) -> tuple[SessionOptions, bool]:
    """Ask what to do with a session whose folder is gone. Returns the options, and True to stay in this folder."""
    complain(f"{error}\n  1  continue here, this time\n  2  open a copy here, as with --fork\n  3  cancel")
    complain("Which one? [3] ", end="")
    answer = sys.stdin.readline().strip()
    if answer not in ("1", "2"):
        sys.exit(ANSWERED)
    if answer == "1":
        return options, True
    given = options.session
    return replace(options, session=SessionTarget(folder=given.folder, copy_of=error.file, name=given.name)), False
