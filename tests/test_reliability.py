"""docs/reliability.md: nothing is promised that no test holds, and no test holds what nobody promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.promise_catalogue import GOAL_ROWS, GOALS, PROMISES, ROWS, SAME
from support.promise_index import Holder, Marks, gaps, holders, read

PROGRAM = Path(__file__).parents[1] / "scripts" / "reliability.py"


def test_every_promise_has_its_tests_and_the_page_shows_them() -> None:
    done = subprocess.run([sys.executable, PROGRAM, "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_row_without_a_test_and_a_marker_without_a_row_are_named() -> None:
    marks = read()
    without = Marks({row: tests for row, tests in marks.rows.items() if row != "A18"}, [])
    assert list(gaps(without)) == [
        "A18 has no test: A line of 100 MB",
        "P4 has no test: A line over 32 MiB is rejected while it arrives, in linear time; the next one works.",
    ]
    beside = Holder("rpc/test_x.py", "test_x")
    assert list(gaps(Marks({**marks.rows, "A99": [beside]}, ["rpc/test_x.py:7"]))) == [
        "rpc/test_x.py holds A99, which is not in tests/support/promise_catalogue.py",
        "rpc/test_x.py:7 marks no test, or names its rows in a way that cannot be read",
    ]


def test_a_row_has_the_tests_of_both_its_names() -> None:
    one, other = Holder("a.py", "test_one"), Holder("a.py", "test_other")
    assert holders(Marks({"B07": [one], "G15": [one, other]}, []), "B07") == [one, other]


def test_markers_are_read_wherever_they_may_stand(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "test_some.py").write_text(
        """
import pytest

raise SystemExit("this is not imported")

CASES = [pytest.param(b"null", marks=pytest.mark.promise("A02")), *MORE]
MORE = [pytest.param(b"5", marks=[pytest.mark.promise("A03"), pytest.mark.skip])]
pytestmark = pytest.mark.promise("Z05")

@pytest.mark.promise("A17", "A21")
@pytest.mark.parametrize("end", [pytest.param(b"", marks=pytest.mark.promise("A09")), b"x"])
def test_the_end_of_a_line(end): ...

@pytest.mark.parametrize("line", CASES)
async def test_lines(line): ...

@pytest.mark.promise(*ROWS)
def test_unread(): ...

@pytest.mark.promise("A01")
def no_test(): ...
"""
    )
    end, lines, unread = (
        Holder("below/test_some.py", name) for name in ("test_the_end_of_a_line", "test_lines", "test_unread")
    )
    assert read(tmp_path) == Marks(
        {
            "A17": [end],
            "A21": [end],
            "A09": [end],
            "Z05": [end, lines, unread],
            "A02": [lines],
            "A03": [lines],
        },
        ["below/test_some.py:17", "below/test_some.py:20"],
    )
    assert end.law == "the end of a line"


def test_the_catalogue_is_whole() -> None:
    assert [promise.id for promise in PROMISES] == [f"P{number}" for number in range(1, 42)]
    assert list(GOALS) == [f"R{number}" for number in range(1, 38)]
    assert {name for row in ROWS.values() for name in row.promises} == {promise.id for promise in PROMISES}
    assert SAME.keys() & ROWS.keys() == set() and set(SAME.values()) <= ROWS.keys()


def test_the_figures_of_the_gate_are_about_rows() -> None:
    assert list(GOAL_ROWS) == list(GOALS)
    assert {row for rows in GOAL_ROWS.values() for row in rows.split()} <= ROWS.keys()


@pytest.mark.parametrize("part", ["N", "K", "M", "O", "T", "J", "U", "W"])
def test_every_front_end_has_figures(part: str) -> None:
    assert any(row.startswith(part) for rows in GOAL_ROWS.values() for row in rows.split())
