"""R34: whatever happens to a fleet, its invariants hold, and in the end its table is that of a quiet run."""

from __future__ import annotations

import sys
from multiprocessing import Pool
from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from long import fleet_monkey, fleet_simulation, fleet_worktrees

SEEDS = 1_000
TASKS, WORKERS = 200, 8  # of a simulated world
MONKEY_S = 60.0
TASKS_PER_S = 10
WORK_TREES = 200
SECONDS = 3600.0


def measure(scale: float, seed: int) -> list[Figure]:
    seeds, trees = max(5, round(SEEDS * scale)), max(4, round(WORK_TREES * min(scale, 1)))
    seconds = max(5.0, MONKEY_S * scale)

    def disturbed(number: int, amount: int, folder: Path) -> None:
        print(fleet_monkey.run(folder, seconds, seed, round(seconds * TASKS_PER_S)), file=sys.stderr)

    def separate(number: int, amount: int, folder: Path) -> None:
        fleet_worktrees.main(trees)

    with Pool(2) as pool:
        worlds = [(seed * 1_000_003 + at, TASKS, WORKERS) for at in range(seeds)]
        broken = [text for text in pool.imap_unordered(fleet_simulation.one, worlds, 10) if text]
    for text in broken[:20]:
        print(f"R34: {text}", file=sys.stderr)
    differs, disturb = failures(1, 1, disturbed), failures(1, 1, separate)
    return [
        Figure("R34", "simulated fleets whose invariants broke", seeds, len(broken), 0),
        Figure("R34", "seconds of kills and stops after which the table differs", round(seconds), differs, 0),
        Figure("R34", "work trees at once that disturb each other or the repository", trees, disturb, 0),
    ]
