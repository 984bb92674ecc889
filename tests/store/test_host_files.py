"""The files of a host: one host for an agent folder, and programs that look for it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tau.errors import UsageError
from tau.store.host_files import HostFiles, HostInfo, running_host

INFO = HostInfo(pid=1, started=1, host="h", version="0", socket="s")


def ended_host(folder: Path) -> int:
    """A host that ended without removing its files. Returns a handle of its lock file."""
    files = HostFiles(folder)
    files.take()
    files.write(INFO)
    assert files._lock is not None
    os.close(files._lock)
    return os.open(files.folder / "lock", os.O_RDWR)


def test_a_host_starts_although_a_program_looks_for_one_at_this_moment(tmp_path: Path) -> None:
    looking = ended_host(tmp_path)
    fcntl.flock(looking, fcntl.LOCK_SH)
    HostFiles(tmp_path).take(lambda seconds: os.close(looking))
    assert running_host(tmp_path) == INFO


def test_a_program_that_looks_for_a_host_is_not_taken_for_one(tmp_path: Path) -> None:
    looking = ended_host(tmp_path)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert running_host(tmp_path) is None
    os.close(looking)


def test_a_second_host_is_refused(tmp_path: Path) -> None:
    waits: list[float] = []
    HostFiles(tmp_path).take()
    with pytest.raises(UsageError, match="A host is running already"):
        HostFiles(tmp_path).take(waits.append)
    assert sum(waits) == pytest.approx(0.5)
