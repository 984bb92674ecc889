"""Small private files that several programs share: locked while they change, and replaced atomically.

The lock is the one that pi uses: a folder `<file>.lock`, stale if it is older than ten seconds. So tau and pi can share
a settings file.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE_LOCK_S = 10.0
LOCK_TIMEOUT_S = 5.0
MAX_SMALL_BYTES = 4 * 1024 * 1024


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of `path`. Raises TimeoutError if another program does not release it within `timeout` seconds."""
    lock = path.with_name(path.name + ".lock")
    make_folder(path.parent)
    deadline = time.monotonic() + timeout
    while True:
        try:
            lock.mkdir(mode=0o700)
            break
        except FileExistsError:
            with suppress(OSError):
                if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
                    lock.rmdir()
                    continue
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} is locked by another program ({lock})")
        time.sleep(0.02)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.rmdir()


@contextmanager
def locked_for_long(path: Path, timeout: float) -> Iterator[None]:
    """`locked` for longer work, such as a request to a server: the lock is kept from becoming stale."""
    with locked(path, timeout):
        done = threading.Event()
        keeper = threading.Thread(target=_keep_fresh, args=(path.with_name(path.name + ".lock"), done), daemon=True)
        keeper.start()
        try:
            yield
        finally:
            done.set()
            keeper.join()


def _keep_fresh(lock: Path, done: threading.Event) -> None:
    while not done.wait(STALE_LOCK_S / 5):
        with suppress(OSError):
            os.utime(lock)


def make_folder(path: Path) -> None:
    """Create a private folder, with private parents where they are missing."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically and keep its mode. If `path` is a link, its target is replaced."""
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    draft = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(draft, mode)  # restore the bits that the umask removed
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


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
