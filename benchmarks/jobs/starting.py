"""Starting and resting: what every client pays before anything has happened."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.job import Job, Place, Target, Values
from benchmarks.jobs.commands import GET_STATE, PROMPT
from benchmarks.peers import Contender


def to_state(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
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
        return {"start": _seconds([*contender.argv, "--help"], contender.environment(home)) * 1e3}


def python(code: str) -> Callable[[Place], Values]:
    def floor(place: Place) -> Values:
        return {"start": _seconds([sys.executable, "-c", code], None) * 1e3}

    return floor


def _seconds(argv: Sequence[str], env: dict[str, str] | None) -> float:
    before = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - before


JOBS = [
    Job(
        "start",
        "from the start of the process to the response of get_state",
        to_state,
        {"start": "ms", "CPU": "CPU ms"},
        [
            Target("start", 0.45, "0.87.1", "9"),
            Target("start", 0.12, "0.73.1", "9"),
            Target("start", 1.8, "import asyncio", "9"),
        ],
        floors={"python": python("pass"), "import asyncio": python("import asyncio")},
        often=5,
        warm=True,
    ),
    Job(
        "first-text",
        "from the start of the process, with a prompt already waiting, to the first piece of text",
        to_text,
        {"first text": "ms", "CPU": "CPU ms"},
        [Target("first text", 0.5, "0.87.1", "9")],
        often=3,
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
        {"start": "ms"},
        [Target("start", 1.5, "import argparse, json", "1")],
        floors={"import argparse, json": python("import argparse, json")},
        often=5,
        warm=True,
    ),
]
