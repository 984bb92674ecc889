"""A tenth of every figure or less, with lots that are always the same; `make gate` takes them whole."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from gate import records, runs
from gate.figure import Figure
from support.promise_catalogue import GOAL_ROWS, GOALS
from support.promise_index import holders, read
from support.sandbox_escapes import LEVELS, missing

SCALE = 0.1
# rpc/test_disk.py, llm/test_reader_laws.py, serve/test_host_process.py and fleet/test_faults.py try the same.
LESS = {"r03_disk": 0.05, "r14_arguments": 0.02, "r27_host": 0.002, "r28_fleet": 0.002, "r29_telemetry": 0.02}
# Bounded versions of these are tests of the rows that the goals are about, with the same programs.
BY_ROWS = [
    *("r30_terminal", "r31_acp", "r32_mcp", "r33_packages", "r34_fleet_faults", "r35_page", "r36_idle_connections"),
    "r37_fleet_hosts",
]
SEED = int(os.environ.get("TAU_GATE_SEED", "1"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name in runs.names() if name not in BY_ROWS])
def test_a_tenth_of_the_figure_holds(name: str) -> None:
    if name == "r25_sandbox" and (why := next(filter(None, map(missing, LEVELS)), None)):
        pytest.skip(f"*** {why} ***")  # `make gate` counts it as open
    done = runs.run(name, LESS.get(name, SCALE), SEED)
    assert not done.failure, f"{done.failure}\n{done.said}"
    assert [figure for figure in done.figures if not figure.holds] == [], done.said
    if any(figure.tried == 0 for figure in done.figures):
        assert "chromium" in done.said.lower(), done.said
        pytest.skip(f"*** {done.said.strip()} ***")


def test_sums_add_up_different_lots_and_count_the_same_lot_once(tmp_path: Path) -> None:
    (goal, what), wanted = next(iter(records.RELEASE.items()))
    file = tmp_path / "records.jsonl"
    for seed, tried, found in ((1, 40, 2), (2, 60, 0), (1, 40, 0)):
        records.keep(file, [Figure(goal, what, tried, found, 0)], scale=1, seed=seed)
    assert records.sums(records.read(file))[goal, what] == records.Sum(100, 0, 2)
    assert not records.table(records.read(file))[1]
    everything = [Figure(*key, amount, 0, 0) for key, amount in records.RELEASE.items()]
    records.keep(file, everything, scale=50, seed=3)
    rows, reached = records.table(records.read(file))
    assert reached and rows[0] == [goal, what, f"{wanted + 100:,}", f"{wanted:,}", "0", "3", "reached"]
    records.keep(file, [Figure(goal, what, 1, 1, 0)], scale=1, seed=4)
    assert not records.table(records.read(file))[1]


def test_every_goal_is_measured() -> None:
    """R24 is `make soak`."""
    assert {runs.goal(name) for name in runs.names()} == GOALS.keys() - {"R24"}


def test_goals_without_a_bounded_version_of_their_own_are_about_rows_with_tests() -> None:
    marks = read()
    for name in BY_ROWS:
        assert callable(import_module(f"gate.{name}").measure)
        assert [row for row in GOAL_ROWS[runs.goal(name)].split() if not holders(marks, row)] == []
