"""The git branch of a folder, read from its files without starting a process."""

from __future__ import annotations

from pathlib import Path

_REF = "ref: refs/heads/"
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
                self.name = _branch(self._head.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            self.name = None
        return self.name != before


def _find_head(folder: Path) -> Path | None:
    for parent in (folder, *folder.parents):
        git = parent / ".git"
        try:
            if git.is_file():  # a work tree or a submodule: the file names the folder
                target = git.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
                return parent / target / "HEAD"
            if git.is_dir():
                return git / "HEAD"
        except OSError:
            return None
    return None


def _branch(head: str) -> str:
    head = head.strip()
    return head.removeprefix(_REF) if head.startswith(_REF) else head[:ID_LENGTH]
