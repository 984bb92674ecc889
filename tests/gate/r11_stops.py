"""R11: two seconds after its end, whatever that was, no process of a command is left."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from support.stubborn_commands import COMMANDS, ENDINGS, left_after

CASES = [case for case in product(ENDINGS, COMMANDS) if case[0] != "SIGHUP"]  # thirty


def measure(scale: float, seed: int) -> list[Figure]:
    cases = portion(CASES, scale, seed)
    left = 0
    for ending, kind in cases:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            found = left_after(ending, kind, Path(folder))
        if found:
            print(f"R11: after {ending} of {kind}: {found}", file=sys.stderr)
        left += len(found)
    return [Figure("R11", "processes left 2 s after the end of a command", len(cases), left, 0)]
