"""R2: a session of 200 entries cut at any byte, with a tail of NULs, with any line destroyed: what was whole is there.

A scale of 75 and more cuts at every byte there is (tests/long/torn.py).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from long.torn import GARBAGE, Lost, tear

OFFSETS = 2_000
WHAT = "torn files in which a committed entry is lost"


def measure(scale: float, seed: int) -> list[Figure]:
    kinds = GARBAGE if scale >= 1 else GARBAGE[1:2]
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        try:
            done = tear(max(1, round(OFFSETS * scale)), seed, Path(folder), kinds)
        except Lost as lost:
            print(lost, file=sys.stderr)
            return [Figure("R2", WHAT, 1, 1, 0)]
    return [Figure("R2", WHAT, done.cuts + done.nul_tails + done.destroyed_lines, 0, 0)]
