"""R16: random edits of random files change no byte that they do not speak of."""

from __future__ import annotations

import random
import sys

from gate.figure import Figure
from long.fuzz_edit import check, random_case

EDITS = 10_000


def measure(scale: float, seed: int) -> list[Figure]:
    count, wrong = round(EDITS * scale), 0
    for number in range(count):
        case = random_case(random.Random(seed + number))
        try:
            check(case)
        except AssertionError as error:
            wrong += 1
            print(f"R16, seed {seed + number}: {error}: {case}", file=sys.stderr)
    return [Figure("R16", "edits that changed other bytes than they should", count, wrong, 0)]
