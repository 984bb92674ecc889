"""R25: ways out of the sandbox that are not blocked, of X01 to X12, at both levels."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from support.sandbox_escapes import ESCAPES, LEVELS, missing, place, refused_without


def measure(scale: float, seed: int) -> list[Figure]:
    """A level that this machine cannot have is one way out that was not looked at: it counts as open.

    Less than a round tries some of the ways; tests/sandbox/test_escapes.py tries each of them.
    """
    chosen = portion(list(ESCAPES), min(scale, 1.0), seed)
    return [_level(level, chosen, max(1, round(scale))) for level in LEVELS]


def _level(level: str, chosen: Sequence[str], rounds: int) -> Figure:
    open_ways = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            open_ways += _round(Path(folder), level, chosen)
    return Figure("R25", f"ways out of --sandbox {level}", rounds * (len(chosen) + 1), open_ways, 0)


def _round(folder: Path, level: str, chosen: Sequence[str]) -> int:
    if missing(level):
        return len(chosen) + 1
    with place(folder / "place", level) as confined:
        open_ways = sum(bool(ESCAPES[row](confined)) for row in chosen)
    return open_ways + (not refused_without(folder / "refusal", level))
