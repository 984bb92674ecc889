"""Mutated streams of every API: the answer stays the same, and no call runs with incomplete arguments.

    python tests/long/fuzz_streams.py [EACH] [--seed SEED]        (make fuzz)

tests/support/stream_mutations.py lists the mutations. The exit code is 1 if a stream was misread.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.stream_dialects import DIALECTS
from support.stream_mutations import problem

EACH = 2000
SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(description="Read mutated streams of every API.")
    parser.add_argument("each", type=int, nargs="?", default=EACH)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.each} streams of each API, --seed {given.seed}", flush=True)
    misread = 0
    for dialect in DIALECTS:
        started = time.monotonic()
        seeds = (random.Random(f"{given.seed} {number}") for number in range(given.each))
        problems = [wrong for seed in seeds if (wrong := problem(dialect, seed)) is not None]
        misread += len(problems)
        print(f"{dialect.api:28}{len(problems):>6} misread of {given.each:,}{time.monotonic() - started:>8.1f} s")
        for wrong in problems[:SHOWN]:
            print(f"  {wrong}", flush=True)
    return 1 if misread else 0


if __name__ == "__main__":
    sys.exit(main())
