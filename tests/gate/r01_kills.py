"""R1: kill -9 at random moments of a run. What was acknowledged or told is in the session, and once.

A lot is one session that lives through its kills (tests/long/session_kills.py).
"""

from __future__ import annotations

from pathlib import Path

from gate.figure import Figure
from gate.lots import failures
from long.session_kills import kills

KILLS = 200
LOT = 25  # a session of some thousand entries would be all there is to look at


def measure(scale: float, seed: int) -> list[Figure]:
    def one(number: int, amount: int, folder: Path) -> None:
        kills(amount, f"{seed}/{number}", folder)

    amount = max(2, round(KILLS * scale))
    lost = failures(amount, LOT if amount > 2 * LOT else -(-amount // 2), one)
    return [Figure("R1", "sessions that lost something acknowledged, by kill -9", amount, lost, 0)]
