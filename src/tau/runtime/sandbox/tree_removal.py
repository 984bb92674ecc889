"""Tree removal: delete a directory tree of any depth, without recursion and without following links.

Commands can nest folders deeper than a path can name and deeper than Python can recurse. So every folder that is
found is first moved up to the top of the tree: no path has more than two components, and two descriptors are open at
a time.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PREFIX = ".tau-removed-"
_NAME_EXISTS = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)  # something else has that name


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it. Files that cannot be removed stay; this is not an error."""
    with suppress(OSError):
        top = os.open(path, _FOLDER)
        try:
            _Emptied(top).run()
        finally:
            os.close(top)
        os.rmdir(path)


class _Emptied:
    def __init__(self, top: int) -> None:
        self._top = top
        self._moved = 0
        self._waiting: list[str] = []  # names of folders in the top folder that are still to be removed

    def run(self) -> None:
        self._empty(self._top)
        while self._waiting:
            name = self._waiting.pop()
            with suppress(OSError):
                folder = _open_folder(name, self._top)
                try:
                    self._empty(folder)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=self._top)

    def _empty(self, folder: int) -> None:
        """Remove the files in a folder and move its folders to the top."""
        with os.scandir(folder) as entries:
            listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in listed:
            with suppress(OSError):
                if not is_folder:
                    os.unlink(name, dir_fd=folder)
                elif folder == self._top:
                    self._waiting.append(name)
                else:
                    self._waiting.append(self._hoist(name, folder))

    def _hoist(self, name: str, folder: int) -> str:
        os.close(_open_folder(name, folder))  # makes it writable: moving a folder needs write permission on it
        while True:
            self._moved += 1
            moved = f"{_PREFIX}{self._moved}"
            try:
                os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=self._top)
                return moved
            except OSError as error:
                if error.errno not in _NAME_EXISTS:
                    raise


def _open_folder(name: str, within: int) -> int:
    """Open a folder for reading, even if its mode denies that to its owner."""
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        with suppress(OSError):
            if os.fstat(found).st_mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(".", _FOLDER, dir_fd=found)
    finally:
        os.close(found)
