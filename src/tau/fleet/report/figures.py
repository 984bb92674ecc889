"""The sums of a report: outcomes, money, time, and the same for each value of a label."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tau.fleet.snapshot import BAD, GOOD
from tau.records.fleet import Result

ORDER = (*GOOD[::-1], *BAD)
BINS = 24
MAX_GROUPS = 40  # values of one label that are listed


class Group(NamedTuple):
    """Results with the same value of a label, or with the same model."""

    name: str
    tasks: int
    good: int
    cost: float
    seconds: float


class Bin(NamedTuple):
    low: float
    high: float
    tasks: int


def seconds_of(result: Result) -> float:
    return result.seconds.setup + result.seconds.run + result.seconds.check


def tokens_of(result: Result) -> int:
    usage = result.usage
    return usage.input + usage.output + usage.cache_read + usage.cache_write


def outcomes(results: Iterable[Result]) -> dict[str, int]:
    """In the order in which they are shown."""
    found = Counter(result.outcome for result in results)
    return {name: found[name] for name in ORDER if name in found}  # type: ignore[index]


def quantile(values: Sequence[float], share: float) -> float:
    """Of sorted values; 0 if there are none."""
    return values[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else 0.0


def histogram(values: Sequence[float], bins: int = BINS) -> list[Bin]:
    """How many values lie where, in steps of the same ratio: tasks take seconds or hours."""
    values = sorted(max(0.01, value) for value in values)
    if len(values) < 2 or values[-1] / values[0] < 1.05:
        return []
    low, ratio = values[0], (values[-1] / values[0]) ** (1 / bins)
    counts = Counter(min(bins - 1, int(math.log(value / low) / math.log(ratio) + 1e-9)) for value in values)
    return [Bin(low * ratio**at, low * ratio ** (at + 1), counts[at]) for at in range(bins)]


def groups(results: Sequence[Result]) -> Mapping[str, list[Group]]:
    """By model if there are several, and by each label."""
    found: dict[str, dict[str, list[Result]]] = {"model": {}}
    for result in results:
        found["model"].setdefault(result.model or "none", []).append(result)
        for label, value in result.labels.items():
            found.setdefault(label, {}).setdefault(value, []).append(result)
    return {
        title: [_group(name, inside) for name, inside in sorted(values.items())[:MAX_GROUPS]]
        for title, values in found.items()
        if len(values) > 1
    }


def _group(name: str, results: Sequence[Result]) -> Group:
    good = sum(result.outcome in GOOD for result in results)
    return Group(name, len(results), good, sum(one.cost for one in results), sum(map(seconds_of, results)))
