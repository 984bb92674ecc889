"""Starting and resting: what every client pays before anything has happened."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.job import Job, Place, Target, Values
from benchmarks.jobs.commands import GET_STATE, PROMPT
from benchmarks.measure import Failed, Program
from benchmarks.peers import Contender

FLOORS = Path(__file__).parents[1] / "floors"


def to_state(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
        program.ask(GET_STATE)
        return {"start": program.elapsed * 1e3, "CPU": program.cpu() * 1e3}


def rpc_floor(place: Place) -> Values:
    with place.home() as home:
        return _floor([sys.executable, str(FLOORS / "rpc_start.py")], home)


def _floor(argv: Sequence[str], home: Path) -> Values:
    """From the start of such a program to its response."""
    with Program(argv, home, {"PATH": os.environ["PATH"]}) as program:
        program.ask(GET_STATE)
        return {"start": program.elapsed * 1e3, "CPU": program.cpu() * 1e3}


def to_text(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
        program.say(PROMPT)
        program.until_bytes(b'"text_delta"')
        return {"first text": program.elapsed * 1e3, "CPU": program.cpu() * 1e3}


def resting(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
        program.ask(GET_STATE)
        program.rest()
        return {"idle memory": program.pss()}


def help_page(place: Place, contender: Contender) -> Values:
    with place.home() as home:
        contender.prepare(home, "http://127.0.0.1:9")
        return _to_the_end([*contender.argv, "--help"], contender.environment(home))


def python(code: str) -> Callable[[Place], Values]:
    def floor(place: Place) -> Values:
        # Nothing of the caller's environment, as it is for those who are measured.
        return _to_the_end([sys.executable, "-c", code], {"PATH": os.environ["PATH"]})

    return floor


def _to_the_end(argv: Sequence[str], env: dict[str, str]) -> Values:
    before = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    taken = time.perf_counter() - before
    if process.returncode:
        raise Failed(f"exit code {process.returncode}")
    return {"start": taken * 1e3, "CPU": (used.ru_utime + used.ru_stime) * 1e3}


JOBS = [
    Job(
        "start",
        "from the start of the process to the response of get_state",
        to_state,
        {"start": "ms", "CPU": "CPU ms"},
        [
            Target("start", 0.30, "0.87.1", "20"),
            Target("start", 0.12, "0.73.1", "9"),
            Target("start", 1.8, "import asyncio", "9"),
        ],
        floors={
            "python": python("pass"),
            "import asyncio": python("import asyncio"),
            "asyncio, msgspec, a response": rpc_floor,
        },
        warm=True,
    ),
    Job(
        "first-text",
        "from the start of the process, with a prompt already waiting, to the first piece of text",
        to_text,
        {"first text": "ms", "CPU": "CPU ms"},
        [Target("first text", 0.33, "0.87.1", "20")],
        warm=True,
    ),
    Job(
        "idle",
        "memory of the whole process tree once it rests after get_state (PSS)",
        resting,
        {"idle memory": "MB"},
        [Target("idle memory", 0.33, "0.87.1", "9")],
    ),
    Job(
        "help",
        "pi --help, from start to exit",
        help_page,
        {"start": "ms", "CPU": "CPU ms"},
        [Target("start", 1.5, "import argparse, json", "1")],
        floors={"import argparse, json": python("import argparse, json")},
        warm=True,
    ),
]
