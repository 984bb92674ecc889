"""Reads files of a project that is trusted by content: only the bytes that were trusted are used."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from tau.store.files import SMALL, read_small

CHANGED = "it changed since the project was trusted"
LARGEST = 64 * 1024 * 1024


class Bound:
    """A file whose bytes must stay those that were trusted. It is read again only if its status changed."""

    def __init__(self, path: str, digest: str) -> None:
        self._content = {os.path.realpath(path): digest}
        self._path = path
        self._known: tuple[int, ...] | None = None

    def is_unchanged(self) -> bool:
        """True if the file still has the trusted bytes. Blocks."""
        try:
            status = os.stat(self._path)
            # An ordinary program cannot set the ctime of a file.
            now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if now != self._known:
                read_bound(self._path, self._content, LARGEST)
                self._known = now
        except OSError:
            return False
        return True


def read_bound(path: Path | str, content: Mapping[str, str] | None, limit: int = SMALL) -> bytes:
    """Read as read_small does. With `content` (SHA-256 by real path), raises OSError if the digest differs."""
    data = read_small(path, limit)
    if content is not None:
        import hashlib

        if content.get(os.path.realpath(path)) != hashlib.sha256(data).hexdigest():
            raise OSError(errno.ESTALE, CHANGED)
    return data
