"""Every row of docs/reliability.md and its state: what its tests say, and the figures of the gate about it.

The tests that are marked with rows are run once. A row is held if none of its tests fails, at least one passes, and no
figure about it is over its limit. A row whose tests are all skipped here was not tried, and counts as open.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gate.runs import ROOT
from support.promise_catalogue import GOAL_ROWS, PARTS, SAME, Row

WORKERS = 2
UNKNOWN = "?"  # the row of a test that took its process along
HELD, BROKEN, OVER, NOT_TRIED, ABSENT = "held", "BROKEN", "OVER", "not tried", "does not apply"


class Endings(NamedTuple):
    """How the tests of a row ended."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why: str = ""  # the last one was skipped

    def plus(self, ending: str, why: str) -> Endings:
        counts = {**self._asdict(), "why": why or self.why}
        return Endings(**{**counts, ending: counts[ending] + 1})

    @property
    def words(self) -> str:
        parts = [(self.passed, ""), (self.failed, " failed"), (self.skipped, " skipped")]
        return ", ".join(f"{count}{word}" for count, word in parts if count)


class Figures(NamedTuple):
    """How many figures of a goal there are, and how many are within their limits."""

    held: int
    total: int


class RowState(NamedTuple):
    row: Row
    tests: Endings
    figures: str
    state: str

    @property
    def is_held(self) -> bool:
        return self.state in (HELD, ABSENT)


def run_tests(arguments: Iterable[str] = ()) -> dict[str, Endings]:
    """Run the tests with a row, or those that the arguments choose. Their output goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tau-gate-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "tests.xml"
        words = ["-q", "-m", "promise", "-n", str(WORKERS), "--dist", "loadgroup"]
        words += [f"--junitxml={file}", f"--basetemp={folder}/t", "-p", "no:cacheprovider", *arguments]
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, stdout=sys.stderr, check=False)
        return read_tests(file) if file.exists() else {}


def read_tests(file: Path) -> dict[str, Endings]:
    """By row, from a file that pytest wrote; tests/conftest.py adds the rows of each test to it."""
    found: dict[str, Endings] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        broken = [one for one in case if one.tag in ("failure", "error")]
        skipped = [one for one in case if one.tag == "skipped"]
        ending = "failed" if broken else "skipped" if skipped else "passed"
        why = skipped[0].get("message", "") if skipped else ""
        names = {str(one.get("value")) for one in case.iter("property") if one.get("name") == "promise"}
        for name in names or ({UNKNOWN} if broken else set()):
            row = SAME.get(name, name)
            found[row] = found.get(row, Endings()).plus(ending, why)
    return found


def recorded(records: Iterable[Mapping[str, Any]]) -> dict[str, Figures]:
    """The last figures of each goal that were kept."""
    last: dict[str, dict[str, bool]] = {}
    for one in records:
        last.setdefault(one["goal"], {})[one["what"]] = one["limit"] is None or one["found"] <= one["limit"]
    return {goal: Figures(sum(found.values()), len(found)) for goal, found in last.items()}


def states(tests: Mapping[str, Endings], figures: Mapping[str, Figures]) -> Iterator[RowState]:
    about = {row: goal for goal, rows in GOAL_ROWS.items() for row in rows.split()}
    for row in (row for part in PARTS for row in part.rows):
        found, goal = tests.get(row.id, Endings()), about.get(row.id, "")
        measured = figures.get(goal)
        words = f"{goal} {measured.held}/{measured.total}" if measured else goal
        yield RowState(row, found, words, _state(row, found, measured))


def _state(row: Row, tests: Endings, figures: Figures | None) -> str:
    if row.absent:
        return ABSENT
    if tests.failed:
        return BROKEN
    if not tests.passed:
        return NOT_TRIED
    return OVER if figures and figures.held < figures.total else HELD


HEAD = ["row", "promises", "fault", "tests", "figures", ""]
WIDTHS = [5, 8, 72, 16, 9, 9]


def lines(found: Iterable[RowState]) -> Iterator[str]:
    """The table, and why a row was not tried."""
    yield _line(HEAD)
    for one in found:
        row = one.row
        cells = [row.id, " ".join(row.promises), row.fault, one.tests.words, one.figures, one.state]
        yield _line(cells) + (f": {one.tests.why}" if one.state == NOT_TRIED and one.tests.why else "")


def _line(cells: list[str]) -> str:
    return "  ".join(cell[:width].ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()
