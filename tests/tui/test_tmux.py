"""Resizing in tmux, which reflows lines and tells the program later: one box, and every word once."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.tmux import Tmux, start_tau, wait_for_width, words_of

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


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    tmux = Tmux(tmp_path)
    try:
        yield tmux
    finally:
        tmux.run("kill-server")


@pytest.mark.promise("T13")
def test_tau_shows_every_word_once_after_twelve_sizes(tmux: Tmux, tmp_path: Path) -> None:
    start_tau(tmux, tmp_path, 600, 0)
    tmux.wait("w599.")
    for columns, rows in SIZES:
        tmux.resize(columns, rows)
        shown = wait_for_width(tmux, columns)
        assert len(re.findall("^──────", shown, re.MULTILINE)) == 2
    tmux.run("send-keys", "C-d")
    shown = tmux.wait("printed after")
    assert "printed before" in shown and "─" not in shown
    assert words_of(shown) == list(range(600))


@pytest.mark.promise("T13")
def test_tau_loses_no_word_when_the_size_changes_while_it_answers(tmux: Tmux, tmp_path: Path) -> None:
    source, columns = random.Random(21), 80
    start_tau(tmux, tmp_path, 600, 10)
    tmux.wait("w0.")
    while "w599." not in tmux.text():
        columns = source.randint(30, 120)
        tmux.resize(columns, source.randint(10, 40))
        time.sleep(source.uniform(0.05, 0.7))  # the pace of the person at the mouse
    wait_for_width(tmux, columns)
    found = words_of(tmux.wait("↓5"))  # the run has ended
    assert set(range(600)) - set(found) == set()
    assert len(found) - 600 <= 60
    # On a slow machine, one frame may meet the change of the size and leave the box that it found.
    tmux.wait(lambda _: len(re.findall("^──────", tmux.screen(), re.MULTILINE)) in (2, 3, 4))
