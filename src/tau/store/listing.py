"""Lists sessions. Reads only as much of each file as its row needs.

A file or folder that cannot be read is not listed. If that is for want of a descriptor or of memory, it may be a
session, and a list without it would be wrong: then every function raises CommandError.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tau.core.conversation.prompts import prompt_text
from tau.errors import CommandError
from tau.records.base import UNSET, BadRecord
from tau.records.entries import Header, MessageEntry, SessionInfo, milliseconds
from tau.records.lines import read_entry
from tau.records.messages import Assistant, Text, User
from tau.records.replies import SessionRow
from tau.store.sessions import read_header as header_of

MAX_HEADER_BYTES = 64 * 1024
SEARCHED_AT_ONCE = 1024 * 1024  # bytes
HEAD_BYTES = 32 * 1024  # of a file, for its row in a picker
NO_MESSAGES = "(no messages)"
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def check_shortage(error: OSError | ValueError) -> None:
    """Raise CommandError if the file could not be read for want of a descriptor or of memory."""
    if isinstance(error, OSError) and error.errno in SHORTAGES:
        raise CommandError(f"{os.strerror(error.errno)}. Try again later.") from None


def session_files(folder: Path) -> list[Path]:
    """Return the session files of one folder, newest first."""
    try:
        found = [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(".jsonl") and entry.is_file()]
    except OSError as error:
        check_shortage(error)
        return []
    return sorted(found, key=_changed, reverse=True)


def recent_files(folders: Iterable[Path]) -> list[Path]:
    """Return the session files of several folders, newest first. Reads none of them."""
    found: list[tuple[float, str]] = []
    for folder in folders:
        try:
            found += [
                (entry.stat().st_mtime, entry.path) for entry in os.scandir(folder) if entry.name.endswith(".jsonl")
            ]
        except OSError as error:
            check_shortage(error)
    return [Path(path) for _, path in sorted(found, reverse=True)]


class UnreadableSession(Exception):
    """A file in a folder of sessions is not a session, or cannot be read."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path


def newest(folder: Path, cwd: str, *, skip_unreadable: bool = True) -> Path | None:
    """Return the most recently written session of this project.

    Raises UnreadableSession for a newer file that cannot be read, unless such files are skipped. An empty file is
    always skipped: it was never a session.
    """
    for path in session_files(folder):
        header = read_header(path)
        if header is not None and header.cwd == cwd:
            return path
        if header is None and not skip_unreadable and _size(path):
            raise UnreadableSession(path)
    return None


def by_id(folder: Path, everywhere: Path, id: str, cwd: str) -> list[Path]:
    """Return the sessions whose id has this prefix: those of this project, else those of all projects."""
    here = [path for path in session_files(folder) if (header := read_header(path)) and header.id.startswith(id)]
    own = [path for path in here if _of(path, cwd)]
    if own or here:
        return own or here
    return [
        path
        for project in project_folders(everywhere)
        for path in session_files(project)
        if (header := read_header(path)) and header.id.startswith(id)
    ]


def session_rows(folder: Path, cwd: str | None) -> list[SessionRow]:
    """Return the rows of a session list: the sessions of `cwd`, or all of the folder."""
    found = (session_row(path) for path in session_files(folder))
    return [each for each in found if each is not None and (cwd is None or each.cwd == cwd)]


def all_session_rows(everywhere: Path) -> list[SessionRow]:
    found = [each for folder in project_folders(everywhere) for each in session_rows(folder, None)]
    return sorted(found, key=lambda each: each.modified, reverse=True)


def session_row(path: Path) -> SessionRow | None:
    header = read_header(path)
    if header is None:
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _row(path, header, data, path.stat().st_mtime)
    except (OSError, ValueError) as error:
        check_shortage(error)
        return None


def _row(path: Path, header: Header, data: mmap.mmap | bytes, modified: float) -> SessionRow:
    return SessionRow(
        path=str(path),
        id=header.id,
        cwd=header.cwd,
        name=_name(data) or UNSET,
        parent_session_path=header.parent_session,
        created=milliseconds(header.timestamp),
        modified=round(modified * 1000),
        message_count=_count(data),
        first_message=_first_message(data),
    )


def session_head(path: Path) -> SessionRow | None:
    """The row of a session from the beginning of its file: a later name and later messages are missing."""
    try:
        with path.open("rb") as file:
            data = file.read(HEAD_BYTES)
            modified = os.fstat(file.fileno()).st_mtime
    except OSError as error:
        check_shortage(error)
        return None
    header = header_of(data.partition(b"\n")[0].strip().removeprefix(b"\xef\xbb\xbf"))
    return None if header is None else _row(path, header, data, modified)


def session_text(path: Path, limit: int) -> str:
    """The text of the messages of a session, at most `limit` characters, to be searched."""
    texts: list[str] = []
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for at in _messages(data):
                entry = _entry(data, at)
                if isinstance(entry, MessageEntry) and (text := message_text(entry.message)):
                    texts.append(text[:limit])
                    limit -= len(text)
                if limit <= 0:
                    break
    except (OSError, ValueError) as error:
        check_shortage(error)
    return "\n".join(texts)


def message_text(message: object) -> str:
    """The text of a user message or an answer; "" for other messages."""
    if not isinstance(message, User | Assistant):
        return ""
    content = message.content
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


def read_header(path: Path) -> Header | None:
    try:
        with path.open("rb") as file:
            return header_of(file.readline(MAX_HEADER_BYTES).strip().removeprefix(b"\xef\xbb\xbf"))
    except OSError as error:
        check_shortage(error)
        return None


def _of(path: Path, cwd: str) -> bool:
    header = read_header(path)
    return header is not None and header.cwd == cwd


def project_folders(everywhere: Path) -> list[Path]:
    """Return the folders of projects, recognised by their names; other folders are ignored."""
    try:
        named = [entry for entry in os.scandir(everywhere) if entry.name.startswith("--") and entry.name.endswith("--")]
        return [Path(entry.path) for entry in named if entry.is_dir()]
    except OSError as error:
        check_shortage(error)
        return []


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _count(data: mmap.mmap | bytes) -> int:
    count = at = 0
    while (at := data.find(b'\n{"type":"message"', at)) >= 0:
        count, at = count + 1, at + 1
    return count


def _name(data: mmap.mmap | bytes) -> str | None:
    end = len(data)
    while (at := _last_before(data, b'\n{"type":"session_info"', end)) >= 0:
        entry = _entry(data, at + 1)
        if isinstance(entry, SessionInfo) and entry.name:
            return entry.name
        end = at
    return None


def _last_before(data: mmap.mmap | bytes, wanted: bytes, end: int) -> int:
    """As `data.rfind(wanted, 0, end)`, but in steps: a search through a large file would stop all other threads."""
    while end > 0:
        start = max(0, end - SEARCHED_AT_ONCE)
        at = data.rfind(wanted, start, end)
        if at >= 0 or start == 0:
            return at
        end = start + len(wanted) - 1  # it may lie across both parts
    return -1


def _first_message(data: mmap.mmap | bytes) -> str:
    for at in _messages(data):
        entry = _entry(data, at)
        if isinstance(entry, MessageEntry) and (text := prompt_text(entry)) is not None:
            return text
    return NO_MESSAGES


def _messages(data: mmap.mmap | bytes) -> Iterator[int]:
    at = 0
    while (at := data.find(b'\n{"type":"message"', at)) >= 0:
        at += 1
        yield at


def _entry(data: mmap.mmap | bytes, start: int) -> object:
    end = data.find(b"\n", start)
    try:
        return read_entry(data[start : end if end >= 0 else len(data)])
    except BadRecord:
        return None
