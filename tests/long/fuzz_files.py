"""Broken session files and broken answers of model servers, by the thousand: none crashes anything, none hangs.

    python tests/long/fuzz_files.py [EACH] [--seed SEED]        (make fuzz)

As many as are asked for of what R5 in tests/gate does. What fails is kept in
a file that is named; it belongs into tests/faults/corpus, once it is mended.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate.r05_files import EACH, measure


def main() -> int:
    parser = argparse.ArgumentParser(description="Open broken sessions and read broken answers.")
    parser.add_argument("each", type=int, nargs="?", default=EACH)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.each} sessions and {given.each} answers, --seed {given.seed}", flush=True)
    started = time.monotonic()
    figures = measure(given.each / EACH, given.seed)
    for figure in figures:
        print(f"{figure.what:45}{figure.found:>8,.0f} of {figure.tried:,}")
    print(f"{'seconds':45}{time.monotonic() - started:>8.1f}")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
