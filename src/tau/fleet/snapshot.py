"""What a fleet is doing, read from its ledger: for progress, `tau fleet status` and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tau.core.fleet.estimate import Estimate, rate, time_left
from tau.records.base import Value, convert, parse
from tau.records.fleet import Result
from tau.store.ledger_view import LedgerView

WINDOW_S = 600.0  # the rate is that of the last minutes
MAX_LISTED = 5
GOOD = ("done", "solved")
BAD = ("failed", "unsolved", "limited", "stuck", "denied", "stopped")


class Slow(NamedTuple):
    task: str
    attempt: int
    worker: str
    seconds: float


class Snapshot(Value):
    """`outcomes` are the final ones; `running` counts attempts, which end with the coordinator."""

    total: int
    outcomes: Mapping[str, int]
    running: int
    cost: float
    tokens: int
    per_second: float
    left: Estimate | None
    slowest: Sequence[Slow]
    failures: Sequence[Result]

    @property
    def ended(self) -> int:
        return sum(self.outcomes.values())

    @property
    def waiting(self) -> int:
        return max(0, self.total - self.ended - self.running)

    @property
    def failed(self) -> int:
        return sum(count for name, count in self.outcomes.items() if name not in GOOD)


def take_snapshot(ledger: LedgerView, now: float, started: float, *, alive: bool = True) -> Snapshot:
    """`started` is when this run of the coordinator began; `alive` says whether there is one."""
    counts = dict(ledger.counts())
    left = counts.pop("", 0)
    totals = ledger.totals()
    running = ledger.running() if alive else []
    since = max(started, now - WINDOW_S)
    ended = ledger.ended_since(since) if alive else 0
    return Snapshot(
        total=left + sum(counts.values()),
        outcomes={name: counts[name] for name in (*GOOD, *BAD) if name in counts},
        running=len(running),
        cost=totals.cost,
        tokens=totals.tokens,
        per_second=rate(ended, now - since),
        left=time_left(left, ended, now - since) if alive else None,
        slowest=[Slow(one.task, one.number, one.worker, now - one.claimed) for one in running[:MAX_LISTED]],
        failures=[convert(parse(record), Result) for record in ledger.last_results(BAD, MAX_LISTED)],
    )
