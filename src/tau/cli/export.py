"""`pi --export FILE [OUT]`: write a session file as an HTML page."""

from __future__ import annotations

from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.errors import CommandError, UsageError
from tau.runtime.history.html_export import default_name, session_page, write_export
from tau.runtime.history.session_log import SessionLog
from tau.runtime.terminal import emit
from tau.store.sessions import open_session


def main(arguments: ParsedArguments) -> int:
    source = Path(arguments.flags["export"]).expanduser()
    try:
        found = open_session(source)
        log = SessionLog(found.header, None, _raise, found.tree)
        target = Path(arguments.words[0] if arguments.words else default_name(source)).expanduser()
        emit(str(write_export(session_page(log), target)))
    except CommandError as error:
        raise UsageError(str(error)) from None
    return 0


def _raise(error: OSError) -> None:
    raise error
