"""The examples on sessions of a host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.rpc_process import WITHIN, surroundings

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.process


def run(folder: Path, name: str) -> str:
    env = surroundings(folder)
    (folder / "work" / "notes.txt").write_text("hello\n")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=2 * WITHIN,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_chat_bot_comes_back_to_its_room(tmp_path: Path) -> None:
    said = run(tmp_path, "served_chat_bot.py")
    assert "notes.txt" in said and "the session has 4 messages" in said


def test_sessions_stay_open_without_their_client(tmp_path: Path) -> None:
    said = run(tmp_path, "served_sessions.py")
    assert "notes.txt" in said and "open: example, 4 messages" in said
