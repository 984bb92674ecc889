"""Every figure that a change must keep, measured and printed: `make gate`.

    python -m tests.gate [--only R1 R4] [--scale 1] [--seed N] [--record FILE]
    python -m tests.gate --sums [FILE]

A scale of 1 tries as often as a change has to; a tenth of it is part of the tests;
a release may take several runs, each with a seed of its own, which --record keeps
and --sums adds up.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate import records, runs
from gate.runs import Run


def rows(done: Run) -> list[list[str]]:
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


def line(cells: Sequence[str]) -> str:
    told = [
        cell.ljust(width) if at in (0, 1, len(cells) - 1) else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "  ".join(told).rstrip()


def gate(only: Sequence[str], scale: float, seed: int, record: Path | None) -> bool:
    """Measure and print, a goal as soon as it is done."""
    chosen = [name for name in runs.names() if not only or runs.goal(name) in only]
    print(f"{len(chosen)} goals at a scale of {scale:g}, --seed {seed}", flush=True)
    print(line(HEAD), flush=True)
    held = total = 0
    for name in chosen:
        done = runs.run(name, scale, seed)
        for row in rows(done):
            print(line(row), flush=True)
        if not done.holds:
            print(done.said, file=sys.stderr, flush=True)
        if record is not None:
            records.keep(record, done.figures, scale=scale, seed=seed)
        held += sum(figure.holds for figure in done.figures)
        total += max(1, len(done.figures))
    print(f"{held} of {total} figures hold")
    return held == total > 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the figures that a change must keep.")
    parser.add_argument("--only", nargs="+", default=[], metavar="GOAL", help="such as R1 R4")
    parser.add_argument("--scale", type=float, default=1.0, help="1 for a change, 0.1 in the tests")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument(
        "--record", type=Path, nargs="?", const=records.FILE, metavar="FILE", help="keep what was measured"
    )
    parser.add_argument("--sums", type=Path, nargs="?", const=records.FILE, metavar="FILE", help="add up what was kept")
    parser.add_argument("--inside", metavar="MODULE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the goal under way is ended too
    if given.inside:
        runs.inside(given.inside, given.scale, given.seed)
        return 0
    if given.sums:
        found, reached = records.table(records.read(given.sums))
        for row in (SUMS_HEAD, *found):
            print(line(row))
        return 0 if reached else 1
    return 0 if gate(given.only, given.scale, given.seed, given.record) else 1


if __name__ == "__main__":
    sys.exit(main())
