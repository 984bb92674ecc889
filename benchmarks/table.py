"""Results in words: a small table per job, and what of the promises holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.goals import outcomes
from benchmarks.job import ALONE, TAU, Result, Target

SHOWN = 110  # characters of a reason


def job_table(result: Result) -> str:
    """Everyone's numbers; behind those of others, how often tau needs them."""
    names = [TAU, *(name for name in {**result.values, **result.failed} if name != TAU)]
    lines = [[result.job.name, "", *names, "target"]]
    for measure, unit in result.job.units.items():
        cells = [_cell(result, name, measure) for name in names]
        verdicts = [verdict(result, target) for target in result.job.targets if target.measure == measure]
        lines.append([f"  {measure}", unit, *cells, *(verdicts[:1] or [""])])
        lines += [["", "", *("" for _ in names), more] for more in verdicts[1:]]
    reasons = [f"  {name}: {' '.join(why.split())[-SHOWN:]}" for name, why in result.failed.items()]
    doubts = [f"  ! {doubt}" for doubt in result.doubts]
    return "\n".join([result.job.about, aligned(lines), *reasons, *doubts])


def summary(results: Sequence[Result]) -> str:
    """How many targets hold, and which do not."""
    found = [(result, target, result.ratio(target)) for result in results for target in result.job.targets]
    measured = [(result, target, ratio) for result, target, ratio in found if ratio is not None]
    over = [(result, target) for result, target, ratio in measured if ratio > target.limit]
    head = f"{len(measured) - len(over)} of {len(measured)} targets hold"
    if len(measured) < len(found):
        head += f"; {len(found) - len(measured)} more could not be measured here"
    return "\n".join([head, *(f"  {result.job.name}, {one.measure}: {verdict(result, one)}" for result, one in over)])


def verdict(result: Result, target: Target) -> str:
    ratio = result.ratio(target)
    limit = f"<= {target.limit:g}" if target.against == ALONE else f"<= {target.limit:g}x {target.against}"
    if ratio is None:
        return f"{limit} [{target.issues}]: not measured"
    found = "" if target.against == ALONE else f" ({_ratio(ratio)})"
    return f"{limit} [{target.issues}]: {'holds' if ratio <= target.limit else 'OVER'}{found}"


def goal_table(jobs: Mapping[str, Any]) -> str:
    """The goals of the second step that were measured, as far as a peer or a floor was measured too."""
    lines = [["goals", "", "tau", "best pi", "ratio", "goal", "floor", ""]]
    for one in outcomes(jobs):
        unit = jobs[one.goal.job]["units"][one.goal.measure]
        best = "-" if one.best is None else rounded(one.best)
        ratio = "-" if one.ratio is None else _ratio(one.ratio)
        floor = "" if one.to_floor is None else f"{_ratio(one.to_floor)}x {one.goal.floor}"
        lines.append(
            [one.goal.words, unit, rounded(one.ours), best, ratio, f"<= {one.goal.limit:g}", floor, one.verdict]
        )
    return aligned(lines)


def _cell(result: Result, name: str, measure: str) -> str:
    value = result.values.get(name, {}).get(measure)
    if value is None:
        return "-"
    ours = result.values.get(TAU, {}).get(measure)
    ratio = f" ({_ratio(ours / value)}x)" if name != TAU and ours is not None and value else ""
    return rounded(value) + ratio


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def rounded(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 1 < at < last else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
