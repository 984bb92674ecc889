"""Lines between a worker and a later coordinator, as files: for `--orphans keep`, when the pipes are gone.

The worker writes `NAME.out` and beats there; the coordinator that finds it writes `NAME.in` and touches it. The folder
is that of the fleet, so it is on a file system that both see.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 1024 * 1024
MAX_AGE_S = 15.0  # of the last line of a worker that lives; it beats every second


class LineFile:
    """Lines that another process appends to a file; a line counts when it is complete."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def read(self) -> Iterator[bytes]:
        """The lines since the last call, without blank ones."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            while data := os.pread(handle, CHUNK_BYTES, self._at):
                self._at += len(data)
                *lines, self._rest = (self._rest + data).split(b"\n")
                yield from filter(None, lines)
        finally:
            os.close(handle)


def append(path: Path, line: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, line + b"\n")
    finally:
        os.close(handle)


class Mailbox:
    """The worker's side."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._out = folder / f"{name}.out"
        self._in = folder / f"{name}.in"
        self._lines = LineFile(self._in)
        self._touched = 0.0

    def write(self, line: bytes) -> None:
        append(self._out, line)

    def read(self) -> Iterator[bytes]:
        return self._lines.read()

    def is_attended(self) -> bool:
        """True if a coordinator was here since the last call."""
        before = self._touched
        with suppress(OSError):
            self._touched = self._in.stat().st_mtime
        return self._touched != before

    def remove(self) -> None:
        for path in (self._out, self._in):
            path.unlink(missing_ok=True)


def living(folder: Path) -> list[str]:
    """The names of the workers that beat in a folder. Compares times of the file system, not of this machine."""
    with suppress(FileNotFoundError):
        mark = folder / "now"
        append(mark, b"")
        now = mark.stat().st_mtime
        mark.unlink(missing_ok=True)
        found = []
        for path in sorted(folder.glob("*.out")):
            with suppress(OSError):
                if now - path.stat().st_mtime < MAX_AGE_S:
                    found.append(path.stem)
        return found
    return []
