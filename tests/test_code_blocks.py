"""Every program on these pages is run, and prints what it says it prints: `print(x)  # this`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from client import WITHIN, surroundings

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("rpc-client.md", "sdk.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL), 1
    )
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs_and_prints_what_it_says(block: str, tmp_path: Path) -> None:
    env = surroundings(tmp_path)
    (tmp_path / "work" / "notes.txt").write_text("hello\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path / "work",
        env=env,
        capture_output=True,
        text=True,
        timeout=2 * WITHIN,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for promised in re.findall(r"^ *print\(.+\)  # (.+)", block, re.MULTILINE):
        assert promised in done.stdout
