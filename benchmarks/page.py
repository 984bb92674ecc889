"""docs/performance.md from a result: `make bench PEERS="0.73.1 0.87.1" ARGS="--json build/bench.json"`, then

    python -m benchmarks.page build/bench.json

Several results make one page, if there was no time for all jobs in one run; of a job in two of them, the last counts.
The parts of the page between `<!-- begin NAME -->` and `<!-- end NAME -->` and the
picture are generated. The text around them is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.goals import outcomes
from benchmarks.job import TAU
from benchmarks.plot import Row, dots
from benchmarks.scaling import LAWS, LIMIT, Found, Rate, draw
from benchmarks.table import rounded

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "media" / "performance.svg"
TIMES, NOTHING = "\N{MULTIPLICATION SIGN}", "\N{EN DASH}"
UNITS = {"CPU ms": "ms", "CPU us": "µs", "us": "µs"}

Told = Mapping[str, Any]  # what results.py writes


class Shown(NamedTuple):
    """A row of the page: a measure of a job, in the reader's words. Those in the picture have a dot there."""

    job: str
    measure: str
    words: str
    drawn: bool = True


SHOWN = [
    Shown("start", "start", "start to `get_state`"),
    Shown("first-text", "first text", "start to the first piece of text"),
    Shown("help", "start", "`pi --help`"),
    Shown("idle", "idle memory", "memory at rest"),
    Shown("text-5k-snapshots", "CPU per piece", "CPU per streamed piece, whole messages"),
    Shown("text-5k-deltas", "CPU per piece", "CPU per streamed piece, deltas"),
    Shown("text-paced-snapshots", "CPU per piece", "CPU per piece that comes alone, whole messages"),
    Shown("text-paced-deltas", "CPU per piece", "CPU per piece that comes alone, deltas"),
    Shown("text-5k-snapshots", "peak memory", "memory for 5,000 pieces, whole messages"),
    Shown("text-5k-deltas", "peak memory", "memory for 5,000 pieces, deltas", False),
    Shown("arguments-200k", "CPU per piece", "CPU per piece of 200 kB of arguments"),
    Shown("bash-turns", "CPU per turn", "CPU per turn with a bash call"),
    Shown("bash-turns", "wall per turn", "a turn with a bash call", False),
    Shown("bash-output", "wall", "169 MB of output of a command"),
    Shown("get-state", "one by one", "`get_state`, waiting for each"),
    Shown("get-state", "CPU, one by one", "CPU of one `get_state`"),
    Shown("get-state", "all at once", "`get_state`, all at once"),
    Shown("session", "open", "open a session of 59 MB"),
    Shown("session", "get_messages", "`get_messages` of it"),
    Shown("session", "next prompt", "the next prompt in it"),
    Shown("session", "get_session_stats", "`get_session_stats` of it, when it is idle"),
    Shown("session", "get_session_stats, at once", "`get_session_stats` right after opening", False),
    Shown("session", "get_fork_messages", "`get_fork_messages` right after opening"),
    Shown("session", "fork", "a fork of it"),
    Shown("session", "peak memory", "memory for all of these"),
    Shown("session-large", "open", "open a session of 590 MB", False),
    Shown("session-large", "memory, open", "memory when it is open", False),
    Shown("processes-8", "all answer", "8 processes until all answer", False),
    Shown("processes-8", "memory of each", "memory of each of 8 processes", False),
    Shown("processes-64", "memory of each", "memory of each of 64 processes", False),
    Shown("sessions-100", "memory, after a prompt", "memory of 100 sessions in one process", False),
    Shown("sessions-1000", "memory, after a prompt", "memory of 1,000 sessions in one process", False),
    Shown("sessions-1000", "get_state, worst session", "`get_state` of the slowest of them", False),
    Shown("export", "wall", "export of 5,000 entries"),
    Shown("export", "CPU", "CPU of an export"),
]


def machine(result: Told) -> str:
    others = [name for name in peers(result)]
    beside = f", beside pi {' and '.join(others)}" if others else ""
    doubts = sum(bool(job["doubts"]) for job in result["jobs"].values())
    busy = (
        f" In {doubts} of {len(result['jobs'])} jobs other programs were running, or the rounds differed noticeably."
        if doubts
        else ""
    )
    mark = f" **This is {result['mark']}.**" if "mark" in result else ""
    return (
        f"Python {result['python']} on {result['system']} with {result['processors']} processors{beside};"
        f" medians of rounds in which the programs took turns.{busy}{mark}"
    )


def goals(result: Told) -> str:
    """The goals of the second step: against the best peer, or against a floor where Python allows no less."""
    lines = [["", TAU, "best pi", "ratio", "goal", ""], ["---", *["--:"] * 4, "---"]]
    for one in outcomes(result["jobs"]):
        unit = result["jobs"][one.goal.job]["units"][one.goal.measure]
        best = NOTHING if one.best is None else _amount(one.best, unit)
        ratio = NOTHING if one.ratio is None else f"{one.ratio:.2g}{TIMES}"
        verdict = f"**{one.verdict}**" if one.verdict == "missed" else one.verdict
        lines.append([one.goal.words, _amount(one.ours, unit), best, ratio, f"≤ {one.goal.limit:g}{TIMES}", verdict])
    return markdown(lines)


def peers(result: Told) -> list[str]:
    """Their versions, the newest last."""
    names = {name for job in result["jobs"].values() for name in (*job["values"], *job["failed"])}
    versions = [name for name in names if re.fullmatch(r"[\d.]+", name)]
    return sorted(versions, key=lambda version: tuple(map(int, version.split("."))))


def shown(result: Told) -> Iterator[tuple[Shown, Told]]:
    """The rows for which tau has a number."""
    for row in SHOWN:
        job = result["jobs"].get(row.job)
        if job is not None and row.measure in job["values"].get(TAU, {}):
            yield row, job


def beside(result: Told) -> str:
    """Everyone's numbers; in brackets, how many times what tau needs."""
    others = peers(result)
    lines = [["", TAU, *(f"pi {version}" for version in others)], ["---", *["--:"] * (1 + len(others))]]
    for row, job in shown(result):
        ours = job["values"][TAU][row.measure]
        cells = [_cell(job, version, row.measure, ours) for version in others]
        lines.append([row.words, _amount(ours, job["units"][row.measure]), *cells])
    return markdown(lines)


def promises(result: Told) -> str:
    lines = [["", "promised", "found", ""], ["---", "--:", "--:", "---"]]
    for name, job in result["jobs"].items():
        for target in job["targets"]:
            unit = job["units"][target["measure"]]
            alone = target["against"] == "itself"
            limit = _amount(target["limit"], unit) if alone else f"{target['limit']:g}{TIMES} {target['against']}"
            found = target["found"]
            amount = NOTHING if found is None else _amount(found, unit) if alone else f"{found:.2g}{TIMES}"
            verdict = {True: "holds", False: "**does not hold**", None: "not measured"}[target["holds"]]
            lines.append([f"{name}: {target['measure']}", f"≤ {limit}", amount, verdict])
    return markdown(lines)


def slower(result: Told) -> str:
    """The measures in which another program needs less."""
    lines = []
    for name, job in result["jobs"].items():
        for measure, ours in job["values"].get(TAU, {}).items():
            unit = job["units"][measure]
            better = {version: job["values"].get(version, {}).get(measure, ours) for version in peers(result)}
            said = [f"{_amount(value, unit)} of {version}" for version, value in better.items() if value < ours]
            if said and unit:
                lines.append(f"- `{name}`, {measure}: {_amount(ours, unit)}, against {' and '.join(said)}")
    return "\n".join(lines) or "In this run, nowhere."


def laws(result: Told) -> str:
    """The scaling laws, with their exponents and pictures; then what the default dialect writes."""
    found = {name: Found(name, one["sizes"], one["costs"]) for name, one in result.get("laws", {}).items()}
    lines = [["", "work", "cost", "exponent", ""], ["---", "--:", "--:", "--:", "---"]]
    for name, one in found.items():
        law = LAWS[name]
        for series, slope in one.exponents().items():
            costs = one.costs[series]
            cost = f"{_seconds(costs[0])} to {_seconds(costs[-1])}"
            verdict = "holds" if slope <= LIMIT else f"**over {LIMIT}**"
            size = f"{one.sizes[0]:,} to {one.sizes[-1]:,} {law.unit}"
            lines.append([f"{law.title}, {series}", size, cost, f"{slope:.2f}", verdict])
    pictures = [f"![{LAWS[name].title}](media/scaling-{name}.svg)" for name in found]
    rates = [["pieces", "written", "in", "at most"], ["--:"] * 4]
    for rate in (Rate(**one) for one in result.get("rates", [])):
        rates.append([f"{rate.pieces:,}", f"{rate.megabytes:.1f} MB", f"{rate.seconds:.2f} s", f"{rate.bound:.1f} MB"])
    return "\n\n".join([markdown(lines), *pictures, markdown(rates)])


def _seconds(value: float) -> str:
    return f"{rounded(value)} s" if value >= 1 else f"{rounded(value * 1e3)} ms"


PARTS: dict[str, Callable[[Told], str]] = {
    "machine": machine,
    "beside": beside,
    "slower": slower,
    "promises": promises,
    "goals": goals,
    "laws": laws,
}


def _cell(job: Told, version: str, measure: str, ours: float) -> str:
    value = job["values"].get(version, {}).get(measure)
    if value is None:
        return job["failed"].get(version, "").split(":")[0] or NOTHING
    ratio = f" ({_times(value / ours)})" if ours else ""
    return _amount(value, job["units"][measure]) + ratio


def _times(ratio: float) -> str:
    return f"{ratio:.0f}{TIMES}" if ratio >= 10 else f"{ratio:.2g}{TIMES}"


def _amount(value: float, unit: str) -> str:
    if unit.endswith("ms") and value >= 10_000:
        value, unit = value / 1e3, "s"
    return f"{rounded(value)} {UNITS.get(unit, unit)}".rstrip()


def markdown(lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, result: Told) -> str:
    for name, part in PARTS.items():
        if name != "laws" or "laws" in result:  # they take long, so the page keeps those of an earlier run
            page = put(page, name, part(result))
    return page


def joined(results: Sequence[Told]) -> Told:
    """Results of several runs as one."""
    whole = {name: value for result in results for name, value in result.items()}
    return {**whole, "jobs": {name: job for result in results for name, job in result["jobs"].items()}}


def put(page: str, name: str, text: str) -> str:
    """The page with this text in the place of that name."""
    place = re.compile(rf"(?<=<!-- begin {name} -->\n).*?(?=<!-- end {name} -->\n)", re.DOTALL)
    page, count = place.subn(lambda _: f"{text}\n", page)
    if count != 1:
        raise SystemExit(f"The page has {count} places for {name}, and not one")
    return page


def picture(result: Told) -> str:
    others = peers(result)
    rows = []
    for row, job in shown(result):
        ours = job["values"][TAU][row.measure]
        found = {
            version: job["values"].get(version, {}).get(measure) for version in others for measure in [row.measure]
        }
        ratios = {version: value / ours for version, value in found.items() if value and ours}
        if row.drawn and ratios:
            rows.append(Row(row.words.replace("`", ""), ratios))
    return dots("How many times what tau needs; further to the right is better for tau", rows, others)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("python -m benchmarks.page RESULT.json [RESULT.json ...]")
    result = joined([json.loads(Path(name).read_text()) for name in sys.argv[1:]])
    PAGE.write_text(filled(PAGE.read_text(), result))
    PICTURE.write_text(picture(result))
    draw([Found(name, one["sizes"], one["costs"]) for name, one in result.get("laws", {}).items()])


if __name__ == "__main__":
    main()
