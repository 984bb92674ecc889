"""R4: lines that nobody would write. Each gets exactly one response, and none ends the program (tests/long/fuzz.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from faults.corpus import keep
from gate.figure import Figure
from long.fuzz import Surprise, complaints, fuzz

LINES = 20_000


def measure(scale: float, seed: int) -> list[Figure]:
    amount = max(1, round(LINES * scale))
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as scratch:
        folder = Path(scratch).resolve()
        try:
            fuzz(amount, seed, folder)
            wrong = 0
        except Surprise as surprise:
            print(surprise, file=sys.stderr)
            wrong = max(1, len(surprise.lines))
            for number, line in enumerate(surprise.lines):
                print(f"kept: {keep('lines', f'{seed}-{number}', line)}", file=sys.stderr)
        heard = complaints(folder)
    for said in heard:
        print(said, file=sys.stderr)
    return [
        Figure("R4", "lines that crash, or do not get exactly one response", amount, wrong, 0),
        Figure("R4", "words on stderr for lines that are nobody's fault", amount, heard.total(), 0),
    ]
