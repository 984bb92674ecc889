"""Scaling laws: what tau costs against how much there is to do, and the exponent of it.

    python -m benchmarks.scaling                        all of them
    python -m benchmarks.scaling pieces --most 100000   one, up to a size

Cost is processor time, so that other programs matter little. A fixed part, such as the start
of the process, is measured with the smallest amount of work and taken off. The exponent is the
slope of a line through the points of the upper two decades, both axes logarithmic: 1 means
twice the cost for twice the work, and more than 1.05 is a mistake to be corrected.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import many_sessions, sessions
from benchmarks.job import Place
from benchmarks.jobs.commands import GET_MESSAGES, GET_STATE, PROMPT
from benchmarks.jobs.crowds import PROMPT_ALL
from benchmarks.jobs.streaming import DELTAS, SNAPSHOTS
from benchmarks.measure import MB, Program
from benchmarks.mock import Mock
from benchmarks.peers import TOOLS, tau, work
from benchmarks.plot import Series, curves
from benchmarks.streams import PIECE
from benchmarks.table import aligned, rounded
from tau.runtime.protocol.backlog import SNAPSHOT_BYTES_PER_S

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "media"
LIMIT = 1.05  # of an exponent
DECADES = 2.0  # at the upper end, through which the line is drawn
ENTRY_BYTES = 1_475
DEADLINE = 1_800.0
MAX_PIECES = 400_000  # of one answer: tau reads 64 MiB of a response
AT_THE_END = 8  # times that the whole message is in the last updates and in the records after them

Costs = dict[str, float]  # processor seconds, by what was done
Measure = Callable[[Place, int], Costs]


@dataclass(frozen=True)
class Law:
    name: str
    title: str
    unit: str  # of the work
    sizes: Sequence[int]
    measure: Measure
    about: str


@dataclass
class Found:
    """The points of one law, and an exponent for each of its series."""

    law: str
    sizes: list[int] = field(default_factory=list)
    costs: dict[str, list[float]] = field(default_factory=dict)

    def add(self, size: int, costs: Costs) -> None:
        self.sizes.append(size)
        for name, cost in costs.items():
            self.costs.setdefault(name, []).append(cost)

    def exponents(self) -> dict[str, float]:
        return {name: exponent(self.sizes, costs) for name, costs in self.costs.items()}


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of log(cost) over log(size), by least squares over the upper decades."""
    least = max(sizes) / 10**DECADES
    points = [(math.log(n), math.log(c)) for n, c in zip(sizes, costs, strict=True) if n >= least and c > 0]
    if len(points) < 2:
        return math.nan
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return float(sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points))


# What is measured. Each returns the cost without that of starting.


def pieces(place: Place, size: int) -> Costs:
    """Pieces at full speed, each update with what is new. Of one answer, or of several: a response has a limit."""
    answers = math.ceil(size / MAX_PIECES)
    return {"CPU": _streamed(place, f"text-{size // answers}", DELTAS, answers)["CPU"]}


def _streamed(place: Place, stream: str, dialect: str, prompts: int = 1) -> dict[str, float]:
    """What the prompts after the first cost: that one has a short answer, which is over when they are sent."""
    with place.home() as home:
        (work(home)).mkdir()
        (work(home) / "note.txt").write_text("a note\n")
        env, url = {"PI_DIALECT": dialect}, place.mock.url(stream)
        with tau().start(home, url, "--no-session", *TOOLS, env=env, deadline=DEADLINE) as program:
            program.say(PROMPT)
            program.answered()
            program.rest()
            cpu, wall, written = program.cpu(), program.elapsed, program.bytes
            for _ in range(prompts):
                program.say(PROMPT)
                program.answered()
            return {
                "CPU": program.cpu() - cpu,
                "wall": program.elapsed - wall,
                "bytes": program.bytes - written,
            }


def session_size(place: Place, size: int) -> Costs:
    """Opening a session of that many megabytes, then all of its messages."""
    file = place.shared("scaled.jsonl")
    sessions.make(file, place.folder, max(8, int(size * MB / ENTRY_BYTES)))
    try:
        with place.home() as home:
            nothing = _opened(place, home, "--no-session")
        with place.home() as home:
            found = _opened(place, home, "--session", str(file))
    finally:
        file.unlink()
    return {"open": max(1e-6, found["open"] - nothing["open"]), "get_messages": found["get_messages"]}


def _opened(place: Place, home: Path, *flags: str) -> Costs:
    with tau().start(home, place.mock.url("one"), *flags, deadline=DEADLINE) as program:
        program.ask(GET_STATE)
        opened = program.cpu()
        program.ask(GET_MESSAGES)
        return {"open": opened, "get_messages": program.cpu() - opened}


def sessions_in_one(place: Place, size: int) -> Costs:
    """That many sessions in one process, through the library: opened, then a prompt for each."""
    least, found = _crowd(place, 1), _crowd(place, size + 1)
    return {name: max(1e-6, found[name] - least[name]) for name in found}


def _crowd(place: Place, count: int) -> Costs:
    with place.home() as home:
        contender = tau()
        contender.prepare(home, place.mock.url("one"))
        argv = [sys.executable, many_sessions.__file__, str(count), str(work(home)), str(home / "agent")]
        with Program(argv, work(home), contender.environment(home), DEADLINE) as program:
            program.ask(GET_STATE)
            opened = program.cpu()
            program.ask(PROMPT_ALL)
            return {"open": opened, "prompt": program.cpu() - opened}


def tools_in_a_turn(place: Place, size: int) -> Costs:
    """That many calls of `read` in one answer."""
    return {"CPU": _streamed(place, f"calls-{size}", DELTAS)["CPU"]}


LAWS = {
    law.name: law
    for law in (
        Law(
            "pieces",
            "Pieces of an answer (dialect 1.5)",
            "pieces",
            (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
            pieces,
            "the CPU time of that many pieces, as fast as they can be sent",
        ),
        Law(
            "session-size",
            "Size of a session",
            "MB",
            (1, 3, 10, 30, 100, 300, 1_000),
            session_size,
            "the CPU time to open a session file, and to send all of its messages",
        ),
        Law(
            "sessions",
            "Sessions in one process",
            "sessions",
            (1, 5, 20, 100, 300, 1_000, 2_500, 5_000),
            sessions_in_one,
            "the CPU time to open that many sessions through the library, and to answer a prompt in each",
        ),
        Law(
            "tools",
            "Tool calls in one turn (dialect 1.5)",
            "calls",
            (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000),
            tools_in_a_turn,
            "the CPU time of an answer with that many calls of `read`, and of their results",
        ),
    )
}


def measured(law: Law, place: Place, most: int | None = None) -> Found:
    found = Found(law.name)
    law.measure(place, law.sizes[0])  # not counted: whatever is loaded for the first time
    for size in law.sizes:
        if most is None or size <= most:
            found.add(size, law.measure(place, size))
            costs = ", ".join(f"{name} {costs[-1]:.3f} s" for name, costs in found.costs.items())
            print(f"  {law.name}: {size:,} {law.unit}: {costs}", file=sys.stderr, flush=True)
    return found


@dataclass(frozen=True)
class Rate:
    """What the default dialect, which repeats the whole message in each update, writes for one answer."""

    pieces: int
    seconds: float
    megabytes: float

    @property
    def bound(self) -> float:
        """Megabytes that may be written: the merge rate, and the records at the end, which have the message too."""
        message = self.pieces * len(PIECE) / MB
        return SNAPSHOT_BYTES_PER_S / MB * self.seconds + AT_THE_END * message


def rates(place: Place, sizes: Sequence[int] = (1_000, 10_000, 100_000)) -> list[Rate]:
    found = []
    for size in sizes:
        one = _streamed(place, f"text-{size}", SNAPSHOTS)
        found.append(Rate(size, one["wall"], one["bytes"] / MB))
    return found


def picture(law: Law, found: Found) -> str:
    series = [
        Series(f"{name}: exponent {found.exponents()[name]:.2f}", list(zip(found.sizes, costs, strict=True)))
        for name, costs in found.costs.items()
    ]
    return curves(law.title, law.unit, "CPU seconds", series)


def told(found: Sequence[Found], merged: Sequence[Rate]) -> dict[str, object]:
    """In the form in which it is written to a result."""
    laws = {one.law: {"sizes": one.sizes, "costs": one.costs, "exponents": one.exponents()} for one in found}
    return {"laws": laws, "rates": [asdict(one) for one in merged]}


def table(found: Sequence[Found]) -> str:
    lines = [["", "work", "", "cost at most", "exponent", ""]]
    for one in found:
        law = LAWS[one.law]
        for name, costs in one.costs.items():
            slope = one.exponents()[name]
            size = f"{one.sizes[0]:,} to {one.sizes[-1]:,} {law.unit}"
            verdict = "holds" if slope <= LIMIT else f"OVER {LIMIT}"
            lines.append([f"{law.name}: {name}", size, "", f"{rounded(max(costs))} s", f"{slope:.3f}", verdict])
    return aligned(lines)


def everything(place: Place, names: Sequence[str], most: int | None = None) -> tuple[list[Found], list[Rate]]:
    found = [measured(LAWS[name], place, most) for name in names]
    merged = rates(place, [size for size in (1_000, 10_000, 100_000) if most is None or size <= most])
    return found, merged


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Cost against work.")
    parser.add_argument("laws", nargs="*", metavar="LAW", help=f"which: {', '.join(LAWS)}")
    parser.add_argument("--most", type=int, metavar="N", help="no more work than that")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found there")
    parser.add_argument("--draw", action="store_true", help="draw the pictures of the page")
    given = parser.parse_args()
    if unknown := [name for name in given.laws if name not in LAWS]:
        sys.exit(f"There is no law {unknown[0]}. There are: {', '.join(LAWS)}")
    with tempfile.TemporaryDirectory(prefix="tau-scaling-") as folder, Mock() as mock:
        found, merged = everything(Place(mock, Path(folder)), given.laws or list(LAWS), given.most)
    print(table(found))
    for one in merged:
        print(
            f"{one.pieces:,} pieces, whole messages: {one.megabytes:.1f} MB of {one.bound:.1f} MB, {one.seconds:.2f} s"
        )
    if given.json:
        given.json.write_text(json.dumps(told(found, merged), indent=2) + "\n")
    if given.draw:
        draw(found)


def draw(found: Sequence[Found]) -> None:
    for one in found:
        (PICTURES / f"scaling-{one.law}.svg").write_text(picture(LAWS[one.law], one))


if __name__ == "__main__":
    main()
