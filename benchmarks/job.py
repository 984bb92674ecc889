"""What a job is, and how it is run: contenders take turns, so that a slow minute hits all; medians count.

A job measures one contender once and returns a number for each of its measures.
Seconds mean nothing on another machine, so a target is a ratio within the run,
or a size.
"""

from __future__ import annotations

import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measure import Failed, orphans
from benchmarks.mock import Mock
from benchmarks.noise import watched
from benchmarks.peers import Contender

SCATTER = 1.25  # how far apart the middle half of the rounds may be
BEST = "the best peer"
ALONE = "itself"
TAU = "tau"

Values = dict[str, float]


@dataclass(frozen=True)
class Place:
    """Where a job is done: a model that answers, and a folder. What is in `shared` is made once for all rounds."""

    mock: Mock
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @contextmanager
    def home(self) -> Iterator[Path]:
        """A new one, for one start; it is removed afterwards."""
        home = self.folder / f"home-{next(self._numbers)}"
        home.mkdir()
        try:
            yield home
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def shared(self, name: str) -> Path:
        folder = self.folder / "shared"
        folder.mkdir(exist_ok=True)
        return folder / name


@dataclass(frozen=True)
class Target:
    """What was promised: `measure` is at most `limit` times that of another, or at most `limit` by itself."""

    measure: str
    limit: float
    against: str  # BEST, ALONE, the version of a peer, or the name of a floor
    issues: str


@dataclass(frozen=True)
class Job:
    name: str
    about: str
    run: Callable[[Place, Contender], Values]
    units: Mapping[str, str]  # of each measure; with an empty one it is a ratio of its own
    targets: Sequence[Target] = ()
    floors: Mapping[str, Callable[[Place], Values]] = field(default_factory=dict)  # the least that could be
    takes: Callable[[str], bool] = lambda version: True  # which peers can do this
    rounds: int = 1_000  # at most
    times: int = 1  # how often each round is repeated: a short job whose rounds differ needs more of them
    watched: bool = True  # whether the work of other programs during it makes its result worthless
    warm: bool = False  # whether a first round is not counted
    slow: bool = False  # whether it is left out when time is short


@dataclass(frozen=True)
class Result:
    """The medians of everyone; why someone has none; the yardstick of the same minutes; and what speaks against it."""

    job: Job
    values: Mapping[str, Values]
    failed: Mapping[str, str]
    yardstick: float
    doubts: Sequence[str] = ()
    disturbed: str = ""  # what other programs did in the meantime

    def other(self, target: Target) -> tuple[str, float] | None:
        """Who the target is measured by, and its number."""
        if target.against == ALONE:
            return ALONE, 1.0
        floors = self.job.floors
        names = [target.against] if target.against != BEST else [n for n in self.values if n not in (TAU, *floors)]
        found = [(self.values[n][target.measure], n) for n in names if target.measure in self.values.get(n, {})]
        if not found:
            return None
        value, name = min(found)
        return name, value

    def ratio(self, target: Target) -> float | None:
        other = self.other(target)
        if other is None or target.measure not in self.values.get(TAU, {}):
            return None
        return self.values[TAU][target.measure] / other[1]


def run(job: Job, place: Place, contenders: Sequence[Contender], rounds: int) -> Result:
    turns: dict[str, Callable[[], Values]] = {}
    for one in contenders:
        if one.name == TAU or job.takes(one.name):
            turns[one.name] = partial(job.run, place, one)
    for name, floor in job.floors.items():
        turns[name] = partial(floor, place)
    taken: dict[str, list[Values]] = {name: [] for name in turns}
    failed: dict[str, str] = {}
    sticks, others = [], watched(lambda: place.mock.cpu() + orphans())
    for turn in range(min(rounds * job.times, job.rounds) + job.warm):
        sticks.append(yardstick())
        for name in _from(turn, list(turns)):  # the order rotates, so that none always follows the longest
            if name in failed:
                continue
            try:
                values = turns[name]()
            except Failed as why:
                failed[name], values = str(why), why.so_far
                print(f"  {job.name}: {name}: {why}", file=sys.stderr, flush=True)
            if turn or not job.warm:
                taken[name].append(values)
    medians = {name: _medians(many, job.units) for name, many in taken.items() if any(many)}
    doubts = [f"while this was measured, {noise}"] if (noise := others() if job.watched else "") else []
    return Result(job, medians, failed, median(sticks), [*doubts, *_scattered(taken, job.units)], noise)


def _from(at: int, names: Sequence[str]) -> list[str]:
    at %= len(names)
    return [*names[at:], *names[:at]]


def _scattered(taken: Mapping[str, Sequence[Values]], measures: Iterable[str]) -> list[str]:
    """Who had such different rounds that the median says little."""
    said = []
    for measure in measures:
        for name, many in taken.items():
            found = [one[measure] for one in many if measure in one]
            if len(found) > 2:
                low, _, high = quantiles(found, n=4, method="inclusive")
                if low > 0 and high / low > SCATTER:
                    said.append(f"{measure} of {name} ({min(found):,.3g} to {max(found):,.3g})")
    return [f"the rounds differ: {', '.join(said)}"] if said else []


def _medians(many: Sequence[Values], measures: Iterable[str]) -> Values:
    found = {measure: [one[measure] for one in many if measure in one] for measure in measures}
    return {measure: median(values) for measure, values in found.items() if values}


def yardstick() -> float:
    """Seconds that this machine needs for a fixed piece of Python, right now: what earlier results are compared by."""
    best = 1e9
    for _ in range(3):
        before = time.process_time()
        words: dict[str, int] = {}
        for number in range(100_000):
            word = f"word{number % 5_000}"
            words[word] = words.get(word, 0) + number
        best = min(best, time.process_time() - before)
    return best
