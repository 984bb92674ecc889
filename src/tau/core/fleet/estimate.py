"""When a fleet will be done, from how many tasks ended lately."""

from __future__ import annotations

import math
from typing import NamedTuple

SPREAD = 1.64  # standard deviations: nine times of ten the truth lies between the two


class Estimate(NamedTuple):
    """Seconds until the end; nine times of ten between `low` and `high`."""

    low: float
    middle: float
    high: float


def rate(ended: int, seconds: float) -> float:
    """Tasks per second."""
    return ended / seconds if seconds > 0 else 0.0


def time_left(left: int, ended: int, seconds: float) -> Estimate | None:
    """How long `left` tasks take if `ended` took `seconds`. None if nothing has ended, and nothing can be said.

    The ends of tasks are taken as independent events, so the counts vary as those of a Poisson process.
    """
    if not left:
        return Estimate(0.0, 0.0, 0.0)
    if not ended or seconds <= 0:
        return None
    middle = left * seconds / ended
    spread = SPREAD * math.sqrt(1 / ended + 1 / left)
    return Estimate(middle / (1 + spread), middle, middle * (1 + spread))


def duration(seconds: float) -> str:
    """A length of time for people: "48 s", "2.5 min", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 600:
        return f"{seconds / 60:.1f} min"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours / 24:.1f} days"


def interval(estimate: Estimate) -> str:
    """An estimate for people: "12 to 15 min"."""
    low, high = duration(estimate.low), duration(estimate.high)
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.partition(" ")[2] == unit else f"{low} to {high}"
