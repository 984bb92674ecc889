"""`pi --export FILE [OUT]`: write a session as an HTML page. An id, or --continue, can stand for the file."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.core.checks.exit_codes import ANSWERED
from tau.errors import CommandError, UsageError
from tau.runtime.history.html_export import default_name, session_page, write_export
from tau.runtime.history.session_log import SessionLog
from tau.runtime.terminal import emit
from tau.store.sessions import open_session

LAST = ("--continue", "-c")


def main(arguments: ParsedArguments) -> int:
    gc.disable()  # the process ends with the page, and nothing here makes reference cycles
    source, out = _source(arguments)
    try:
        found = open_session(source)
        log = SessionLog(found.header, None, _raise, found.tree)
        target = Path(out or default_name(source)).expanduser()
        written = write_export(session_page(log, may_fork=True), target)
        emit(f"Exported to: {written}" if arguments.program == "pi" else str(written))
        _exit_at_once()
    except CommandError as error:
        raise UsageError(str(error)) from None
    return ANSWERED


def _exit_at_once() -> None:
    """Exit without freeing every entry and every module, a twentieth of the time that an export takes.

    Returns if stdout is closed: the caller reports that.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
        if sys.stderr is not None:
            sys.stderr.flush()
        os._exit(ANSWERED)


def _source(arguments: ParsedArguments) -> tuple[Path, str | None]:
    """The session file and the output file, if it is given: FILE [OUT], ID [OUT], or --continue [OUT] in any order."""
    flags, words = arguments.flags, arguments.words
    named = flags["export"]
    out = next(iter(words), None)
    path = Path(named).expanduser()
    is_last = named in LAST or "continue" in flags
    if not is_last and (os.path.exists(path) or "/" in named or "\\" in named or "." in named):
        return path, out
    # Only an id or --continue needs the settings, which say where sessions are.
    from tau.cli.sessions import session_folder
    from tau.runtime.app.session_choice import session_by_id
    from tau.store.listing import newest
    from tau.store.paths import working_folder

    folder = session_folder(flags)
    if is_last:
        last = newest(folder, working_folder())
        if last is None:
            raise UsageError("There is no session of this project to export.")
        return last, named if named not in LAST else out
    return session_by_id(folder, named, working_folder()), out


def _raise(error: OSError) -> None:
    raise error
