"""The fleet of the example: twenty tasks, a table that says what happened, and a report."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

from support.rpc_process import WITHIN, surroundings

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet" / "run.py"


def test_one_command_runs_twenty_tasks_and_says_what_happened(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE, folder],
        env=surroundings(tmp_path),
        capture_output=True,
        encoding="utf-8",
        timeout=3 * WITHIN,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()[1:21]]
    assert Counter(row[1] for row in rows) == {"solved": 11, "unsolved": 2, "done": 5, "limited": 1, "failed": 1}
    assert "fix-mean" in [row[0] for row in rows if row[1] == "unsolved"]
    assert done.stdout.splitlines()[-1] == str(folder / "run" / "report.html")
    assert "fix-mean" in (folder / "run" / "report.html").read_text()
