"""Session files without an open session: find, list page by page, and delete."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from tau.errors import CommandError
from tau.records.base import BadRecord, encode, parse
from tau.records.replies import SessionRow
from tau.runtime.app.session_files import owner_of
from tau.store.listing import by_id, project_folders, read_header, recent_files, session_row

PAGE_ROWS = 50


class BadCursor(ValueError):
    """A cursor that no page returned."""


class StoredSessions:
    """`folder` has the session files; with `per_project`, those of one project, and its siblings those of others.

    Every method blocks.
    """

    def __init__(self, folder: Path | None, cwd: str, *, per_project: bool) -> None:
        self._folder = folder
        self._cwd = cwd
        self._per_project = per_project

    def find(self, id: str) -> Path | None:
        """The file of the session with exactly this id."""
        if self._folder is None:
            return None
        everywhere = self._folder.parent if self._per_project else self._folder
        for path in by_id(self._folder, everywhere, id, self._cwd):
            header = read_header(path)
            if header is not None and header.id == id:
                return path
        return None

    def page(self, cwd: str | None, cursor: str | None) -> tuple[list[SessionRow], str | None]:
        """Sessions of a folder or of all, newest first, and the cursor of the next page. Raises BadCursor."""
        after = None if cursor is None else _position(cursor)
        rows: list[SessionRow] = []
        last = ""  # cursor of the last row
        for path in self._paths():
            place = _place(path)
            if after is not None and place >= after:
                continue
            header = read_header(path)
            if header is None or (cwd is not None and header.cwd != cwd):
                continue
            row = session_row(path)
            if row is None:
                continue
            if len(rows) == PAGE_ROWS:
                return rows, last
            rows.append(row)
            last = _cursor(place)
        return rows, None

    def delete(self, path: Path | None) -> None:
        """Remove a session file, if there is one. Raises CommandError if a process has it open."""
        if path is None:
            return
        if (owner := owner_of(str(path))) is not None:
            raise CommandError(f"The session cannot be deleted: {owner} has it open.")
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"Cannot delete {path}: {error.strerror or error}") from None

    def _paths(self) -> list[Path]:
        if self._folder is None:
            return []
        return recent_files(project_folders(self._folder.parent) if self._per_project else [self._folder])


def _place(path: Path) -> tuple[float, str]:
    """The place of a file in the list: `recent_files` sorts by it."""
    try:
        return path.stat().st_mtime, str(path)
    except OSError:
        return 0.0, str(path)


def _cursor(place: tuple[float, str]) -> str:
    return base64.urlsafe_b64encode(encode(place)).decode()


def _position(cursor: str) -> tuple[float, str]:
    try:
        modified, path = parse(base64.urlsafe_b64decode(cursor.encode()))
    except (binascii.Error, UnicodeError, BadRecord, ValueError, TypeError):
        raise BadCursor(cursor) from None
    if not isinstance(modified, int | float) or not isinstance(path, str):
        raise BadCursor(cursor)
    return modified, path
