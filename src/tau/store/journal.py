"""Write a session file: every entry before anybody is told of it, in order, by one writer.

A write that fails leaves no half line (the file is cut back to where it was) and
is not forgotten: the line waits, and everything after it waits behind it, until
there is room again. Whoever appends is told at once.

A sync that fails is not simply repeated: after it, the system may hold for written
what never was, and say so to everybody who asks with the same open file. So what
was not synced is written once more, to the file opened anew.

The lock is taken on the file itself. It is released by the system when the
process ends, however it ends.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tau.errors import CommandError
from tau.store.locks import holder, lock

log = logging.getLogger(__name__)

BATCH = 64 * 1024
REMEMBERED = 16 * 1024 * 1024  # bytes that wait for a sync; what is more is read from the file if it has to be


class Disk:
    """The few calls that can fail; tests put their own here."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)

    def write(self, handle: int, data: bytes | memoryview) -> int:
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def sync_folder(self, path: Path) -> None:
        """So that a new file is found again; some file systems know no such thing, and need none."""
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def cut(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def write_at(self, handle: int, data: bytes | memoryview, at: int) -> int:
        return os.pwrite(handle, data, at)


DISK = Disk()


class Journal:
    """The one writer of a session file."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self.path = path
        self._disk = disk
        self._handle: int | None = None
        self._size = 0
        self._waiting: list[bytes] = []
        self._dirty = False
        self._new = False  # its folder is still to be synced
        self._synced = 0  # this much is safe
        self._doubtful = False  # the last sync failed
        self._recent: deque[tuple[int, bytes]] = deque()  # what was written since, and where
        self._remembered = 0  # bytes of it
        self._fresh_line = b""
        self._lifted: list[bytes] | None = None

    @property
    def waiting(self) -> int:
        """How many entries are not on disk yet, because a write failed."""
        return len(self._waiting)

    def create(self, lines: Iterable[bytes]) -> None:
        """Begin a new file with these lines, or blocks of lines. Raises OSError; then nothing is there."""
        self._handle = self._disk.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            self._take_lock(self._handle)
            waiting: list[bytes] = []
            for line in lines:
                waiting += (line, b"\n")
                if len(line) > BATCH or len(waiting) > BATCH // 64:
                    self._write(b"".join(waiting))
                    waiting.clear()
            self._write(b"".join(waiting))
            self._new = True
        except BaseException:
            self.close()
            self.path.unlink(missing_ok=True)
            raise

    def resume(self, size: int) -> None:
        """Go on writing a file that was read, `size` bytes long then."""
        self._handle = self._disk.open(self.path, os.O_RDWR | os.O_APPEND)
        try:
            self._take_lock(self._handle)
            now, there = os.fstat(self._handle), os.stat(self.path)
            self._size = self._synced = now.st_size
            # Whoever had the lock before us may have put another file in its place (see lift).
            if self._size != size or not os.path.samestat(now, there):
                raise CommandError(f"{self.path} was changed by another program while it was being opened. Try again.")
            if size and os.pread(self._handle, 1, size - 1) != b"\n":
                self._fresh_line = b"\n"  # a torn last line stays what it is
        except BaseException:
            self.close()
            raise

    def lift(self, lines: list[bytes], size: int) -> None:
        """Go on with a file of an older version; `lines` are its content in today's form.

        It is replaced when there is something to add, and kept beside as `.bak`.
        """
        self.resume(size)
        self._lifted = lines

    def append_or_fail(self, line: bytes) -> None:
        """Write one entry now or not at all. Raises OSError."""
        self.flush()
        self._waiting.append(line)
        try:
            self.flush()
        except BaseException:
            self._waiting.clear()
            raise

    def append(self, line: bytes) -> None:
        """Write one entry. On OSError it waits here, and will be written before anything else is."""
        self._waiting.append(line)
        self.flush()

    def flush(self) -> None:
        """Write what waits, in order."""
        if self._waiting and self._lifted is not None:
            self._replace_by_lifted()
        while self._waiting:
            self._ensure_there()
            self._write(self._fresh_line + self._waiting[0] + b"\n")
            self._fresh_line = b""
            del self._waiting[0]

    @property
    def unsynced(self) -> bool:
        return self._dirty

    def sync(self) -> None:
        """Make sure that it survives a power failure. Blocks."""
        if (work := self.syncing()) is not None:
            work()

    def syncing(self) -> Callable[[], None] | None:
        """The blocking part of `sync`, to be done in a thread; None if there is nothing to do.

        It has a handle of its own, so that this journal may be written and closed meanwhile.
        """
        if not self._dirty or self._handle is None:
            return None
        doubtful, size, written = self._doubtful, self._size, [*self._recent]
        handle = self._opened_anew() if doubtful else os.dup(self._handle)
        self._dirty = False

        def work() -> None:
            try:
                if doubtful:
                    self._write_again(handle, written, size)
                self._disk.sync(handle)
                if self._new:
                    self._disk.sync_folder(Path(os.path.realpath(self.path)).parent)
                    self._new = False
            except OSError:
                self._dirty = self._doubtful = True
                raise
            finally:
                os.close(handle)
            self._synced, self._doubtful = size, False

        return work

    def _opened_anew(self) -> int:
        """Our file, wherever it is by now, as somebody else would open it: not to append."""
        assert self._handle is not None
        there = Path(f"/proc/self/fd/{self._handle}")
        handle = self._disk.open(there if there.exists() else self.path, os.O_RDWR)
        if not os.path.samestat(os.fstat(handle), os.fstat(self._handle)):
            os.close(handle)
            raise FileNotFoundError(2, "the session file was deleted", str(self.path))
        return handle

    def _write_again(self, handle: int, written: list[tuple[int, bytes]], size: int) -> None:
        """Everything that was not synced, as we remember it, and else as the file says."""
        at = self._synced
        for start, data in [*written, (size, b"")]:
            while at < start:
                self._write_at(handle, os.pread(handle, min(BATCH, start - at), at), at)
                at += min(BATCH, start - at)
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
            os.close(handle)

    def _take_lock(self, handle: int) -> None:
        if not lock(handle):
            who = holder(handle)
            by = f"process {who}" if who else "another process"
            raise CommandError(
                f"Session {self.path} is in use by {by}. Close it there, or start with --fork to go on in a copy."
            )

    def _write(self, data: bytes) -> None:
        assert self._handle is not None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._disk.write(self._handle, rest) :]
        except OSError:
            self._cut_back()
            raise
        self._remember(data)
        self._size += len(data)
        self._dirty = True

    def _remember(self, data: bytes) -> None:
        self._recent.append((self._size, data))
        self._remembered += len(data)
        while self._recent and (self._recent[0][0] < self._synced or self._remembered > REMEMBERED):
            self._remembered -= len(self._recent.popleft()[1])

    def _cut_back(self) -> None:
        """Take back half a line. If even that fails, the next line begins on a new one."""
        assert self._handle is not None
        size = os.fstat(self._handle).st_size
        if size == self._size:
            return
        try:
            self._disk.cut(self._handle, self._size)
        except OSError as error:
            log.warning("half a line is left in %s: %s", self.path, error)
            self._fresh_line = b"\n"
            self._size = size

    def _replace_by_lifted(self) -> None:
        """At any moment the path names the old file or the new one, and both are whole."""
        assert self._lifted is not None
        path = Path(os.path.realpath(self.path))  # a link keeps pointing where it does
        draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        made = Journal(draft, self._disk)
        made.create(self._lifted)
        try:
            made.sync()
            _back_up(path)
            os.replace(draft, path)
        except BaseException:
            made.close()
            draft.unlink(missing_ok=True)
            raise
        self.close()
        self._handle, self._size, self._synced, self._fresh_line = made._handle, made._size, made._synced, b""
        self._lifted, self._new, self._dirty = None, True, True

    def _ensure_there(self) -> None:
        """A file that was deleted under us is written anew by whoever owns the entries."""
        if self._handle is None or os.fstat(self._handle).st_nlink == 0:
            raise FileNotFoundError(2, "the session file was deleted", str(self.path))


def _back_up(path: Path) -> None:
    """Give a file a second name: `.bak`, or the next that is free."""
    number = 1
    while True:
        backup = path.with_name(f"{path.name}.bak{number if number > 1 else ''}")
        try:
            os.link(path, backup)
            os.chmod(backup, 0o600)  # what others could read of a session was not meant for them
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
