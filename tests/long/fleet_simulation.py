"""The scheduler of fleets in a simulated world with many seeds: every invariant holds in each.

python tests/long/fleet_simulation.py [SEEDS] [--tasks 10000] [--workers 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
import time
from multiprocessing import Pool
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.fleet_world import simulate


def one(case: tuple[int, int, int]) -> str:
    """Empty if all invariants hold; every third world has a budget."""
    seed, tasks, workers = case
    try:
        simulate(seed, tasks, workers, tasks / 5 if seed % 3 == 0 else None)
    except AssertionError as error:
        return f"seed {seed}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="?", default=1000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    started = time.monotonic()
    with Pool(2) as pool:
        cases = [(given.seed + at, given.tasks, given.workers) for at in range(given.seeds)]
        wrong = []
        for number, text in enumerate(pool.imap_unordered(one, cases, 5), 1):
            if text:
                wrong.append(text)
                print(text)
            if number % 50 == 0:
                print(f"{number} seeds, {len(wrong)} violations, {time.monotonic() - started:.0f} s", flush=True)
    about = f"{given.tasks} tasks, {given.workers} workers"
    print(f"{given.seeds} seeds of {about}: {len(wrong)} violations, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
