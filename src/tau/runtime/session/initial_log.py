"""The log with which a session starts: new, resumed, or a copy of another session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tau.records.base import Value
from tau.runtime.history.copies import copy_whole
from tau.runtime.history.session_file import Trouble
from tau.runtime.history.session_log import SessionLog
from tau.store.sessions import OpenedSession

if TYPE_CHECKING:

    class NewLog(Protocol):
        def __call__(self, folder: Path | None, *, id: str | None = None) -> SessionLog: ...


class InitialLog(Value):
    """`folder` is that of new session files; None keeps sessions in memory."""

    cwd: str
    folder: Path | None
    resumed: OpenedSession | None = None  # a session to continue, or to copy
    copied: bool = False
    path: Path | None = None  # a new session at this path
    id: str | None = None  # of a new session
    name: str | None = None

    def open(self, new_log: NewLog, trouble: Trouble) -> SessionLog:
        """Raises CommandError if another process has the session open."""
        if self.resumed is None:
            log = new_log(self.folder, id=self.id)
            return log if self.path is None else log.begin_at(self.path)
        if not self.copied:
            return SessionLog.resumed(self.resumed, trouble)
        # Only read, never locked: another process may be writing it.
        original = SessionLog(self.resumed.header, self.resumed.path, trouble, self.resumed.tree)
        return copy_whole(original, self.cwd, self.folder)
