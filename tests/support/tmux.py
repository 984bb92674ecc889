"""A server of tmux of its own, with one window."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TIMEOUT_S = 30.0
SIZES = [
    (100, 30),
    (60, 24),
    (40, 20),
    (80, 24),
    (120, 40),
    (50, 12),
    (80, 10),
    (80, 30),
    (30, 24),
    (90, 15),
    (45, 45),
    (80, 24),
]


class Tmux:
    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self._socket, "-f", os.devnull, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def shell(self, command: str, columns: int = 80, rows: int = 24) -> None:
        """Open the window with a command of the shell."""
        self.run("new-session", "-d", "-x", str(columns), "-y", str(rows), command)

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)
        self.run("send-keys", "Enter")

    def text(self) -> str:
        """History and screen."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def wait(self, text: str) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in (shown := self.text()):
            assert time.monotonic() < deadline, f"never showed {text!r}:\n{shown}"
        return shown

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))


@contextmanager
def tmux_or_skip(folder: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    tmux = Tmux(folder)
    try:
        yield tmux
    finally:
        tmux.run("kill-server")
