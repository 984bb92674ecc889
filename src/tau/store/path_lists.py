"""Path lists in settings: paths and globs to include and exclude.

    "shared/skills", "~/notes/*.md"     include these
    "!drafts/**"                        exclude everything that matches this glob, wherever it was found
    "-old.md", "+drafts/good.md"        exclude this path; include this path whatever the globs say

Paths are already absolute here: store/settings.py resolves them against the folder of the settings file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tau.core.text.globs import BadGlob, compile_glob
from tau.records.base import Value

MAX_GLOB_FILES = 1000  # files of one glob


class PathList(Value):
    lines: Sequence[str] = ()

    def paths(self) -> list[Path]:
        """Return the included paths in order, with globs expanded."""
        found: list[Path] = []
        for line in self.lines:
            path = line.removeprefix("+")
            if not path or line[0] in "!-":
                continue
            if glob.has_magic(path) and not os.path.lexists(path):
                found += map(Path, sorted(islice(glob.iglob(path, recursive=True), MAX_GLOB_FILES)))
            else:
                found.append(Path(path))
        return list(dict.fromkeys(found))

    def allows(self, path: Path) -> bool:
        """True if a file is not excluded. A folder in the list stands for everything in it."""
        allowed = not any(_matches(line[1:], path) for line in self.lines if line.startswith("!"))
        for prefix, verdict in (("+", True), ("-", False)):
            if any(path.is_relative_to(line[1:]) for line in self.lines if line.startswith(prefix)):
                allowed = verdict
        return allowed


def _matches(pattern: str, path: Path) -> bool:
    try:
        matches = compile_glob(pattern).fullmatch
    except BadGlob:
        return False
    return any(matches(str(folder)) for folder in (path, *path.parents))
