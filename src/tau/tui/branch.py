"""The git branch of a folder, read from its files without starting a process."""

from __future__ import annotations

import os
from pathlib import Path

from tau.store.files import read_small

_REF = "ref: refs/heads/"
MAX_BYTES = 64 * 1024
ID_LENGTH = 7


class GitBranch:
    """The branch that is checked out in `folder`; read again when HEAD has changed."""

    def __init__(self, folder: str) -> None:
        self._head = _find_head(Path(folder))
        self._changed: float | None = None
        self.name: str | None = None
        self.update()

    def update(self) -> bool:
        """Read the branch again if its file has changed. Returns True if the name is another one."""
        if self._head is None:
            return False
        before = self.name
        try:
            changed = self._head.stat().st_mtime
            if changed != self._changed:
                self._changed = changed
                self.name = _branch(_read(self._head))
        except OSError:
            self.name = None
        return self.name != before


def _read(path: Path) -> str:
    """The text of a file. A repository may come from anyone: a pipe, a device or a huge file raises OSError."""
    return read_small(path, MAX_BYTES).decode("utf-8", "replace")


def _find_head(folder: Path) -> Path | None:
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if os.path.isfile(git):  # a work tree or a submodule: the file names the folder
                target = _read(git).removeprefix("gitdir:").strip()
                return parent / target / "HEAD"
            if os.path.isdir(git):
                return git / "HEAD"
        except (OSError, ValueError):  # a name with NUL
            return None
    return None


def _branch(head: str) -> str:
    head = head.strip()
    return head.removeprefix(_REF) if head.startswith(_REF) else head[:ID_LENGTH]
