"""A fleet whose machine has a clock that jumps: leases and deadlines do not depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fleets import FleetRun

# A clock that is a day late and a day early, by turns, for a process that is started with this on its path.
CLOCK = """
import itertools, time

real, offsets = time.time, itertools.cycle((86400, -86400))
time.time = lambda: real() + next(offsets)
"""


@pytest.mark.promise("W09")
def test_a_clock_that_jumps_by_days_loses_no_worker_and_repeats_no_task(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CLOCK)
    fleet = FleetRun(tmp_path)
    fleet.variables["PYTHONPATH"] = str(tmp_path / "site")
    fleet.tasks({"id": f"t{number}"} for number in range(40))
    done = fleet.run("--concurrency", "4", "--worker", fleet.stub_worker())
    assert done.returncode == 0, done.stderr
    assert [result["attempt"] for result in fleet.results().values()] == [1] * 40
