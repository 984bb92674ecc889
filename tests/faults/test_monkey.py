"""Twenty seconds of what `make soak` does for an hour: a fault each second, all that a client can do, and a kill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "long" / "soak.py"


@pytest.mark.promise("Z01", "Z05")
def test_a_fault_each_second_loses_nothing_hangs_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run = [sys.executable, str(SOAK), "20", "--seed", "10", "--kills", "1", "--folder", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    # A monkey that sleeps, or a client that is refused everything, shows nothing.
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith(("prompts ", "faults ")))
    assert int(told["prompts"].partition(" ")[0].replace(",", "")) >= 20, done.stdout
    assert told["faults"].count(":") >= 4, done.stdout
