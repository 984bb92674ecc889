"""R28: the coordinator of a fleet that is killed loses no final result, doubles none, and goes on."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from gate.figure import Figure
from gate.lots import in_lots
from long import fleet_kills

KILLS = 1000
LOT = 25
SECONDS = 3600.0
MEASURED = 0.1  # below this scale it is part of the tests, on a machine with much else to do
REAL = 5  # every fifth lot has workers with agents; the others answer at once, so that a life is short


def measure(scale: float, seed: int) -> list[Figure]:
    kills = max(4, round(KILLS * scale))
    size = LOT if kills > 2 * LOT else -(-kills // 2)

    def killed(number: int, amount: int, folder: Path) -> float | None:
        try:
            return fleet_kills.run(folder, amount, seed + number, stub=number % REAL != 0).going_on_s
        except AssertionError as error:
            print(f"lot {number}: {error}", file=sys.stderr, flush=True)
            return None

    took = in_lots(kills, size, killed)
    going_on = [seconds for seconds in took if seconds is not None]
    lost = Figure("R28", "lots with a final result lost or doubled, by kill -9", kills, len(took) - len(going_on), 0)
    if scale < MEASURED or not going_on:
        return [lost]
    median = statistics.median(going_on)
    return [lost, Figure("R28", "from a start to the next attempt, median", len(going_on), median, 2, "s")]
