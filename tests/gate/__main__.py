"""Every figure that a change must keep, measured and printed: `make gate`.

    python -m tests.gate [--only R1 R4] [--scale 1] [--seed N] [--record FILE]
    python -m tests.gate --rows
    python -m tests.gate --sums [FILE]

A scale of 1 tries as often as a change has to; a tenth of it is part of the tests;
a release may take several runs, each with a seed of its own, which --record keeps
and --sums adds up. After the figures, or alone with --rows, come all rows of
docs/reliability.md: the tests that hold them are run, and each row has its state.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate import records, rows, runs
from gate.rows import Figures
from gate.runs import Run
from support.signals import restore_signals


def cells(done: Run) -> list[list[str]]:
    if done.failure:
        return [[done.goal, f"{done.name}: {done.failure}", "", "", "", f"{done.seconds:.1f}", "OVER"]]
    return [
        [
            figure.goal,
            figure.what,
            f"{figure.tried:,}",
            f"{figure.found:.6g}",
            f"{figure.limit:g} {figure.unit}".strip(),
            f"{done.seconds:.1f}" if at == 0 else "",
            "holds" if figure.holds else "OVER",
        ]
        for at, figure in enumerate(done.figures)
    ]


HEAD = ["goal", "what", "tried", "found", "limit", "seconds", ""]
SUMS_HEAD = ["goal", "what", "tried", "of", "found", "runs", ""]
WIDTHS = [4, 58, 10, 10, 12, 8, 7]


def line(row: Sequence[str]) -> str:
    aligned = [
        cell.ljust(width) if at in (0, 1, len(row) - 1) else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, WIDTHS, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def gate(only: Sequence[str], scale: float, seed: int, record: Path | None) -> dict[str, Figures]:
    """Measure and print, a goal as soon as it is done."""
    chosen = [name for name in runs.names() if not only or runs.goal(name) in only]
    print(f"{len(chosen)} goals at a scale of {scale:g}, --seed {seed}", flush=True)
    print(line(HEAD), flush=True)
    found: dict[str, Figures] = {}
    for name in chosen:
        done = runs.run(name, scale, seed)
        for row in cells(done):
            print(line(row), flush=True)
        if not done.holds:
            print(done.said, file=sys.stderr, flush=True)
        if record is not None:
            records.keep(record, done.figures, scale=scale, seed=seed)
        held = sum(figure.holds for figure in done.figures)
        found[done.goal] = Figures(held, max(1, len(done.figures)))
    print(f"{sum(one.held for one in found.values())} of {sum(one.total for one in found.values())} figures hold")
    return found


def print_rows(measured: dict[str, Figures]) -> bool:
    """Run the tests of all rows and print the table; for goals that were not measured now, the last record counts."""
    tests = rows.run_tests()
    found = list(rows.states(tests, {**rows.recorded(records.read(records.FILE)), **measured}))
    print(*rows.lines(found), sep="\n")
    held = sum(one.is_held for one in found)
    crashed = tests.get(rows.UNKNOWN, rows.Endings()).failed
    print(f"{held} of {len(found)} rows are held" + (f"; {crashed} tests crashed" if crashed else ""))
    return held == len(found) and not crashed


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the figures that a change must keep.")
    parser.add_argument("--only", nargs="+", default=[], metavar="GOAL", help="such as R1 R4")
    parser.add_argument("--scale", type=float, default=1.0, help="1 for a change, 0.1 in the tests")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument(
        "--record", type=Path, nargs="?", const=records.FILE, metavar="FILE", help="keep what was measured"
    )
    parser.add_argument("--rows", action="store_true", help="the rows of docs/reliability.md and their states")
    parser.add_argument("--sums", type=Path, nargs="?", const=records.FILE, metavar="FILE", help="add up what was kept")
    parser.add_argument("--inside", metavar="MODULE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    restore_signals()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the goal under way is ended too
    if given.inside:
        runs.inside(given.inside, given.scale, given.seed)
        return 0
    if given.sums:
        found, reached = records.table(records.read(given.sums))
        for row in (SUMS_HEAD, *found):
            print(line(row))
        return 0 if reached else 1
    measured: dict[str, Figures] = {}
    if given.only or not given.rows:
        measured = gate(given.only, given.scale, given.seed, given.record)
    holds = all(one.held == one.total for one in measured.values()) and bool(measured or given.rows)
    if given.rows or not given.only:
        holds = print_rows(measured) and holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
