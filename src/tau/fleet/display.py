"""A snapshot of a fleet as text: one line, or a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tau.core.fleet.estimate import duration, interval
from tau.fleet.snapshot import GOOD, Snapshot
from tau.records.fleet import Result

BAR_WIDTH = 30
MAX_ROWS = 40  # of a table of results; with more tasks only those that need a look


def line(snapshot: Snapshot) -> str:
    """Progress in one line."""
    parts = [f"{snapshot.ended:,} of {snapshot.total:,}"]
    parts += [f"{count:,} {name}" for name, count in snapshot.outcomes.items()]
    if snapshot.running:
        parts.append(f"{snapshot.running:,} running")
    if snapshot.cost:
        parts.append(dollars(snapshot.cost))
    if snapshot.per_second:
        parts.append(f"{snapshot.per_second * 3600:,.0f} tasks/h")
    if snapshot.left is not None and snapshot.left.middle:
        parts.append(f"{interval(snapshot.left)} left")
    return ", ".join(parts)


def table(snapshot: Snapshot) -> Iterator[str]:
    """The state of a fleet, line by line."""
    share = snapshot.ended / snapshot.total if snapshot.total else 1.0
    filled = int(BAR_WIDTH * share)
    yield f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {snapshot.ended:,} of {snapshot.total:,} ({share:.0%})"
    yield _row("waiting", f"{snapshot.waiting:,}")
    yield _row("running", f"{snapshot.running:,}")
    for name, count in snapshot.outcomes.items():
        yield _row(name, f"{count:,}")
    yield _row("tokens", f"{snapshot.tokens:,}")
    yield _row("cost", dollars(snapshot.cost))
    if snapshot.per_second:
        yield _row("tasks/h", f"{snapshot.per_second * 3600:,.0f}")
    if snapshot.left is not None and snapshot.left.middle:
        yield _row("time left", f"{duration(snapshot.left.middle)} ({interval(snapshot.left)})")
    if snapshot.slowest:
        yield "slowest"
        for one in snapshot.slowest:
            yield f"  {duration(one.seconds):>10}  {one.task}, attempt {one.attempt}, {one.worker}"
    if snapshot.failures:
        yield "last failures"
        for result in snapshot.failures:
            yield f"  {result.outcome:>10}  {result.id}{reason(result.error)}"


def results_table(results: Sequence[Result]) -> Iterator[str]:
    """What became of tasks: all of a few, of many those that are not done."""
    shown = results if len(results) <= MAX_ROWS else [one for one in results if one.outcome not in GOOD]
    if not shown:
        return
    width = min(40, max(len("task"), *(len(one.id) for one in shown)))
    yield f"{'task':{width}}  {'outcome':9}  turns  seconds      cost  what"
    for one in shown[:MAX_ROWS]:
        took = one.seconds.setup + one.seconds.run + one.seconds.check
        numbers = f"{one.turns:5}  {took:7.1f}  {dollars(one.cost):>8}"
        yield f"{one.id:{width}}  {one.outcome:9}  {numbers}  {what_happened(one)}".rstrip()
    if len(shown) > MAX_ROWS:
        yield f"… and {len(shown) - MAX_ROWS:,} more; `tau fleet report` lists them all"


def what_happened(result: Result) -> str:
    """One line: why it failed, what it changed, or how it answered."""
    if result.error:
        return reason(result.error)[2:]
    if result.check is not None and result.check.code:
        return f"the check ended with {result.check.code}"
    if result.patch is not None:
        patch = result.patch
        return f"{patch.files} {'file' if patch.files == 1 else 'files'} changed, +{patch.added} -{patch.removed}"
    return result.text.strip().partition("\n")[0][:60]


def reason(error: str | None) -> str:
    """The first line of an error, after a colon."""
    first = (error or "").strip().partition("\n")[0]
    return f": {first[:120]}" if first else ""


def dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${amount:.4f}"


def _row(name: str, value: str) -> str:
    return f"{name:10} {value:>12}"
