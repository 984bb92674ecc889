"""The file of sent prompts, shared by all projects and processes: one JSON object per line, appended under a lock.

It is private (0600). When it has grown too large it is written again with the newest prompts of each project. A line
that cannot be read, such as one torn by a crash, is skipped.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tau.screen.editor.markers import clean
from tau.screen.history import MAX_ENTRIES, HistoryEntry
from tau.store.files import locked, replace_file

FILE_NAME = "tau_history.jsonl"
MAX_ENTRY_BYTES = 256 * 1024  # a longer prompt is not written
MAX_FILE_BYTES = 8 * 1024 * 1024  # the file is written again when it is larger
KEPT_BYTES = MAX_FILE_BYTES // 2  # and then has at most this size

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a pipe in the file's place must not block


class HistoryFile:
    """The prompts of one project. All methods block."""

    def __init__(self, agent_dir: Path, project: str) -> None:
        self.path = agent_dir / FILE_NAME
        self._project = project
        self._loaded: tuple[int, int, int] | None = None  # what the file was when it was read

    def changed(self) -> bool:
        """Whether the file has changed since `load`: another process has added prompts, or this one."""
        return self._state() != self._loaded

    def _state(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def load(self) -> list[HistoryEntry]:
        """The newest prompts of the project, oldest first. Raises OSError if the file cannot be read."""
        self._loaded = self._state()
        found: list[HistoryEntry] = []
        for line in reversed(self._lines()):
            entry = _parse(line, self._project)
            if entry and not (found and found[-1].text == entry.text):
                found.append(entry)
                if len(found) == MAX_ENTRIES:
                    break
        return found[::-1]

    def append(self, entry: HistoryEntry) -> None:
        """Add a prompt. Raises OSError, or TimeoutError if another process keeps the lock."""
        line = _line(self._project, entry)
        if len(line) > MAX_ENTRY_BYTES:
            return
        with locked(self.path):
            size = self._append(line)
            if size > MAX_FILE_BYTES:
                replace_file(self.path, b"".join(f"{line}\n".encode() for line in _newest(self._lines())))

    def _append(self, line: bytes) -> int:
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_WAIT, 0o600)
        with open(handle, "r+b", buffering=0) as file:
            size = self._size(handle)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line  # after a line that was torn
            file.write(line)
            return size + len(line)

    def _lines(self) -> list[str]:
        """The lines of the file; of a file that is far too large, its end."""
        try:
            handle = os.open(self.path, os.O_RDONLY | _NO_WAIT)
        except FileNotFoundError:
            return []
        with open(handle, "rb") as file:
            file.seek(max(self._size(handle) - 2 * MAX_FILE_BYTES, 0))
            return file.read(2 * MAX_FILE_BYTES + 1).decode("utf-8", "replace").split("\n")

    def _size(self, handle: int) -> int:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{self.path} is not a regular file")
        return status.st_size


def _line(project: str, entry: HistoryEntry) -> bytes:
    content: dict[str, object] = {"project": project, "text": entry.text}
    if entry.pastes:
        content["pastes"] = entry.pastes
    return json.dumps(content, ensure_ascii=True).encode() + b"\n"


def _parse(line: str, project: str) -> HistoryEntry | None:
    if not line.startswith("{"):
        return None
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):  # nested too deeply
        return None
    text = content.get("text")
    if content.get("project") != project or not isinstance(text, str) or clean(text) != text:
        return None
    pastes = tuple(_pastes(content.get("pastes"), len(text)))
    return HistoryEntry(text, pastes)


def _pastes(value: object, size: int) -> Iterator[tuple[int, int]]:
    last = 0
    for pair in value if isinstance(value, list) else ():
        match pair:
            case [int(start), int(end)] if last <= start < end <= size:
                yield start, end
                last = end
            case _:
                return


def _newest(lines: list[str]) -> list[str]:
    """The newest lines of each project that fit into KEPT_BYTES, in their order."""
    kept: list[str] = []
    counts: Counter[object] = Counter()
    size = 0
    for line in reversed(lines):
        project = _project(line)
        if project is None or counts[project] >= MAX_ENTRIES:
            continue
        size += len(line.encode()) + 1
        if size > KEPT_BYTES:
            break
        counts[project] += 1
        kept.append(line)
    return kept[::-1]


def _project(line: str) -> str | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):  # nested too deeply
        return None
    project = content.get("project") if isinstance(content, dict) else None
    return project if isinstance(project, str) else None
