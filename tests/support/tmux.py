"""tmux in a test: runs a program in a window of its own server, changes the size, and reads history and screen."""

from __future__ import annotations

import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from support.cli_process import PI, scripted
from support.rpc_process import surroundings

TIMEOUT_S = 30.0


class Tmux:
    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def run(self, *arguments: str) -> str:
        return subprocess.run(
            ["tmux", "-S", self._socket, "-f", os.devnull, *arguments], capture_output=True, text=True, check=True
        ).stdout

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> None:
        """Run a command; what it leaves on the screen stays."""
        path = os.pathsep.join(path for path in sys.path if path)
        settings = [f"{name}={value}" for name, value in {"PYTHONPATH": path, **(env or {})}.items()]
        command = shlex.join(["env", *settings, *argv])
        history = ["set-option", "-g", "history-limit", "50000", ";"]
        self.run(
            *history,
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            f"echo printed before; {command}; echo printed after; cat",
        )

    def text(self) -> str:
        """History and screen."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def wait(self, text: str | Callable[[str], bool]) -> str:
        """Until history and screen have a text, or fulfil a condition."""
        found = (lambda shown: text in shown) if isinstance(text, str) else text
        deadline = time.monotonic() + TIMEOUT_S
        while not found(shown := self.text()):
            assert time.monotonic() < deadline, f"never showed {text!r}:\n{shown[-2000:]}"
        return shown

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))


def words_of(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bw(\d+)\.", text)]


def start_tau(tmux: Tmux, folder: Path, words: int, delay_ms: int, *, endless: bool = False) -> None:
    """The whole program, with an answer in paragraphs of 5 to 60 words, or in one."""
    source, pieces = random.Random(21), list[str]()
    while len(pieces) < words:
        pieces += [f"w{number}. " for number in range(len(pieces), min(len(pieces) + source.randint(5, 60), words))]
        pieces[-1] += "" if endless else "\n\n"
    model = scripted(folder, {"blocks": [{"text": pieces}], "delayMs": delay_ms})
    names = ("HOME", "PI_CODING_AGENT_DIR")
    env = {name: value for name, value in surroundings(folder).items() if name in names}
    tmux.start(*PI, *model, env=env)
    tmux.wait("────")
    tmux.run("send-keys", "go", "Enter")


def wait_for_width(tmux: Tmux, columns: int) -> str:
    """Until the box has been drawn for this width."""
    return tmux.wait("\n" + "─" * (columns - 1) + "\n")
