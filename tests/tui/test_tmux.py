"""Resizing in tmux, which reflows lines and tells the program later: one box, and every word once."""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.cli_process import PI, scripted
from support.rpc_process import surroundings

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
        self.run("new-session", "-d", "-x", "80", "-y", "24", f"{command}; cat")

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


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    tmux = Tmux(tmp_path)
    try:
        yield tmux
    finally:
        tmux.run("kill-server")


def words_of(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\bw(\d+)\.", text)]


def test_twelve_sizes_at_rest_leave_one_box_and_every_word_once(tmux: Tmux) -> None:
    tmux.start(sys.executable, "-m", "support.painter_program", "150", "0")
    tmux.wait("w149.")
    for columns, rows in SIZES:
        tmux.resize(columns, rows)
        shown = tmux.wait(f"box {rows} {columns}")
        assert shown.count("box") == 1
    tmux.run("send-keys", "q")
    shown = tmux.wait("printed after")
    assert "printed before" in shown
    assert "─" not in shown and "box" not in shown
    assert words_of(shown) == list(range(150))


def test_random_sizes_while_words_arrive_lose_none(tmux: Tmux) -> None:
    source = random.Random(21)
    tmux.start(sys.executable, "-m", "support.painter_program", "400", "100")
    tmux.wait("w0.")
    columns, rows = 80, 24
    while "w399." not in tmux.text():
        columns, rows = source.randint(30, 120), source.randint(8, 40)
        tmux.resize(columns, rows)
        time.sleep(source.uniform(0.05, 0.5))  # the pace of the person at the mouse
    shown = tmux.wait(f"box {rows} {columns}")
    found = words_of(shown)
    assert set(range(400)) - set(found) == set()
    assert len(found) - 400 <= 40
    # What is drawn after tmux has changed its grid and before it says so may leave a box in the history.
    assert tmux.screen().count("box") == 1


def start_tau(tmux: Tmux, folder: Path, words: int, delay_ms: int) -> None:
    """The whole program, with an answer in paragraphs of 5 to 60 words."""
    source, pieces = random.Random(21), list[str]()
    while len(pieces) < words:
        pieces += [f"w{number}. " for number in range(len(pieces), min(len(pieces) + source.randint(5, 60), words))]
        pieces[-1] += "\n\n"
    model = scripted(folder, {"blocks": [{"text": pieces}], "delayMs": delay_ms})
    names = ("HOME", "PI_CODING_AGENT_DIR", "TAU_WARM_DIR")
    env = {name: value for name, value in surroundings(folder).items() if name in names}
    tmux.start(*PI, *model, env=env)
    tmux.wait("────")
    tmux.run("send-keys", "go", "Enter")


def wait_for_width(tmux: Tmux, columns: int) -> str:
    """Until the box has been drawn for this width."""
    return tmux.wait("\n" + "─" * (columns - 1) + "\n")


def test_tau_shows_every_word_once_after_twelve_sizes(tmux: Tmux, tmp_path: Path) -> None:
    start_tau(tmux, tmp_path, 600, 0)
    tmux.wait("w599.")
    for columns, rows in SIZES:
        tmux.resize(columns, rows)
        shown = wait_for_width(tmux, columns)
        assert len(re.findall("^──────", shown, re.MULTILINE)) == 2
    assert words_of(shown) == list(range(600))


def test_tau_loses_no_word_when_the_size_changes_while_it_answers(tmux: Tmux, tmp_path: Path) -> None:
    source, columns = random.Random(21), 80
    start_tau(tmux, tmp_path, 600, 10)
    tmux.wait("w0.")
    while "w599." not in tmux.text():
        columns = source.randint(30, 120)
        tmux.resize(columns, source.randint(10, 40))
        time.sleep(source.uniform(0.05, 0.7))  # the pace of the person at the mouse
    found = words_of(wait_for_width(tmux, columns))
    assert set(range(600)) - set(found) == set()
    assert len(found) - 600 <= 60
    assert len(re.findall("^──────", tmux.screen(), re.MULTILINE)) == 2
