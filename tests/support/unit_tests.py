"""The marker `unit`: a test that starts no process, opens no connection and waits for no real time.

A test has it by its folder (`FOLDERS`), unless it or its file is marked `process`. While
a unit test runs, what it must not do raises; code that hides the exception
does not save the test, since every attempt is counted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FOLDERS = ("core", "wire", "records", "llm", "screen")
REFUSED = frozenset(
    {
        "subprocess.Popen",
        "os.posix_spawn",
        "os.fork",
        "os.forkpty",
        "os.exec",
        "os.system",
        "socket.bind",
        "socket.connect",
    }
)


class NotUnitError(RuntimeError):
    """A unit test did what only other tests may do."""


class Guard:
    """Refuses the audit events of `REFUSED` while it is active. An audit hook stays for the rest of the process."""

    def __init__(self) -> None:
        self._active = self._installed = False
        self._attempts: list[str] = []
        self._older: set[int | None] = set()

    @contextmanager
    def active(self) -> Iterator[None]:
        if not self._installed:
            sys.addaudithook(self._audit)
            self._installed = True
        self._attempts.clear()
        # Threads that an earlier test left, such as one that sends telemetry, are not the test's.
        self._older = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        self._active = True
        try:
            yield
        finally:
            self._active = False
        if self._attempts:
            raise NotUnitError(f"a unit test must not do this: {', '.join(self._attempts)}; mark the test `process`")

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if self._active and event in REFUSED and threading.get_ident() not in self._older:
            self._attempts.append(event)
            raise NotUnitError(f"{event} in a unit test; mark the test `process`")


def mark_unit_tests(items: list[pytest.Item], root: Path) -> None:
    """Give the marker to every test in `FOLDERS` of `root` that is not marked `process`."""
    for item in items:
        folder = item.path.relative_to(root).parts[0] if item.path.is_relative_to(root) else ""
        if folder in FOLDERS and item.get_closest_marker("process") is None:
            item.add_marker(pytest.mark.unit)
