"""Protected files, which the write and edit tools refuse: the agent's own, trust-relevant project files, extensions.

A model that could change them would decide what the agent runs later, or what it is allowed to do. Paths are compared
with all links resolved; files with several hard links are compared by device and inode. This is not a security
boundary against `bash`, which runs with the user's permissions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tau.errors import ToolError
from tau.store.trust import MCP_FILE, NAMES_NEEDING_TRUST

# In the agent's folder. Skills and prompt templates are not protected: a user may well want tools to write them.
OWN_FILES = ("auth.json", "settings.json", "trust.json", "models.json", "mcp.json", "SYSTEM.md", "APPEND_SYSTEM.md")
OWN = (
    *OWN_FILES,
    "tau-mcp-auth.json",
    "extensions",
    "sessions",
    "serve",
    "bin",
    "cache",
    "git",
    "npm",
    "tmp",
    "packages.lock.json",
)


MAX_COMPARED_FILES = 20_000  # files to compare with a file that has several hard links


class ProtectedFiles:
    """The set of protected files of one session.

    `executables` returns files and folders elsewhere that the agent loads or runs: extensions, the shell. It is
    called at the first check and not at start-up, because most sessions start without ever writing a file.
    """

    def __init__(
        self,
        agent_dir: Path | str,
        cwd: Path | str,
        sessions: Path | None = None,
        executables: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._own = [os.path.join(agent_dir, name) for name in OWN]
        self._executables = cache(executables)
        self._of_project = [os.path.join(cwd, ".pi", name) for name in NAMES_NEEDING_TRUST]
        self._of_project.append(os.path.join(cwd, MCP_FILE))
        self._sessions = None if sessions is None else str(sessions)

    def check(self, path: str, target: str, status: os.stat_result | None) -> None:
        """Raise ToolError if `target`, the real path of `path`, is protected."""
        if self._is_own(target, status):
            raise ToolError(
                f"{path} belongs to the agent's own configuration, extensions or sessions, which tools may not write. "
                "The user can allow it with the setting allowConfigWrites."
            )

    def _is_own(self, target: str, status: os.stat_result | None) -> bool:
        places = (*self._own, *self._of_project, *self._executables())
        if any(_is_in(target, os.path.realpath(place)) for place in places):
            return True
        parts = Path(target.casefold()).parts
        if any(after in _names(names) for names, after in _after_pi(parts)):
            return True
        if self._sessions is not None and target.endswith(".jsonl"):
            return os.path.dirname(target) == os.path.realpath(self._sessions)
        if status is None:
            return False
        return any(_is_same(place, status) for place in places) or (status.st_nlink > 1 and _is_below(places, status))


def _after_pi(parts: Sequence[str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield each name below a `.pi` or `.pi/agent` folder, with the names that are protected there.

    These are the folders of other projects and the default location of the agent's files.
    """
    for at, part in enumerate(parts[:-1]):
        if part == ".pi":
            yield NAMES_NEEDING_TRUST, parts[at + 1]
            if parts[at + 1] == "agent" and at + 2 < len(parts):
                yield OWN, parts[at + 2]


def _names(names: Sequence[str]) -> set[str]:
    return {name.casefold() for name in names}


def _is_in(target: str, place: str) -> bool:
    target, place = target.casefold(), place.casefold()
    return target == place or target.startswith(place.rstrip(os.sep) + os.sep)


def _is_below(places: Sequence[str], status: os.stat_result) -> bool:
    """True if one of these folders contains the file under another name, or too many files to compare."""
    compared = 0
    for place in places:
        for folder, _, names in os.walk(place):
            compared += len(names)
            if compared > MAX_COMPARED_FILES or any(_is_same(os.path.join(folder, name), status) for name in names):
                return True
    return False


def _is_same(place: str, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(place), status)
    except OSError:
        return False
