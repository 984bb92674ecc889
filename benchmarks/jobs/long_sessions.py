"""Long sessions: opening, asking for all messages, the next prompt, a fork, and the memory that all of it takes.

The whole session is context, so the next prompt sends all of it to the model. Fork points and statistics are asked
for right after opening, and again: statistics when the program is idle, fork points after the prompt.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from benchmarks import sessions
from benchmarks.job import ALONE, BEST, Job, Place, Target, Values
from benchmarks.jobs.commands import FORK, GET_FORKS, GET_MESSAGES, GET_STATE, GET_STATS, PROMPT
from benchmarks.measure import MB, Failed, Program
from benchmarks.peers import Contender


def small(place: Place, contender: Contender) -> Values:
    return through(place, contender, 40_000, 300)


def large(place: Place, contender: Contender) -> Values:
    return through(place, contender, 400_000, 600)


def through(place: Place, contender: Contender, entries: int, deadline: float) -> Values:
    with place.home() as home:
        original, last = made(place, entries)
        copy = home / "session.jsonl"  # it is written to, so everyone gets a fresh one
        shutil.copyfile(original, copy)
        size = copy.stat().st_size / MB
        url, found = place.mock.url("one"), Values()
        with contender.start(home, url, "--session", str(copy), deadline=deadline) as program:
            try:
                work_through(program, last, found)
            except Failed as why:
                raise Failed(str(why), found) from None
        return {**found, "memory, open / file": found["memory, open"] / size}


def work_through(program: Program, last: str, found: Values) -> None:
    program.ask(GET_STATE)
    found |= {"open": program.elapsed * 1e3, "CPU, open": program.cpu() * 1e3, "memory, open": program.peak()}
    found["get_fork_messages"] = program.ask(GET_FORKS) * 1e3
    found["get_session_stats, at once"] = program.ask(GET_STATS) * 1e3
    program.rest()
    found["get_session_stats"] = program.ask(GET_STATS) * 1e3
    cpu = program.cpu()
    found["get_messages"] = program.ask(GET_MESSAGES) * 1e3
    found["CPU, get_messages"] = (program.cpu() - cpu) * 1e3
    before, cpu = program.elapsed, program.cpu()
    program.say(PROMPT)
    program.answered()
    found["next prompt"] = (program.elapsed - before) * 1e3
    found["CPU, next prompt"] = (program.cpu() - cpu) * 1e3
    found["get_fork_messages, later"] = program.ask(GET_FORKS) * 1e3
    cpu = program.cpu()
    found["fork"] = program.ask(FORK % last.encode()) * 1e3
    found["CPU, fork"] = (program.cpu() - cpu) * 1e3
    found["peak memory"] = program.peak()


LINES = """\
import sys
lines = open(sys.argv[1], "rb").read().split(b"\\n")[2:-1]
for _ in sys.stdin.buffer:
    sys.stdout.buffer.write(b'{"id":"q","type":"response","success":true,"data":[' + b",".join(lines) + b"]}\\n")
    sys.stdout.buffer.flush()
"""


def lines_as_they_are(place: Place) -> Values:
    """The least for `get_messages`: the lines of the file, which are in memory already, in one array."""
    with place.home() as home:
        file, _ = made(place, 40_000)
        with Program([sys.executable, "-c", LINES, str(file)], home, {}) as program:
            time.sleep(1)  # until it has read the file
            return {"get_messages": program.ask(GET_MESSAGES) * 1e3}


def made(place: Place, entries: int) -> tuple[Path, str]:
    """A session file, and the entry to fork from. Its working folder exists, or real pi would ask what to do."""
    file, last = place.shared(f"session-{entries}.jsonl"), place.shared(f"session-{entries}.last")
    if not last.exists():
        last.write_text(sessions.make(file, place.folder, entries))
    return file, last.read_text()


UNITS = {
    "open": "ms",
    "CPU, open": "CPU ms",
    "get_messages": "ms",
    "CPU, get_messages": "CPU ms",
    "next prompt": "ms",
    "CPU, next prompt": "CPU ms",
    "get_fork_messages": "ms",
    "get_fork_messages, later": "ms",
    "get_session_stats": "ms",
    "get_session_stats, at once": "ms",
    "fork": "ms",
    "CPU, fork": "CPU ms",
    "memory, open": "MB",
    "peak memory": "MB",
    "memory, open / file": "",
}

JOBS = [
    Job(
        "session",
        "a session of 59 MB and 40,000 entries",
        small,
        UNITS,
        [
            Target("open", 0.25, BEST, "4, 9"),
            Target("get_messages", 0.5, BEST, "4, 9"),
            Target("next prompt", 0.5, BEST, "4, 9"),
            Target("peak memory", 0.4, BEST, "4, 9"),
        ],
        floors={"lines as they are": lines_as_they_are},
    ),
    Job(
        "session-large",
        "a session of 590 MB and 400,000 entries",
        large,
        UNITS,
        [Target("memory, open / file", 1.5, ALONE, "9")],
        rounds=1,
        slow=True,
    ),
]
