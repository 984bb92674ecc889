"""`tau sessions [--all] [WORD ...]`: list sessions with their ids and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.core.text.terminal_text import escape_for_display
from tau.records.replies import SessionRow
from tau.runtime.app.config import ProjectConfig
from tau.runtime.terminal import complain, say
from tau.store.listing import all_session_rows, session_rows
from tau.store.paths import agent_dir, working_folder
from tau.store.sessions import folder_for

OWN_FLAGS = ("--all",)
TITLE_WIDTH = 60


def main(arguments: ParsedArguments) -> int:
    everywhere = "--all" in arguments.unknown
    words = [word.lower() for word in arguments.words[1:]]
    rows = all_session_rows(agent_dir() / "sessions") if everywhere else project_sessions(arguments.flags)
    listed = [row for row in rows if all(word in _searched(row) for word in words)]
    for row in listed:
        say(f"{escape_for_display(row.id, '')}  {summary(row)}")
        say(f"    {escape_for_display(row.path, '')}")
    if listed:
        complain("Continue one: pi --session ID. The beginning of an id is enough.")
    elif rows:
        complain(f'No session matches "{" ".join(words)}".')
    elif everywhere:
        complain("There are no sessions.")
    else:
        complain("There are no sessions of this project. `tau sessions --all` lists those of every project.")
    return 0


def project_sessions(flags: Mapping[str, str]) -> list[SessionRow]:
    """The sessions of this project, newest first."""
    return session_rows(session_folder(flags), working_folder())


def session_folder(flags: Mapping[str, str]) -> Path:
    """The folder with this project's session files: of a flag, the environment, the settings, or the default."""
    cwd = working_folder()
    named = flags.get("session-dir") or os.environ.get("PI_CODING_AGENT_SESSION_DIR")
    if not named:
        approve = False if "no-approve" in flags else True if "approve" in flags else None
        named = ProjectConfig(agent_dir(), Path(cwd), approve).settings.session_dir
    return Path(cwd, Path(named).expanduser()) if named else folder_for(cwd, agent_dir())


def summary(row: SessionRow) -> str:
    """One line about a session: time of the last change, number of messages, title."""
    when = datetime.fromtimestamp(row.modified / 1000).strftime("%Y-%m-%d %H:%M")
    title = escape_for_display(_title(row)[:TITLE_WIDTH], keep="")
    return f"{when}  {row.message_count:4} messages  {escape_for_display(title[:TITLE_WIDTH], '')}"


def _title(row: SessionRow) -> str:
    return row.name or row.first_message.partition("\n")[0]


def _searched(row: SessionRow) -> str:
    return f"{row.id} {_title(row)}".lower()
