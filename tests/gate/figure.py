"""What a goal comes to, once it was tried."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """One number of a goal, and what it may be at most.

    The modules `tests/gate/r*.py` each have a function `measure(scale, seed)` that returns a list of these.
    A scale of 1.0 tries as often as a change has to; 0.1 is for the tests, 10 and more for a release.
    """

    goal: str  # "R1"
    what: str  # "acknowledged entries lost"
    tried: int  # how often: kills, lines, offsets
    found: float  # what came of it
    limit: float  # the most there may be
    unit: str = ""  # "MiB", "s", or nothing for a count

    @property
    def holds(self) -> bool:
        return self.found <= self.limit
