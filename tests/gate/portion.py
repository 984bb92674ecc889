"""How much of a list of cases is tried."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")


def portion(cases: Sequence[Case], scale: float, seed: int) -> list[Case]:
    """A tenth of them for 0.1, by the dice; all for 1.0; all and again as many as it takes for more."""
    dice = random.Random(seed)
    wanted = max(1, round(len(cases) * scale))
    rounds = -(-wanted // len(cases))
    return [case for _ in range(rounds) for case in dice.sample(cases, len(cases))][:wanted]
