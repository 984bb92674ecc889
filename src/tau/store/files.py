"""Small private files that several programs share: locked while they change, and replaced atomically.

The lock is the one that pi uses: a folder `<file>.lock`, stale if it is older than ten seconds. So tau and pi can share
a settings file. The folder of tau has a mark that pi ignores, the sticky bit, and is locked with flock while its
process lives: the lock of a process that was killed is removed at once, not only when it is stale.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tau.store.locks import lock as exclusively
from tau.store.locks import surely_lock

STALE_LOCK_S = 10.0
LOCK_TIMEOUT_S = 5.0
MARKED_MODE = 0o1700
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
MAX_SMALL_BYTES = 4 * 1024 * 1024


class HeldLock:
    """A lock that this process holds. Another program may take it over once it is stale, such as after a suspend."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle: int | None = None
        with suppress(OSError):
            self._handle = os.open(folder, FOLDER)
            if surely_lock(self._handle):
                os.fchmod(self._handle, MARKED_MODE)
        self._mark = self._found()

    def refresh(self) -> None:
        """Keep the lock from becoming stale."""
        with suppress(OSError):
            if self._found() == self._mark:
                os.utime(self._folder)
                self._mark = self._found()

    def release(self) -> None:
        """Remove the lock, unless it belongs to another program by now."""
        with suppress(OSError):
            if self._found() == self._mark:
                self._folder.rmdir()
        if self._handle is not None:
            os.close(self._handle)

    def _found(self) -> tuple[int, int]:
        """Identifies the folder. A new one often has the number of one that was removed, but not its time."""
        status = self._folder.stat()
        return status.st_ino, status.st_mtime_ns


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT_S) -> Iterator[HeldLock]:
    """Hold the lock of `path`. Raises TimeoutError if another program does not release it within `timeout` seconds."""
    lock = path.with_name(path.name + ".lock")
    make_folder(path.parent)
    deadline = time.monotonic() + timeout
    while not _made(lock):
        if _remove_abandoned(lock):
            continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} is locked by another program ({lock})")
        time.sleep(0.02)
    held = HeldLock(lock)
    try:
        yield held
    finally:
        held.release()


def _made(lock: Path) -> bool:
    try:
        lock.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _remove_abandoned(lock: Path) -> bool:
    """Remove a lock that its program has left behind. True if there is none now."""
    with suppress(OSError):
        folder = os.open(lock, FOLDER)
        try:
            # It is still the same: while it is open, a new folder has another number.
            if _is_abandoned(lock, folder) and os.fstat(folder).st_ino == lock.stat().st_ino:
                lock.rmdir()
                return True
        finally:
            os.close(folder)
    return False


def _is_abandoned(lock: Path, folder: int) -> bool:
    """True if the program that made the lock has ended, or does not refresh it. Then the folder is locked with flock.

    So one process of tau at a time removes it. A second one, which has seen the same lock, could otherwise remove the
    lock that the first has made since. Only the lock of a suspended process of tau is removed without flock.
    """
    if stat.S_IMODE(os.fstat(folder).st_mode) == MARKED_MODE:
        return surely_lock(folder) or _is_stale(lock)
    return _is_stale(lock) and exclusively(folder)


def _is_stale(lock: Path) -> bool:
    """True if a lock is too old. One from the future is as wrong: the clock was set back since."""
    try:
        return abs(time.time() - lock.stat().st_mtime) > STALE_LOCK_S
    except OSError:
        return False


@contextmanager
def locked_for_long(path: Path, timeout: float) -> Iterator[None]:
    """`locked` for longer work, such as a request to a server: the lock is kept from becoming stale."""
    with locked(path, timeout) as held:
        done = threading.Event()
        keeper = threading.Thread(target=_keep_fresh, args=(held, done), daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()


def _keep_fresh(held: HeldLock, done: threading.Event) -> None:
    while not done.wait(STALE_LOCK_S / 5):
        held.refresh()


def make_folder(path: Path) -> None:
    """Create a private folder, with private parents where they are missing."""
    missing = []
    while not os.path.exists(path):
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def replace_file(path: Path, data: bytes | Iterable[bytes], mode: int | None = None) -> None:
    """Replace a file atomically and keep its mode, or set this one. If `path` is a link, its target is replaced."""
    target = Path(os.path.realpath(path))
    if mode is None:
        mode = target.stat().st_mode & 0o777 if os.path.exists(target) else 0o600
    draft = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(draft, mode)  # restore the bits that the umask removed
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def remove_drafts(path: Path) -> None:
    """Remove what a killed `replace_file` has left beside a file. Only for a file that is locked while it changes."""
    target = Path(os.path.realpath(path))
    draft = re.compile(re.escape(f".{target.name}.") + "[0-9a-f]{8}")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if draft.fullmatch(name):
                target.with_name(name).unlink(missing_ok=True)


def read_small(path: Path | str, limit: int = MAX_SMALL_BYTES) -> bytes:
    """Read a regular file of at most `limit` bytes. Raises OSError for anything else; never blocks on a pipe."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = b""
        while chunk := os.read(handle, limit + 1 - len(data)):
            data += chunk
    finally:
        os.close(handle)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes")
    return data
