"""Has tau become slower? `make bench-gate`; `--keep` makes what is counted now the result to compare with.

Instructions are counted, not seconds: under valgrind the same work has the same
count to a few thousandths, however busy the machine is, and the processor it
pretends to be is the same everywhere. Each count is then divided by that of a
floor, a small piece of plain Python that does the least of the same kind, so
that a different build of Python moves both. More than 20 % over what is in
benchmarks/baseline.json fails. A new minor version of Python moves the two by
different amounts, so every one has a result of its own.

`--allowed 2` is for a change that must cost nothing: 2 % of instructions and 3 %
of memory, and the median of five rounds is judged.

Without valgrind the processor time of a few rounds stands in: a weaker judge,
with results and a tolerance of its own, and it says so.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks import answerer, sessions
from benchmarks.job import TAU, Job, Place, Result, yardstick
from benchmarks.jobs.commands import GET_FORKS, GET_MESSAGES, GET_STATE, GET_STATS, PROMPT
from benchmarks.jobs.terminal import DRAWN, opened, typed
from benchmarks.measure import Program, is_response
from benchmarks.mock import Mock
from benchmarks.peers import TOOLS, Contender, tau, work
from benchmarks.results import compared, keep, relative
from benchmarks.stepped import Stepped
from benchmarks.streams import answers
from benchmarks.table import aligned
from benchmarks.terminal import TerminalProgram

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "benchmarks" / "baseline.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DEADLINE = 600.0
QUIET = 1.5  # seconds: a machine may stand still for one of them, and what waits then is not at rest
FORKS_ASKED = 10  # times in one process: once costs so little that the differences between two runs would hide it
MANY_FORKS = GET_FORKS * FORKS_ASKED
ASKED = (GET_STATE, GET_STATS, MANY_FORKS, GET_MESSAGES)  # of a session
FLOORS = {
    "nothing": "import json",
    "import asyncio": "import asyncio",
    "idle": "import asyncio, sys; print(flush=True); sys.stdin.read()",
    "events": """\
import json, sys
for line in open(sys.argv[1], "rb"):
    if line.startswith(b"data: "):
        json.dumps(json.loads(line[6:]))
""",
    "entries": """\
import json, sys
for line in open(sys.argv[1], "rb"):
    json.loads(line)
""",
}


@dataclass(frozen=True)
class Sizes:
    """How much of each is done: enough that the start of a process does not hide it."""

    pieces: int
    alone: int
    trips: int
    turns: int
    entries: int
    of_floor: int
    keys: int
    shown: int  # pieces on a screen


@dataclass(frozen=True)
class Ruler:
    """How a process is measured: what it is started by, how often, and how much worse is too much."""

    name: str
    before: Callable[[Path], list[str]]  # a file for what is found -> the words before the command line
    read: Callable[[Path, float], float]  # that file, and the processor seconds -> the number
    sizes: Sizes
    rounds: int
    at_once: int  # processes under measure
    allowed: float  # percent
    unit: str
    allowed_memory: float | None = None  # percent, if not the same
    typical: Callable[[Sequence[float]], float] = min  # of the rounds

    def strict(self, allowed: float) -> Ruler:
        return replace(self, allowed=allowed, allowed_memory=allowed * 1.5, rounds=5, typical=median)


def _valgrind(log: Path) -> list[str]:
    # Of the tools of valgrind that count, this one is the fastest.
    how = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={log}"]
    how += ["--child-silent-after-fork=yes"]  # or the processes that run commands would write to the log too
    return ["valgrind", *how]


def _instructions(log: Path, cpu: float) -> float:
    found = re.search(r"I\s+refs:\s+([\d,]+)", log.read_text())
    if found is None:
        sys.exit(f"valgrind did not tell how many instructions there were:\n{log.read_text()}")
    return float(found[1].replace(",", ""))


RULERS = {
    "instructions": Ruler(
        "instructions",
        _valgrind,
        _instructions,
        Sizes(pieces=5_000, alone=200, trips=1_000, turns=50, entries=20_000, of_floor=2_000, keys=100, shown=60),
        rounds=1,
        at_once=os.cpu_count() or 1,
        allowed=20,
        unit="thousand instructions",
    ),
    "processor time": Ruler(
        "processor time",
        lambda log: [],
        lambda log, cpu: cpu * 1e9,
        Sizes(pieces=40_000, alone=1_000, trips=5_000, turns=100, entries=40_000, of_floor=20_000, keys=200, shown=100),
        rounds=7,
        at_once=1,
        allowed=50,
        unit="CPU us",
    ),
}


class Bench:
    """Starts things and says what they took."""

    def __init__(self, place: Place, ruler: Ruler) -> None:
        self._place, self._ruler = place, ruler
        self._sizes = ruler.sizes
        self.events, self.entries, self.fewer = map(place.shared, ("events", "session.jsonl", "fewer.jsonl"))
        self.events.write_bytes(answers(f"text-{ruler.sizes.of_floor}")[1][0])
        sessions.make(self.entries, place.folder, ruler.sizes.entries)
        sessions.make(self.fewer, place.folder, ruler.sizes.of_floor)
        self.mcp_servers = place.shared("mcp.json")
        entries = {f"server-{at}": {"command": "mcp-server", "args": [str(at)]} for at in range(10)}
        self.mcp_servers.write_text(json.dumps({"mcpServers": entries}))
        # A process locks its session, and several are measured at once.
        self._copies = {ask: self._copy(f"session-{at}") for at, ask in enumerate(ASKED)}

    def _copy(self, name: str) -> Path:
        return Path(shutil.copyfile(self.entries, self._place.shared(f"{name}.jsonl")))

    def compile(self) -> None:
        """Before anything is counted: what is loaded, Python's own modules too, or the first to load it would pay."""
        compileall.compile_dir(ROOT / "src", quiet=1)
        plain = Bench(self._place, replace(self._ruler, before=lambda log: [], read=lambda log, cpu: cpu))
        plain.prompts("one")
        plain.session(GET_STATS)
        plain.export()

    def jobs(self) -> dict[str, Callable[[], float]]:
        """Each once: the number of a whole process."""
        return {
            "start": self.start,
            "start with MCP": lambda: self.start("--no-session", "--mcp-config", str(self.mcp_servers)),
            "two prompts": lambda: self.prompts("text-1"),
            "many pieces": lambda: self.prompts(f"text-{self._sizes.pieces}"),
            "pieces alone": self.alone,
            "trips": lambda: self.trips(self._sizes.trips),
            "no trips": lambda: self.trips(0),
            "bash turns": self.bash_turns,
            "session": self.session,
            "session stats": lambda: self.session(GET_STATS),
            "fork points": lambda: self.session(MANY_FORKS),
            "messages": lambda: self.session(GET_MESSAGES),
            "export": self.export,
            "terminal": lambda: self.at_terminal(self._place.mock.url("one")),
            "keys": lambda: self.at_terminal(
                self._place.mock.url("one"), lambda screen: typed(screen, self._sizes.keys)
            ),
            "first shown piece": lambda: self.shown(1),
            "shown pieces": lambda: self.shown(1 + self._sizes.shown),
            "memory": self.memory,
            "idle memory": self.idle_memory,
            "answers": lambda: self.answers(self._sizes.trips),
            "no answers": lambda: self.answers(0),
            "nothing": lambda: self.python(FLOORS["nothing"]),
            "import asyncio": lambda: self.python(FLOORS["import asyncio"]),
            "events": lambda: self.python(FLOORS["events"], self.events),
            "entries": lambda: self.python(FLOORS["entries"], self.fewer),
        }

    def start(self, *flags: str, ask: bytes = GET_STATE) -> float:
        return self._tau(self._place.mock.url("one"), _one_question(ask), *(flags or ("--no-session",)))

    def session(self, ask: bytes = GET_STATE) -> float:
        return self.start("--session", str(self._copies[ask]), ask=ask)

    def export(self) -> float:
        with self._place.home() as home:
            log = home / "log"
            work(home).mkdir()
            argv = [*self._ruler.before(log), *tau().argv, "--export", str(self.fewer), str(home / "page.html")]
            env = {**tau().environment(home), "PYTHONHASHSEED": "0"}
            with _one_processor(), Program(argv, work(home), env, DEADLINE) as program:
                cpu = program.end()
            return self._ruler.read(log, cpu)

    def prompts(self, stream: str) -> float:
        return self._tau(self._place.mock.url(stream), _rested(_two_prompts), "--no-session")

    def alone(self) -> float:
        with Stepped(self._sizes.alone) as model:
            return self._tau(model.url, _rested(model.two_prompts), "--no-session")

    def at_terminal(self, url: str, talk: Callable[[TerminalProgram], object] = lambda screen: None) -> float:
        """As over SSH: there the clock draws once a second, so it draws hardly anything here, however slow this is."""
        with self._place.home() as home:
            log = home / "log"
            variables = {"PYTHONHASHSEED": "0", "SSH_CONNECTION": "127.0.0.1 1 127.0.0.1 22"}
            measured = Contender(TAU, [*self._ruler.before(log), *tau().argv], variables)
            with opened(measured, home, url, DEADLINE) as program:
                program.until(DRAWN)
                program.until_idle(QUIET)
                talk(program)
                program.until_idle(QUIET)
                cpu = program.leave()
            return self._ruler.read(log, cpu)

    def shown(self, pieces: int) -> float:
        with Stepped(pieces, "numbered") as model:
            return self.at_terminal(model.url, model.on_screen)

    def memory(self) -> float:
        """Bytes of an agent at rest that it shares with no process. Not under valgrind, which needs memory itself."""
        with (
            self._place.home() as home,
            tau().start(home, self._place.mock.url("one"), "--no-session", *TOOLS, deadline=DEADLINE) as program,
        ):
            program.ask(GET_STATE)
            program.rest(QUIET)
            return program.own_memory()

    def idle_memory(self) -> float:
        """The floor of `memory`."""
        with self._place.home() as home:
            argv = [sys.executable, "-c", FLOORS["idle"]]
            with Program(argv, home, tau().environment(home), DEADLINE) as program:
                program.until(lambda line: True)
                return program.own_memory()

    def trips(self, count: int) -> float:
        return self._tau(self._place.mock.url("one"), _rested(lambda program: _ask(program, count)), "--no-session")

    def bash_turns(self) -> float:
        """The instructions of tau itself, not of the processes that run the commands."""
        return self._tau(self._place.mock.url(f"bash-{self._sizes.turns}"), _rested(_two_prompts), "--no-session")

    def answers(self, count: int) -> float:
        """The floor of `trips`."""
        with self._place.home() as home:
            log = home / "log"
            argv = [*self._ruler.before(log), sys.executable, answerer.__file__]
            env = {**tau().environment(home), "PYTHONHASHSEED": "0"}
            with Program(argv, home, env, DEADLINE) as program:
                _ask(program, count)
                cpu = program.end()
            return self._ruler.read(log, cpu)

    def _tau(self, url: str, talk: Callable[[Program], object], *flags: str) -> float:
        with self._place.home() as home:
            log = home / "log"
            measured = Contender(TAU, [*self._ruler.before(log), *tau().argv], {"PYTHONHASHSEED": "0"})
            with measured.start(home, url, *flags, *TOOLS, deadline=DEADLINE) as program:
                talk(program)
                cpu = program.end()
            return self._ruler.read(log, cpu)

    def python(self, code: str, *given: str | Path) -> float:
        with self._place.home() as home:
            log = home / "log"
            work(home).mkdir()
            argv = [*self._ruler.before(log), sys.executable, "-c", code, *map(str, given)]
            env = {**tau().environment(home), "PYTHONHASHSEED": "0"}
            with Program(argv, work(home), env, DEADLINE) as program:
                cpu = program.end()
                program.succeeded()
            return self._ruler.read(log, cpu)


@contextmanager
def _one_processor() -> Iterator[None]:
    """For what this thread starts: with two, half of an export would be done by a process that is not counted."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


# Background work that starts after idle time must run always or never; otherwise counts differ between runs.


def _one_question(ask: bytes) -> Callable[[Program], None]:
    def one_question(program: Program) -> None:
        """With the end of input right behind it: never."""
        program.say(ask)
        program.close()
        program.until(is_response)

    return one_question


def _rested(talk: Callable[[Program], object]) -> Callable[[Program], None]:
    def rested(program: Program) -> None:
        """Always."""
        program.ask(GET_STATE)
        program.rest(QUIET)
        talk(program)
        program.rest(QUIET)

    return rested


def _ask(program: Program, count: int) -> None:
    for _ in range(count):
        program.ask(GET_STATE)


def _two_prompts(program: Program) -> None:
    for _ in range(2):
        program.say(PROMPT)
        program.answered()


@dataclass(frozen=True)
class Measure:
    """Of one unit of work: what tau needs for it, and what its floor does."""

    about: str
    floor: str
    ours: float
    least: float


def measures(took: Mapping[str, float], sizes: Sizes) -> dict[str, Measure]:
    asyncio = took["import asyncio"]
    event = (took["events"] - took["nothing"]) / sizes.of_floor
    entry = (took["entries"] - took["nothing"]) / sizes.of_floor
    rest = took["two prompts"]
    return {
        "start": Measure("start, get_state, end", "import asyncio", took["start"], asyncio),
        "mcp start": Measure("start with ten MCP servers", "start without", took["start with MCP"], took["start"]),
        "prompts": Measure("two prompts after it", "import asyncio", rest - took["start"], asyncio),
        "piece": Measure(
            "a piece of text among many",
            "its JSON, read and written",
            (took["many pieces"] - rest) / sizes.pieces,
            event,
        ),
        "piece alone": Measure(
            "one that comes alone", "its JSON, read and written", (took["pieces alone"] - rest) / sizes.alone, event
        ),
        "trip": Measure(
            "get_state, one by one",
            "the same by a callback of asyncio",
            (took["trips"] - took["no trips"]) / sizes.trips,
            (took["answers"] - took["no answers"]) / sizes.trips,
        ),
        "bash turn": Measure(
            "a turn with a bash call",
            "the JSON of an event, read and written",
            (took["bash turns"] - rest) / sizes.turns,
            event,
        ),
        "entry": Measure(
            "opening a session, per entry", "its JSON, read", (took["session"] - took["start"]) / sizes.entries, entry
        ),
        "stats": Measure(
            "get_session_stats after it, per entry",
            "its JSON, read",
            (took["session stats"] - took["session"]) / sizes.entries,
            entry,
        ),
        "forks": Measure(
            "get_fork_messages after it, per entry",
            "its JSON, read",
            (took["fork points"] - took["session"]) / sizes.entries / FORKS_ASKED,
            entry,
        ),
        "messages": Measure(
            "get_messages after it, per entry",
            "its JSON, read",
            (took["messages"] - took["session"]) / sizes.entries,
            entry,
        ),
        "memory": Measure("an agent at rest, kB of memory", "import asyncio", took["memory"], took["idle memory"]),
        "terminal start": Measure("start at a terminal, first frame, end", "import asyncio", took["terminal"], asyncio),
        "terminal key": Measure(
            "a key at the terminal",
            "the JSON of an event, read and written",
            (took["keys"] - took["terminal"]) / sizes.keys,
            event,
        ),
        "terminal piece": Measure(
            "a piece of text on the screen",
            "its JSON, read and written",
            (took["shown pieces"] - took["first shown piece"]) / sizes.shown,
            event,
        ),
        "export": Measure(
            "HTML export, per entry",
            "its JSON, read",
            (took["export"] - took["import asyncio"]) / sizes.of_floor,
            entry,
        ),
    }


def measured(ruler: Ruler) -> dict[str, Measure]:
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder, Mock() as mock:
        bench = Bench(Place(mock, Path(folder)), ruler)
        bench.compile()
        jobs = bench.jobs()
        took: dict[str, list[float]] = {name: [] for name in jobs}
        with ThreadPoolExecutor(ruler.at_once) as pool:
            for _ in range(ruler.rounds):
                found = {name: pool.submit(job) for name, job in jobs.items()}
                for name, one in found.items():
                    took[name].append(one.result())
    return measures({name: ruler.typical(rounds) for name, rounds in took.items()}, ruler.sizes)


def as_result(ruler: Ruler, found: Mapping[str, Measure]) -> Result:
    """In the form in which results are kept and compared."""
    ratios = {name: one.ours / one.least for name, one in found.items()}
    job = Job(f"{ruler.name}, Python {PYTHON}", "", lambda place, contender: {}, dict.fromkeys(found, ""))
    return Result(job, {TAU: ratios}, {}, yardstick())


def worse(file: Path, ruler: Ruler, found: Mapping[str, Measure]) -> list[str]:
    """What needs more than is allowed, beside the result in `file`."""
    allowed = {**dict.fromkeys(found, ruler.allowed), "memory": ruler.allowed_memory or ruler.allowed}
    return [
        name
        for name, one in found.items()
        if compared(file, [as_result(ruler, {name: one})], 1 + allowed[name] / 100)[1]
    ]


def table(ruler: Ruler, found: Mapping[str, Measure], before: Mapping[str, float]) -> str:
    lines = [["", ruler.unit, "floor", "ratio", "then", "change", ""]]
    for name, one in found.items():
        ratio, then = one.ours / one.least, before.get(name)
        change = ["-", "-"] if then is None else [f"{then:.3g}", f"{(ratio / then - 1) * 100:+.1f} %"]
        lines.append(
            [one.about, f"{one.ours / 1e3:,.1f}", f"{one.least / 1e3:,.1f}", f"{ratio:.3g}", *change, one.floor]
        )
    return aligned(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description="Has tau become slower?")
    parser.add_argument("--keep", action="store_true", help="make this the result to compare with")
    parser.add_argument("--file", type=Path, default=BASELINE, help="where that is (%(default)s)")
    parser.add_argument("--by", choices=list(RULERS), help="what is measured; instructions, if valgrind is here")
    parser.add_argument(
        "--allowed",
        type=float,
        metavar="PERCENT",
        help="how much more instructions are allowed, and memory half as much again; judges the median of five rounds",
    )
    given = parser.parse_args()
    by = given.by or ("instructions" if shutil.which("valgrind") else "processor time")
    if given.by is None and by != "instructions":
        print("There is no valgrind here to count instructions with: ratios of processor time are a weaker judge")
    ruler = RULERS[by] if given.allowed is None else RULERS[by].strict(given.allowed)
    found = measured(ruler)
    result = as_result(ruler, found)
    kept: Mapping[str, Mapping[str, float]] = (
        json.loads(given.file.read_text())["relative"] if given.file.exists() else {}
    )
    print(table(ruler, found, kept.get(result.job.name, {})))
    if given.keep:
        keep(given.file, [result])
        print(f"kept in {given.file}: {relative([result])}")
        return 0
    if result.job.name not in kept:
        print(f"Nothing was kept for {result.job.name}, so nothing is judged: `python -m benchmarks.gate --keep`")
        return 0
    if unknown := found.keys() - kept[result.job.name].keys():
        print(f"Nothing was kept for {', '.join(sorted(unknown))}: `python -m benchmarks.gate --keep`")
        return 1
    if slower := worse(given.file, ruler, found):
        print(
            f"Over {ruler.allowed:g} % more than what was kept is needed by: {', '.join(slower)}. If that is meant,"
            " `make bench-gate ARGS=--keep` belongs in the same change, with the reason."
        )
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
