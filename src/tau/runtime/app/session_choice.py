"""Which session file to open: the newest, the one with an id or a path, or none."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tau.errors import CommandError, UsageError
from tau.runtime.app.options import SessionTarget
from tau.store.sessions import OpenedSession, folder_for, is_blank, open_session

MAX_LISTED = 5
_ID = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


def choose_session(agent_dir: Path, wanted: SessionTarget, cwd: str) -> tuple[Path | None, OpenedSession | None]:
    """The folder for session files, and the session to resume. Raises UsageError if it cannot be opened."""
    _check_one(wanted)
    if not wanted.kept:
        return None, None
    folder = session_store(agent_dir, wanted.folder, cwd)
    try:
        path = _path_of(folder, wanted, cwd)
        if path is None or not os.path.lexists(path) or (wanted.copy_of is None and is_blank(path)):
            return folder, None
        return folder, open_session(path)
    except CommandError as error:
        raise UsageError(str(error)) from None


def session_store(agent_dir: Path, chosen: str | None, cwd: str) -> Path:
    """The folder for the session files of a project. `chosen` is that of a flag or a setting."""
    return absolute(cwd, chosen) if chosen else folder_for(cwd, agent_dir)


def _check_one(wanted: SessionTarget) -> None:
    """Raise UsageError if more than one session is asked for."""
    choices = {
        "--session": wanted.named is not None,
        "--continue": wanted.last,
        "--session-id": wanted.id is not None,
        "--fork": wanted.copy_of is not None,
    }
    given = [flag for flag, is_given in choices.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"Give {given[0]} or {given[1]}, but not both: each chooses a session.")


def _path_of(folder: Path, wanted: SessionTarget, cwd: str) -> Path | None:
    if wanted.last:
        return _last(folder, wanted, cwd)
    if wanted.id is not None:
        if not re.fullmatch(_ID, wanted.id):
            raise UsageError("--session-id: letters, digits, '.', '_' and '-', with a letter or digit at both ends")
        from tau.store.listing import by_id

        exact = [path for path in by_id(folder, folder, wanted.id, cwd) if path.stem.endswith(f"_{wanted.id}")]
        return exact[0] if exact else None
    named = wanted.copy_of if wanted.named is None else wanted.named
    if named is None:
        return None
    if "/" in named or "\\" in named or named.endswith(".jsonl"):
        path = absolute(cwd, named)
        if not os.path.isdir(path.parent):
            raise UsageError(f"Cannot begin a session at {path}: {_why_no_folder(path.parent)}.")
        if wanted.copy_of is not None and not os.path.exists(path):
            raise UsageError(f"Cannot fork: there is no session {path}.")
        return path
    return session_by_id(folder, named, cwd)


def _why_no_folder(path: Path) -> str:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"there is no folder {path}"


def session_by_id(folder: Path, prefix: str, cwd: str) -> Path:
    """The session whose id is, or begins with, `prefix`. Raises UsageError if there is none, or more than one."""
    from tau.store.listing import by_id, read_header

    matching = by_id(folder, folder.parent, prefix, cwd) if prefix else []
    if not matching:
        raise UsageError(f"No session found matching '{prefix}'")
    ids: dict[str, Path] = {}
    for path in matching:
        if header := read_header(path):
            ids.setdefault(header.id, path)
    if prefix in ids or len(ids) == 1:
        return ids.get(prefix, matching[0])
    listed = ", ".join(list(ids)[:MAX_LISTED]) + (", ..." if len(ids) > MAX_LISTED else "")
    raise UsageError(f"{len(ids)} sessions have an id that begins with '{prefix}': {listed}. Give more of it.")


def _last(folder: Path, wanted: SessionTarget, cwd: str) -> Path | None:
    from tau.store.listing import UnreadableSession, newest

    # A folder that the user chose may have files of other projects and programs.
    shared = wanted.folder is not None
    try:
        return newest(folder, cwd, skip_unreadable=shared)
    except UnreadableSession as error:
        raise UsageError(
            f"The last session of this project cannot be read: {error.path}."
            " Choose another with --resume or --session, or start without --continue."
        ) from None


def absolute(cwd: str, path: str) -> Path:
    return Path(cwd, Path(path).expanduser()).absolute()
