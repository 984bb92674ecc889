"""Safe reads of untrusted text files: bounded in size, and from regular files only.

The type is checked before the file is opened and again afterwards: opening a pipe can block for ever, opening a device
can have side effects, and a path can lead to another file by then.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from tau.records.base import Value
from tau.store.procfs import opened_path, shows_process

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class BoundedText(Value):
    """The beginning of a text file."""

    text: str
    size: int  # bytes of the whole file

    @classmethod
    def from_bytes(cls, data: bytes, limit: int, size: int = 0) -> BoundedText:
        """Decode the first `limit` bytes as UTF-8, without a byte order mark."""
        return cls(data[:limit].decode("utf-8", "replace").removeprefix("\ufeff"), max(len(data), size))

    def is_complete(self, limit: int) -> bool:
        return self.size <= limit


def read_text(path: Path, limit: int, within: Path | None = None) -> BoundedText:
    """Read at most `limit` bytes as UTF-8. Raises OSError if the file cannot be read or is not inside `within`."""
    _must_be_file(os.stat(path))
    handle = os.open(path, _FLAGS)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        _must_be_file(status)
        # The path of the open file: `path` may lead to another file by now.
        real = opened_path(handle, str(path))
        if shows_process(handle, status, real):
            raise OSError(errno.EACCES, "it shows the environment or the memory of a process")
        if within is not None and leads_out(Path(real), within):
            raise OSError(errno.ELOOP, "it is a link that leads out of the project")
        data = file.read(limit + 1)
        return BoundedText.from_bytes(data, limit, os.fstat(handle).st_size)


def error_reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def is_file(path: Path) -> bool:
    """True if a path is a regular file, or a link to one."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def leads_out(path: Path, root: Path) -> bool:
    """True if a path below `root` leads out of it through a link."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _must_be_file(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
