"""The goals of the second step for speed: each a ratio to the best version of pi.

A figure that misses its goal may still be as good as Python allows: within 1.10 times
a floor, which is a program that does the least of the same kind in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.job import TAU

FLOOR_LIMIT = 1.10

Told = Mapping[str, Any]  # a job as results.py writes it


class Goal(NamedTuple):
    words: str
    job: str
    measure: str
    limit: float  # times the best peer
    floor: str = ""  # the floor of the job that counts as well


GOALS = [
    Goal("start to `get_state`", "start", "start", 0.30, "asyncio, msgspec, a response"),
    Goal("start to the first piece of text", "first-text", "first text", 0.33),
    Goal("`get_state`, waiting for each", "get-state", "one by one", 0.8, "asyncio loop"),
    Goal("statistics of a session of 59 MB, when it is idle", "session", "get_session_stats", 0.5),
    Goal("`get_messages` of it", "session", "get_messages", 0.4, "lines as they are"),
    Goal("`get_fork_messages` of it, right after opening", "session", "get_fork_messages", 0.5),
    Goal("HTML export of 5,000 entries", "export", "wall", 0.8, "escaped text"),
    Goal("CPU of a piece that comes alone, whole messages", "text-paced-snapshots", "CPU per piece", 0.4),
    Goal("CPU of a piece that comes alone, deltas", "text-paced-deltas", "CPU per piece", 0.4, "a callback of asyncio"),
    Goal("CPU of a turn with a bash call", "bash-turns", "CPU per turn", 0.35),
    Goal("8 agents ready", "processes-8", "all answer", 0.25),
    Goal("memory of 8 agents", "processes-8", "memory of each", 0.25),
]


class Outcome(NamedTuple):
    goal: Goal
    ours: float
    best: float | None  # the least of all peers
    least: float | None  # the floor

    @property
    def ratio(self) -> float | None:
        return None if not self.best else self.ours / self.best

    @property
    def to_floor(self) -> float | None:
        return None if not self.least else self.ours / self.least

    @property
    def verdict(self) -> str:
        if self.ratio is not None and self.ratio <= self.goal.limit:
            return "holds"
        if self.to_floor is not None and self.to_floor <= FLOOR_LIMIT:
            return f"at the floor ({self.goal.floor})"
        return "not measured" if self.ratio is None else "missed"


def outcomes(jobs: Mapping[str, Told]) -> Iterator[Outcome]:
    """The goals for which tau has a figure."""
    for goal in GOALS:
        values: Mapping[str, Mapping[str, float]] = jobs.get(goal.job, {}).get("values", {})
        if goal.measure in values.get(TAU, {}):
            peers = [found[goal.measure] for name, found in values.items() if _is_peer(name) and goal.measure in found]
            floor = values.get(goal.floor, {}).get(goal.measure)
            yield Outcome(goal, values[TAU][goal.measure], min(peers, default=None), floor)


def _is_peer(name: str) -> bool:
    return name[:1].isdigit()
