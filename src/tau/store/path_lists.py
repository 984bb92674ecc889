"""Lists in settings that name files: paths and globs, and what to leave out.

    "shared/skills", "~/notes/*.md"     these
    "!drafts/**"                        nothing that fits this glob, wherever it was found
    "-old.md", "+drafts/good.md"        not this; this, whatever the globs say

Paths are absolute when they get here: settings know the folder of their file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from tau.core.text.globs import BadGlob, compiled
from tau.records.base import Value

MOST = 1000  # files of one glob


class Entries(Value):
    lines: Sequence[str] = ()

    def named(self) -> list[Path]:
        """What is named, in order. A glob that fits nothing names nothing."""
        found: list[Path] = []
        for line in self.lines:
            path = line.removeprefix("+")
            if not path or line[0] in "!-":
                continue
            if glob.has_magic(path) and not os.path.lexists(path):
                found += map(Path, sorted(islice(glob.iglob(path, recursive=True), MOST)))
            else:
                found.append(Path(path))
        return list(dict.fromkeys(found))

    def allows(self, path: Path) -> bool:
        """Whether a file may be used. A folder in the list stands for all that is in it."""
        allowed = not any(_fits(line[1:], path) for line in self.lines if line.startswith("!"))
        for sign, answer in (("+", True), ("-", False)):
            if any(path.is_relative_to(line[1:]) for line in self.lines if line.startswith(sign)):
                allowed = answer
        return allowed


def _fits(pattern: str, path: Path) -> bool:
    try:
        matches = compiled(pattern).fullmatch
    except BadGlob:
        return False
    return any(matches(str(folder)) for folder in (path, *path.parents))
