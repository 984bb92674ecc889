"""Results as files, and how tau compares with itself of an earlier day.

Seconds of another day or machine say nothing, so what is compared is relative:
processor time in yardsticks (a fixed piece of Python, timed in the same minutes),
sizes in MB, ratios as they are. What the clock said is left out, for others on the
machine hold it up. benchmarks/baseline.json holds one such result.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.job import TAU, Result
from benchmarks.table import aligned

CPU = {"CPU ms": 1e-3, "CPU us": 1e-6}  # in seconds
CLOCK = ("ms", "us")
NEITHER = ("written", "records", "page", "worst, to ripgrep")  # not worse for being more, or by the clock after all

Relative = dict[str, dict[str, float]]  # job -> measure -> number


def relative(results: Sequence[Result]) -> Relative:
    return {result.job.name: found for result in results if TAU in result.values and (found := _relative(result))}


def _relative(result: Result) -> dict[str, float]:
    found = {}
    for measure, value in result.values[TAU].items():
        unit = result.job.units[measure]
        if unit not in CLOCK and measure not in NEITHER:
            found[measure] = _rounded(value * CPU[unit] / result.yardstick if unit in CPU else value)
    return found


def about() -> dict[str, Any]:
    return {"python": platform.python_version(), "processors": os.cpu_count(), "system": platform.system()}


def write(file: Path, results: Sequence[Result], mark: str = "", more: Mapping[str, Any] | None = None) -> None:
    """Everything that was measured; `mark` says why it is no record, `more` are results of another kind."""
    jobs = {result.job.name: told(result) for result in results}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps(
            {
                **about(),
                **({"mark": mark} if mark else {}),
                "jobs": jobs,
                "relative": relative(results),
                **(more or {}),
            },
            indent=2,
        )
        + "\n"
    )


def keep(file: Path, results: Sequence[Result]) -> None:
    """What a later run can be compared with. Jobs that were not done now stay as they were."""
    before = json.loads(file.read_text())["relative"] if file.exists() else {}
    file.write_text(json.dumps({**about(), "relative": {**before, **relative(results)}}, indent=2) + "\n")


def compared(file: Path, results: Sequence[Result], allowed: float) -> tuple[str, bool]:
    """A table of what has changed by more than is allowed, and whether something is worse."""
    before: Mapping[str, Mapping[str, float]] = json.loads(file.read_text())["relative"]
    now = relative(results)
    both = [(job, measure) for job in now for measure in now[job] if before.get(job, {}).get(measure)]
    lines, worse = [["", "then", "now", "", ""]], False
    for job, measure in both:
        change = now[job][measure] / before[job][measure]
        if change > allowed or change < 1 / allowed:
            numbers = f"{before[job][measure]:g}", f"{now[job][measure]:g}", f"{change:.2f}x"
            lines.append([f"{job}: {measure}", *numbers, "WORSE" if change > 1 else "better"])
            worse = worse or change > 1
    changed = f"{len(lines) - 1} of {len(both)} numbers changed by more than {(allowed - 1) * 100:.0f} %"
    head = f"Against {file}, processor time in yardsticks: {changed}"
    return "\n".join([head, *([aligned(lines)] if lines[1:] else [])]), worse


def told(result: Result) -> dict[str, Any]:
    """One job, as it stands in the file."""
    targets = []
    for target in result.job.targets:
        ratio = result.ratio(target)
        holds = None if ratio is None else ratio <= target.limit
        told = {"measure": target.measure, "against": target.against, "limit": target.limit, "issues": target.issues}
        targets.append({**told, "found": ratio, "holds": holds})
    return {
        "about": result.job.about,
        "units": dict(result.job.units),
        "yardstick": result.yardstick,
        "values": dict(result.values),
        "failed": dict(result.failed),
        "doubts": list(result.doubts),
        "targets": targets,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
