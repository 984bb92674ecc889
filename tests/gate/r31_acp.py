"""R31: over ACP every request gets one valid response, kill -9 loses nothing that was sent, and a cancel is quick."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from long import acp_cancels, fuzz_acp
from long.acp_kills import kill_and_load

LINES = 20_000
LOT = 5_000
MAX_GROWTH = 1.3
KILLS = 50
CANCELS = 20  # in each phase
SECONDS = 1800.0


def measure(scale: float, seed: int) -> list[Figure]:
    lines, kills = max(1_000, round(LINES * scale)), max(2, round(KILLS * scale))
    cancels = max(1, round(CANCELS * scale))
    growth = [0.0]

    def fuzzed(number: int, amount: int, folder: Path) -> None:
        found = asyncio.run(fuzz_acp.fuzz(amount, seed + number, folder))
        growth.append(found.late_memory / max(1, found.early_memory))

    def killed(number: int, amount: int, folder: Path) -> None:
        asyncio.run(kill_and_load(folder, random.Random(f"{seed}/{number}")))

    wrong, lost = failures(lines, LOT, fuzzed), failures(kills, 1, killed)
    taken = acp_cancels.measure(cancels)
    slowest = max(max(one) for one in taken.values())
    count = sum(map(len, taken.values()))
    return [
        Figure("R31", "lots of mutated requests with a wrong or no response", lines, wrong, 0),
        Figure("R31", "memory after them, by that of the beginning", lines, round(max(growth), 2), MAX_GROWTH, "x"),
        Figure("R31", "kill -9 after which session/load lacks what was sent", kills, lost, 0),
        Figure("R31", "slowest cancel, over all phases of a prompt", count, round(slowest, 3), 1.0, "s"),
    ]
