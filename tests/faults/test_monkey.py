"""Ten seconds of what `make soak` does for an hour, with twice as many faults: all that a client can do, and a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "long" / "soak.py"


@pytest.mark.promise("Z01", "Z05")
def test_two_faults_a_second_lose_nothing_hang_nothing_and_leave_nothing_behind(tmp_path: Path) -> None:
    run = [sys.executable, str(SOAK), "10", "--every", "0.5", "--seed", "10", "--kills", "1"]
    run += ["--folder", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    # A monkey that sleeps, or a client that is refused everything, shows nothing.
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(("prompts ", "faults ")))
    assert int(told["prompts"].partition(" ")[0].replace(",", "")) >= 10, done.stdout
    assert told["faults"].count(":") >= 4, done.stdout
