"""R25: ways out of the sandbox that are not blocked, of X01 to X12, at both levels."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gate.figure import Figure
from support.sandbox_escapes import ESCAPES, LEVELS, missing, place, refused_without


def measure(scale: float, seed: int) -> list[Figure]:
    """A level that this machine cannot have is one way out that nobody has looked at: it counts as open."""
    return [_level(level, max(1, round(scale))) for level in LEVELS]


def _level(level: str, rounds: int) -> Figure:
    open_ways = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            open_ways += _round(Path(folder), level)
    return Figure("R25", f"ways out of --sandbox {level}", rounds * (len(ESCAPES) + 1), open_ways, 0)


def _round(folder: Path, level: str) -> int:
    if missing(level):
        return len(ESCAPES) + 1
    with place(folder / "place", level) as confined:
        open_ways = sum(bool(escape(confined)) for escape in ESCAPES.values())
    return open_ways + (not refused_without(folder / "refusal", level))
