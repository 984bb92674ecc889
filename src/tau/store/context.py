"""Context files (AGENTS.md, CLAUDE.md) and the files of the system prompt (SYSTEM.md, APPEND_SYSTEM.md).

Context files are text and are read without trust: an unknown repository may say anything in them. But their size is
limited, and they must not be links to the user's own files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from tau.core.conversation.system_prompt import ContextFile
from tau.store.safe_read import BoundedText, error_reason, is_file, leads_out, read_text
from tau.store.trusted_files import read_bound

# In each folder, the first of these that exists is used.
NAMES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
MAX_FILE_BYTES = 128 * 1024  # bytes of one file
MAX_TOTAL_BYTES = 512 * 1024  # bytes of all files together
MAX_PROMPT_BYTES = 1024 * 1024  # bytes of a system prompt
MAX_BOUND_BYTES = 64 * 1024 * 1024  # bytes of a file that trust is bound to


def project_root(cwd: Path) -> Path:
    """Return the nearest folder with a .git; without one, the working directory."""
    return next((folder for folder in (cwd, *cwd.parents) if os.path.lexists(folder / ".git")), cwd)


def context_files(
    cwd: Path, agent_dir: Path, trusted: bool, *, confined: bool = False
) -> tuple[list[ContextFile], list[str]]:
    """Return the context files, the nearest last, and problems. `confined` is that of ResourceQuery.

    The user's file comes first, then those of the folders from the root of the file system down. They are read in the
    opposite order, so that the nearest files are kept if there is too much text.
    """
    reader = _Reader(project_root(cwd), trusted, bound=confined or not trusted)
    users = reader.read(agent_dir)
    near = [file for folder in (cwd, *cwd.parents) for file in reader.read(folder)]
    return [*users, *reversed(near)], reader.problems


def prompt_file(
    name: str, cwd: Path, agent_dir: Path, trusted: bool, content: Mapping[str, str] | None = None
) -> tuple[str | None, list[str]]:
    """Return the text of SYSTEM.md or APPEND_SYSTEM.md, and problems: the project's if it is trusted, else the user's.

    `content` is what trust is bound to: with it, a project file that changed since is not used.
    """
    problems: list[str] = []
    if trusted and is_file(path := cwd / ".pi" / name):
        text, problems = _prompt(path, content)
        if text is not None or content is None:
            return text, problems
    if is_file(agent_dir / name):
        text, more = _prompt(agent_dir / name)
        return text, problems + more
    return None, problems


def text_or_file(given: str, cwd: Path) -> tuple[str, list[str]]:
    """Return an argument of the command line, or the contents of the file that it names, and problems."""
    path = cwd / given
    if len(given) > 4096 or not is_file(path):
        return given, []
    text, problems = _prompt(path)
    return given if text is None else text, problems


def _prompt(path: Path, content: Mapping[str, str] | None = None) -> tuple[str | None, list[str]]:
    try:
        read = (
            read_text(path, MAX_PROMPT_BYTES)
            if content is None
            else BoundedText.from_bytes(read_bound(path, content, MAX_BOUND_BYTES), MAX_PROMPT_BYTES)
        )
    except OSError as error:
        return None, [f"{path} cannot be read: {error_reason(error)}"]
    return read.text, [] if read.is_complete(MAX_PROMPT_BYTES) else [
        f"{path}: only the first {MAX_PROMPT_BYTES} bytes are used"
    ]


class _Reader:
    def __init__(self, root: Path, trusted: bool, *, bound: bool) -> None:
        self._bound = bound
        self.problems: list[str] = []
        self._root = root
        self._trusted = trusted
        self._left = MAX_TOTAL_BYTES
        self._seen: set[str] = set()  # real paths, and texts: a worktree inside its repository repeats the same file

    def read(self, folder: Path) -> list[ContextFile]:
        """Return the context file of one folder, if it has one."""
        for path in self._candidates(folder):
            real = os.path.realpath(path)
            if real in self._seen:
                return []
            try:
                text = self._text(path)
            except OSError as error:
                self.problems.append(f"{path} cannot be read: {error_reason(error)}")
                continue
            known = text in self._seen or not text.strip()
            self._seen |= {real, text}
            return [] if known else [ContextFile(str(path), text)]
        return []

    def _candidates(self, folder: Path) -> Iterator[Path]:
        for name in NAMES:
            path = folder / name
            if not os.path.lexists(path):
                continue
            if self._bound and folder.is_relative_to(self._root) and leads_out(path, self._root):
                reason = "and a sandbox is on" if self._trusted else "which is not trusted"
                self.problems.append(f"{path} is a link that leads out of the project, {reason}: not read")
            elif not self._trusted and not folder.is_relative_to(self._root) and may_be_planted(path):
                self.problems.append(f"{path} belongs to another user: not read")
            else:
                yield path

    def _text(self, path: Path) -> str:
        limit = min(MAX_FILE_BYTES, self._left)
        content = read_text(path, limit, self._root if self._bound and path.is_relative_to(self._root) else None)
        text = content.text
        if not content.is_complete(limit):
            self.problems.append(f"{path} has {content.size} bytes: only the first {limit} are used")
            text = f"{text}\n\n[{content.size - limit} more bytes of this file are left out]" if limit else ""
        self._left -= min(limit, content.size)
        return text


def may_be_planted(path: Path) -> bool:
    """True if another user may have put the file there: it belongs to another user, in a world-writable folder."""
    try:
        world_writable = os.stat(path.parent).st_mode & stat.S_IWOTH
        return bool(world_writable) and os.lstat(path).st_uid not in (0, os.getuid())
    except (OSError, AttributeError):
        return False
