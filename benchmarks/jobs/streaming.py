"""A long answer in many pieces. A short prompt comes before, so that starting is not counted.

Dialect 0.73 repeats the whole message in every update; 1.5 sends what is new
only, as pi 0.87.1 does. The peers speak the one of their time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.job import ALONE, Job, Place, Target, Values
from benchmarks.jobs.commands import PROMPT
from benchmarks.measure import MB, Program
from benchmarks.peers import TOOLS, Contender
from benchmarks.streams import PORTION

FLOOR = Path(__file__).parents[1] / "floors" / "piece.py"
SNAPSHOTS, DELTAS = "0.73", "1.5"
UNITS = {"CPU per piece": "CPU us", "wall": "ms", "peak memory": "MB", "written": "MB", "records": ""}


def streamed(stream: str, pieces: int, dialect: str, deadline: float, place: Place, contender: Contender) -> Values:
    env = {"PI_DIALECT": dialect}
    url = place.mock.url(stream)
    with (
        place.home() as home,
        contender.start(home, url, "--no-session", *TOOLS, env=env, deadline=deadline) as program,
    ):
        return _second_answer(program, pieces)


def _second_answer(program: Program, pieces: int) -> Values:
    program.say(PROMPT)
    program.answered()
    program.rest()
    cpu, wall, lines, written = program.cpu(), program.elapsed, program.lines, program.bytes
    program.say(PROMPT)
    program.answered()
    return {
        "CPU per piece": (program.cpu() - cpu) / pieces * 1e6,
        "wall": (program.elapsed - wall) * 1e3,
        "peak memory": program.peak(),
        "written": (program.bytes - written) / MB,
        "records": program.lines - lines,
    }


def text(pieces: int, dialect: str) -> Callable[[Place, Contender], Values]:
    return partial(streamed, f"text-{pieces}", pieces, dialect, 300.0)


def paced(pieces: int, dialect: str) -> Callable[[Place, Contender], Values]:
    return partial(streamed, f"paced-{pieces}", pieces, dialect, 300.0)


def paced_floor(pieces: int) -> Callable[[Place], Values]:
    def run(place: Place) -> Values:
        argv = [sys.executable, str(FLOOR), f"{place.mock.url(f'paced-{pieces}')}/v1/messages"]
        with place.home() as home, Program(argv, home, {}) as program:
            return _second_answer(program, pieces)

    return run


def arguments(size: int, dialect: str) -> Callable[[Place, Contender], Values]:
    return partial(streamed, f"arguments-{size}", size // PORTION, dialect, 600.0)


def a_megabyte(place: Place, contender: Contender) -> Values:
    short, long = (arguments(size, DELTAS)(place, contender) for size in (200_000, 1_000_000))
    return {**long, "per piece, to 200 kB": long["CPU per piece"] / short["CPU per piece"]}


def speaks_deltas(version: str) -> bool:
    return tuple(map(int, version.split(".")[:2])) >= (0, 80)


def speaks_snapshots(version: str) -> bool:
    return not speaks_deltas(version)


JOBS = [
    Job(
        "text-5k-snapshots",
        "5,000 pieces of text, each update with the whole message (dialect 0.73)",
        text(5_000, SNAPSHOTS),
        UNITS,
        [
            Target("CPU per piece", 0.25, "0.73.1", "9"),
            Target("CPU per piece", 0.3, "0.73.1", "7"),
            Target("peak memory", 80, ALONE, "9"),
            Target("peak memory", 0.15, "0.73.1", "7"),
        ],
        takes=speaks_snapshots,
    ),
    Job(
        "text-5k-deltas",
        "5,000 pieces of text, each update with what is new (dialect 1.5)",
        text(5_000, DELTAS),
        UNITS,
        [Target("CPU per piece", 0.6, "0.87.1", "7, 9")],
        takes=speaks_deltas,
    ),
    Job(
        "text-paced-snapshots",
        "2,000 pieces of text, 1 ms apart, so that few can be joined; with the whole message",
        paced(2_000, SNAPSHOTS),
        UNITS,
        takes=speaks_snapshots,
    ),
    Job(
        "text-paced-deltas",
        "2,000 pieces of text, 1 ms apart, with what is new",
        paced(2_000, DELTAS),
        UNITS,
        floors={"a callback of asyncio": paced_floor(2_000)},
        takes=speaks_deltas,
    ),
    Job(
        "text-20k-snapshots",
        "20,000 pieces of text, each update with the whole message",
        text(20_000, SNAPSHOTS),
        UNITS,
        takes=speaks_snapshots,
        rounds=1,
        slow=True,
    ),
    Job(
        "text-20k-deltas",
        "20,000 pieces of text, each update with what is new",
        text(20_000, DELTAS),
        UNITS,
        takes=speaks_deltas,
        rounds=1,
    ),
    Job(
        "arguments-200k",
        "a call whose arguments have 200 kB, in pieces of 20 bytes, each update with what is new",
        arguments(200_000, DELTAS),
        UNITS,
        [Target("CPU per piece", 0.05, "0.87.1", "9")],
        rounds=1,
        slow=True,
    ),
    Job(
        "arguments-1m",
        "a call whose arguments have 1 MB; a piece costs what it costs at 200 kB",
        a_megabyte,
        {**UNITS, "per piece, to 200 kB": ""},
        [Target("per piece, to 200 kB", 1.2, ALONE, "9"), Target("peak memory", 100, ALONE, "9")],
        takes=lambda version: False,  # minutes, or their end
        rounds=1,
        slow=True,
    ),
]
