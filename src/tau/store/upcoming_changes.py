"""Trust in a project while tau changes its packages.

Trust is bound to content, and a change takes several steps. Before each of them the content that the project is about
to have is trusted too, so that it stays trusted wherever the change is cut off. What another program changes in the
meantime is still not trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tau.records.base import Value
from tau.store.extension_modules import ProjectFiles
from tau.store.trust import file_about, fingerprint


class UpcomingChange(Value):
    """One step. `files` has the new contents of files; `folders` says where the new states of folders are now.

    None: it is removed. `packages` is the new list of the settings; None: it stays as it is.
    """

    files: Mapping[Path, bytes | None] = {}
    folders: Mapping[Path, Path | None] = {}
    packages: Sequence[Any] | None = None


Expect = Callable[[UpcomingChange], None]


def expect_change(cwd: Path, agent_dir: Path, change: UpcomingChange) -> None:
    """Trust a project, which is trusted now, also with a change. Raises ValueError or OSError."""
    project = Path(os.path.realpath(cwd))

    def inside(path: Path) -> Path:
        return project / os.path.relpath(path, cwd)

    moved = UpcomingChange(
        {inside(path): data for path, data in change.files.items()},
        {inside(path): place for path, place in change.folders.items()},
        change.packages,
    )
    digest = fingerprint(project, files=ChangedFiles(moved)).digest
    file_about(project, agent_dir).expect(project, digest)


class ChangedFiles(ProjectFiles):
    """The files of a project as they are after a change."""

    def __init__(self, change: UpcomingChange) -> None:
        self._change = change
        self._places = [*change.files, *change.folders]

    def packages(self, cwd: Path) -> Sequence[Any]:
        return super().packages(cwd) if self._change.packages is None else self._change.packages

    def exists(self, path: Path, *, follow: bool = False) -> bool:
        if path in self._change.files:
            return self._change.files[path] is not None
        place = self.place(path)
        return self._below(path) != [] or (place is not None and super().exists(place, follow=follow))

    def place(self, path: Path) -> Path | None:
        for folder, place in self._change.folders.items():
            if path.is_relative_to(folder):
                return None if place is None else place / path.relative_to(folder)
        return path

    def folder_identity(self, path: Path) -> tuple[int, int] | None:
        if path in self._change.files:
            return None
        place = self.place(path)
        if place is None:
            raise FileNotFoundError(str(path))
        try:
            return super().folder_identity(place)
        except FileNotFoundError:
            if not self._below(path):
                raise
            return -1, len(path.parts)  # a folder that the change makes

    def names(self, path: Path) -> list[str]:
        place = self.place(path)
        found = set(super().names(place)) if place is not None and os.path.isdir(place) else set()
        found |= {changed.relative_to(path).parts[0] for changed in self._below(path)}
        return [name for name in found if path / name not in self._places or self.exists(path / name)]

    def read(self, path: Path, limit: int) -> bytes:
        data = self._change.files.get(path)
        if data is not None:
            if len(data) > limit:
                raise OSError(f"{path} is too large")
            return data
        return super().read(self.place(path) or path, limit)

    def _below(self, path: Path) -> list[Path]:
        """The changed files and folders below a folder that are there after the change."""
        found = [place for place in self._places if place != path and place.is_relative_to(path)]
        gone = {**self._change.files, **self._change.folders}
        return [place for place in found if gone[place] is not None]
