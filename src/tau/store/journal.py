"""The writer of a session file: appends entries in order, before they are announced; one writer per file.

A failed write leaves no partial line: the file is truncated to its previous size. The line is kept, and all later lines
queue behind it, until a write succeeds. The caller of `append` gets the error at once.

A failed fsync is not simply repeated: after the failure the kernel may mark the lost pages as clean and report success
on the same open file. So everything that was not synced is written again, through a newly opened descriptor.

The lock is taken on the file itself. The system releases it when the process ends, however it ends.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from errno import EEXIST
from pathlib import Path

from tau.errors import CommandError, SessionInUse
from tau.store.locks import holder, lock, unlock
from tau.store.sessions import is_blank

logger = logging.getLogger(__name__)

BATCH_BYTES = 64 * 1024
MAX_REMEMBERED_BYTES = 16 * 1024 * 1024  # bytes kept in memory until a sync; more would be read back from the file


class Disk:
    """The system calls that can fail. Tests substitute their own."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def sync_folder(self, path: Path) -> None:
        """Make the name of a new file durable. Some file systems do not support this, and do not need it."""
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def write_at(self, handle: int, data: bytes | memoryview, at: int) -> int:
        return os.pwrite(handle, data, at)


DISK = Disk()


class Journal:
    """The single writer of a session file."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self.path = path
        self._disk = disk
        self._handle: int | None = None
        self._size = 0
        self._waiting: list[bytes] = []
        self._dirty = False
        self._new = False  # the folder has not been synced yet
        self._synced = 0  # bytes that are known to be durable
        self._sync_failed = False  # the last sync failed
        self._recent: deque[tuple[int, bytes]] = deque()  # position and data of writes since the last sync
        self._remembered = 0  # bytes in `_recent`
        self._line_break = b""  # written before the next entry, if the file does not end with a newline
        self._migrated: list[bytes] | None = None

    @property
    def unwritten(self) -> int:
        """Number of entries that are not in the file yet because a write failed."""
        return len(self._waiting)

    def create(self, lines: Iterable[bytes]) -> None:
        """Create a file with these lines, or blocks of lines; one in which nothing is yet is used. On OSError, no file
        is left, or one in which nothing is.
        """
        is_new = not is_blank(self.path)
        self._handle = self._disk.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | (os.O_EXCL if is_new else 0))
        try:
            self._take_lock(self._handle)
            if not is_new and not is_blank(self.path):  # another process has used it meanwhile
                raise FileExistsError(EEXIST, os.strerror(EEXIST))
        except BaseException:
            self.close()
            if is_new:
                self.path.unlink(missing_ok=True)
            raise
        try:
            if not is_new:
                self._disk.truncate(self._handle, 0)
            waiting: list[bytes] = []
            for line in lines:
                waiting += (line, b"\n")
                if len(line) > BATCH_BYTES or len(waiting) > BATCH_BYTES // 64:
                    self._write(b"".join(waiting))
                    waiting.clear()
            self._write(b"".join(waiting))
            self._new = True
        except BaseException:
            if is_new:
                self.path.unlink(missing_ok=True)
            else:
                os.ftruncate(self._handle, 0)
            self.close()
            raise

    def resume(self, size: int) -> None:
        """Continue a file that had `size` bytes when it was read."""
        self._handle = self._disk.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            self._take_lock(self._handle)
            now, at_path = os.fstat(self._handle), os.stat(self.path)
            self._size = self._synced = now.st_size
            # The previous holder of the lock may have replaced the file (see resume_migrated).
            if self._size != size or not os.path.samestat(now, at_path):
                raise CommandError(f"{self.path} was changed by another program while it was being opened. Try again.")
            if size and os.pread(self._handle, 1, size - 1) != b"\n":
                self._line_break = b"\n"  # a torn last line stays as it is
        except BaseException:
            self.close()
            raise

    def resume_migrated(self, lines: list[bytes], size: int) -> None:
        """Continue a file of an older version; `lines` are its entries in the current format.

        The file is replaced when the first entry is added; the old one is kept as `.bak`.
        """
        self.resume(size)
        self._migrated = lines

    def append_or_fail(self, line: bytes) -> None:
        """Write one entry now. On OSError the entry is dropped."""
        self.flush()
        self._waiting.append(line)
        try:
            self.flush()
        except BaseException:
            self._waiting.clear()
            raise

    def append(self, line: bytes) -> None:
        """Write one entry. On OSError it stays queued and is written before any later entry."""
        self._waiting.append(line)
        self.flush()

    def flush(self) -> None:
        """Write the queued entries, in order."""
        if self._waiting and self._migrated is not None:
            self._replace_with_migrated()
        while self._waiting:
            self._check_exists()
            self._write(self._line_break + self._waiting[0] + b"\n")
            self._line_break = b""
            del self._waiting[0]

    @property
    def unsynced(self) -> bool:
        return self._dirty

    def sync(self) -> None:
        """fsync the file, so that it survives a power failure. Blocks."""
        if (work := self.prepare_sync()) is not None:
            work()

    def prepare_sync(self) -> Callable[[], None] | None:
        """Return the blocking part of `sync`, to be run in a thread; None if there is nothing to sync.

        It has its own descriptor, so this journal may be written and closed meanwhile.
        """
        if not self._dirty or self._handle is None:
            return None
        rewrite, size, written = self._sync_failed, self._size, [*self._recent]
        handle = self._reopen() if rewrite else os.dup(self._handle)
        self._dirty = False

        def work() -> None:
            try:
                if rewrite:
                    self._rewrite(handle, written, size)
                self._disk.sync(handle)
                if self._new:
                    self._disk.sync_folder(Path(os.path.realpath(self.path)).parent)
                    self._new = False
            except OSError:
                self._dirty = self._sync_failed = True
                raise
            finally:
                os.close(handle)
            self._synced, self._sync_failed = size, False

        return work

    def _reopen(self) -> int:
        """Open the same file again, even if it was moved, and without O_APPEND."""
        assert self._handle is not None
        link = Path(f"/proc/self/fd/{self._handle}")
        handle = self._disk.open(link if os.path.exists(link) else self.path, os.O_RDWR)
        if not os.path.samestat(os.fstat(handle), os.fstat(self._handle)):
            os.close(handle)
            raise FileNotFoundError(2, "the session file was deleted", str(self.path))
        return handle

    def _rewrite(self, handle: int, written: list[tuple[int, bytes]], size: int) -> None:
        """Write everything that was not synced again: from memory, and the rest as it is read from the file."""
        at = self._synced
        for start, data in [*written, (size, b"")]:
            while at < start:
                self._write_at(handle, os.pread(handle, min(BATCH_BYTES, start - at), at), at)
                at += min(BATCH_BYTES, start - at)
            self._write_at(handle, data, start)
            at = start + len(data)

    def _write_at(self, handle: int, data: bytes, at: int) -> None:
        rest = memoryview(data)
        while rest:
            done = self._disk.write_at(handle, rest, at)
            rest, at = rest[done:], at + done

    def close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            unlock(handle)  # a sync in a thread, or a process that is being started, has a duplicate of it
            os.close(handle)

    def _take_lock(self, handle: int) -> None:
        if not lock(handle):
            pid = holder(handle)
            by = f"process {pid}" if pid else "another process"
            if pid and self._is_host(pid):
                where = f"open in tau serve (process {pid})"
                raise SessionInUse(str(self.path), where, ": tau attach continues it.")
            remedy = ". Close it there, or start with --fork to continue in a copy."
            raise SessionInUse(str(self.path), f"in use by {by}", remedy)

    def _is_host(self, pid: int) -> bool:
        """True if this process is `tau serve`."""
        from tau.store.host_files import running_host

        host = running_host(self.path.parents[2]) if len(self.path.parents) > 2 else None
        return host is not None and host.pid == pid

    def _write(self, data: bytes) -> None:
        assert self._handle is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._disk.write(self._handle, rest) :]
        except OSError:
            self._undo_write()
            raise
        self._remember(data)
        self._size += len(data)
        self._dirty = True

    def _remember(self, data: bytes) -> None:
        self._recent.append((self._size, data))
        self._remembered += len(data)
        while self._recent and (self._recent[0][0] < self._synced or self._remembered > MAX_REMEMBERED_BYTES):
            self._remembered -= len(self._recent.popleft()[1])

    def _undo_write(self) -> None:
        """Truncate a partial line. If that fails too, the next entry begins with a newline."""
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        if size == self._size:
            return
        try:
            self._disk.truncate(self._handle, self._size)
        except OSError as error:
            logger.warning("a partial line is left in %s: %s", self.path, error)
            self._line_break = b"\n"
            self._size = size

    def _replace_with_migrated(self) -> None:
        """Replace the file atomically: at any moment the path names the complete old or the complete new file."""
        assert self._migrated is not None
        path = Path(os.path.realpath(self.path))  # if the path is a link, its target is replaced
        draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        made = Journal(draft, self._disk)
        made.create(self._migrated)
        try:
            made.sync()
            _back_up(path)
            os.replace(draft, path)
        except BaseException:
            made.close()
            draft.unlink(missing_ok=True)
            raise
        self.close()
        self._handle, self._size, self._synced, self._line_break = made._handle, made._size, made._synced, b""
        self._migrated, self._new, self._dirty = None, True, True

    def _check_exists(self) -> None:
        """Raise FileNotFoundError if the file was deleted; the session log then writes all entries to a new one."""
        if self._handle is None or os.fstat(self._handle).st_nlink == 0:
            raise FileNotFoundError(2, "the session file was deleted", str(self.path))


def _back_up(path: Path) -> None:
    """Hard-link a file as `.bak`, or under the next free number; copy it if the file system has no links."""
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            os.link(path, backup)
            os.chmod(backup, 0o600)  # sessions are private, whatever the mode was
            return
        except FileExistsError:
            if os.path.samefile(path, backup):
                return
            number += 1
        except OSError:  # a file system without links
            import shutil

            shutil.copy2(path, backup)
            os.chmod(backup, 0o600)
            return
