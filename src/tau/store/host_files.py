"""The files of a host, in `<agent dir>/serve`: its lock, its socket, and host.json, by which programs find it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tau.errors import UsageError
from tau.records.base import BadRecord, Record, decode, encode
from tau.store.files import make_folder, read_small, replace_file
from tau.store.locks import holder, lock, lock_shared

ATTEMPTS = 50
ATTEMPT_S = 0.01  # together half a second


class HostInfo(Record):
    """The content of host.json. `started` is in milliseconds since 1970; `url` is null without TCP."""

    pid: int
    started: int
    host: str
    version: str
    socket: str
    url: str | None = None


class HostFiles:
    def __init__(self, agent_dir: Path) -> None:
        self.folder = agent_dir / "serve"
        self.socket = self.folder / "host.sock"
        self.info = self.folder / "host.json"
        self._lock: int | None = None

    def take(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Take the lock: one host for an agent folder. Raises UsageError if another host has it.

        `running_host` has it for a moment, so it is tried several times.
        """
        make_folder(self.folder)
        state = self.folder.lstat()
        if stat.S_ISLNK(state.st_mode) or state.st_uid != os.getuid():
            raise UsageError(f"{self.folder} must be a folder of yours, and no link.")
        self.folder.chmod(0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        self._lock = os.open(self.folder / "lock", flags, 0o600)
        for _ in range(ATTEMPTS):
            if lock(self._lock):
                return
            wait(ATTEMPT_S)
        pid = holder(self._lock)
        who = "" if pid is None else f" (process {pid})"
        raise UsageError(f"A host is running already{who}: tau serve status tells more.")

    def write(self, info: HostInfo) -> None:
        replace_file(self.info, encode(info) + b"\n")

    def remove(self) -> None:
        """Called at the end, while the lock is held."""
        for path in (self.info, self.socket):
            with suppress(OSError):
                path.unlink()


def running_host(agent_dir: Path) -> HostInfo | None:
    """The host of an agent folder, if one is running."""
    files = HostFiles(agent_dir)
    try:
        handle = os.open(files.folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if lock_shared(handle):
            return None  # it is not held: the host has ended, perhaps without removing its files
    finally:
        os.close(handle)
    try:
        return decode(HostInfo, read_small(files.info))
    except (OSError, BadRecord):
        return None
