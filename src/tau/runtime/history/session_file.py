"""The entries of one session: the tree in memory, and the append-only file.

The file is created by the first entry that must survive the process; earlier entries are written with it. A failed
write is reported at once, and the entry keeps its place and is written later, when there is room. If the file is
deleted while the session is open, it is written again in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from errno import EBADF
from itertools import chain
from pathlib import Path
from typing import Any

from tau.core.conversation.tree import Tree
from tau.errors import CommandError
from tau.records.base import wire_json
from tau.records.entries import Header
from tau.runtime.clock import iso
from tau.runtime.history.ids import entry_id
from tau.store.files import make_folder
from tau.store.journal import Disk, Journal
from tau.store.sessions import OpenedSession

Trouble = Callable[[OSError], None]


class SessionFile:
    """`path` is None for a session that is kept in memory. `trouble` is called when a write fails.

    It refers to no log, so that a closed log is freed at once, and its open file with it.
    """

    def __init__(self, header: Header, path: Path | None, tree: Tree, trouble: Trouble, disk: Disk) -> None:
        self.header = header
        self.path = path
        self.tree = tree
        self.trouble = trouble
        self.write_failing = False  # a write failed, and not everything is on disk yet
        self.disk = disk
        self._expected = False  # True if there is a file, or should be one
        self._closed = False  # True: nothing is written any more
        self._journal: Journal | None = None

    def resume(self, opened: OpenedSession) -> None:
        """Open the file that was read. Raises CommandError if it cannot be written."""
        self._journal, self._expected = Journal(opened.path, self.disk), True
        try:
            if opened.migrated_lines is None:
                self._journal.resume(opened.size)
            else:
                self._journal.resume_migrated(opened.migrated_lines, opened.size)
        except OSError as error:
            raise CommandError(f"Session {opened.path} cannot be written: {error.strerror}") from None

    # Entries.

    def require_open(self) -> None:
        """Raise CommandError if the file is closed: what is acknowledged now would not be in it."""
        if self._closed:
            raise CommandError("The session is closed: nothing more is recorded in it.")

    def add(self, kind: Any, *values: Any, id: str | None = None) -> None:
        """Add an entry at the leaf. If it cannot be written now, it waits to be written."""
        entry = self._entry(kind, values, id)
        try:
            if self._expected and not self._closed:
                self._write(wire_json(entry))
        except OSError as error:  # not stored: that would keep this frame alive, and with it the error
            self._grow(entry)
            self.write_failing = True
            self.trouble(error)
        else:
            self._grow(entry)

    def add_or_fail(self, kind: Any, *values: Any, create: bool = False) -> None:
        """Add an entry only if it can be written now; `create` creates the file for it. Raises OSError.

        A session that is kept in memory, or that has no file yet and does not need one, adds it in any case.
        """
        entry = self._entry(kind, values)
        if self._expected or (create and self.path is not None):
            self._write(wire_json(entry), or_fail=True)
        self._grow(entry)

    def expect(self) -> None:
        """Create the file with the next entry, unless the session is kept in memory."""
        self._expected = self.path is not None

    def _entry(self, kind: Any, values: Iterable[Any], id: str | None = None) -> Any:
        return kind(id or entry_id(self.tree), self.tree.leaf_id, iso(), *values)

    def _grow(self, entry: Any) -> None:
        self.tree.add(wire_json(entry), entry.id, str(entry.__struct_config__.tag))

    # The file.

    @property
    def unwritten(self) -> int:
        """The number of entries that could not be written yet."""
        if self._journal is not None:
            return self._journal.unwritten
        return len(self.tree) if self._expected else 0

    @property
    def unsynced(self) -> bool:
        """True if an entry would not survive a power failure."""
        return self.unwritten > 0 or (self._journal is not None and self._journal.unsynced)

    def flush(self) -> None:
        """Write the entries that wait to be written. Raises OSError."""
        if self._closed:
            return
        if self._journal is not None:
            try:
                self._journal.flush()
            except FileNotFoundError:
                self._leave_deleted()
        if self._journal is None and self._expected:
            self._create(self.tree.all_lines())

    def syncing(self) -> Callable[[], None] | None:
        """Return the blocking fsync of what was written; None if there is nothing to sync."""
        return self._journal.prepare_sync() if self._journal is not None else None

    def create(self) -> None:
        """Write a new file with every entry. Raises CommandError if that fails."""
        try:
            self._create(self.tree.all_lines())
        except OSError as error:
            raise self.unwritable(error) from None

    def close(self) -> None:
        """Close the file. Later entries are kept in memory only."""
        self._closed = True
        if self._journal is not None:
            self._journal.close()

    def unwritable(self, error: OSError) -> CommandError:
        return CommandError(f"The session file {self.path} cannot be written: {error.strerror or error}")

    def _write(self, line: bytes, *, or_fail: bool = False) -> None:
        """Append an entry to the file. On OSError the entry waits to be written; with `or_fail` it is dropped."""
        if self._closed:
            raise OSError(EBADF, "the session is closed")
        if self._journal is not None:
            try:
                (self._journal.append_or_fail if or_fail else self._journal.append)(line)
                return
            except FileNotFoundError:
                self._leave_deleted()
        self._create(chain(self.tree.all_lines(), [line]))

    def _leave_deleted(self) -> None:
        """Give up a file that was deleted while open. The next write creates it again, with every entry."""
        assert self._journal is not None
        self._journal.close()
        self._journal = None

    def _create(self, lines: Iterable[bytes]) -> None:
        assert self.path is not None
        make_folder(self.path.parent)
        journal = Journal(self.path, self.disk)
        journal.create(chain([wire_json(self.header)], lines))
        self._journal, self._expected = journal, True
