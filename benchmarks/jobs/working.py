"""Running commands, and answering small questions."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time

from benchmarks import answerer
from benchmarks.job import ALONE, BEST, Job, Place, Target, Values
from benchmarks.jobs.commands import BASH, GET_STATE, PROMPT
from benchmarks.measure import Program
from benchmarks.peers import TOOLS, Contender

TURNS = 200
TRIPS = 2_000
FLOOD = "seq 20000000"  # 169 MB
ANSWERER = """\
import json, sys
state = json.loads(sys.argv[1])
for line in sys.stdin.buffer:
    command = json.loads(line)
    sys.stdout.buffer.write(json.dumps(state, separators=(",", ":")).encode() + b"\\n")
    sys.stdout.buffer.flush()
"""
STATE = json.dumps(
    {"id": "q", "type": "response", "command": "get_state", "success": True, "data": answerer.DATA}
)  # the same response as that of the other floor


def bash_turns(place: Place, contender: Contender) -> Values:
    url = place.mock.url(f"bash-{TURNS}")
    with place.home() as home, contender.start(home, url, *TOOLS) as program:
        program.say(PROMPT)
        program.answered()
        program.rest()
        cpu, wall = program.cpu(), program.elapsed
        program.say(PROMPT)
        program.answered()
        return {
            "CPU per turn": (program.cpu() - cpu) / TURNS * 1e3,
            "wall per turn": (program.elapsed - wall) / TURNS * 1e3,
            "peak memory": program.peak(),
        }


def flood(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
        program.ask(GET_STATE)
        cpu = program.cpu()
        taken = program.ask(BASH % FLOOD.encode())
        return {"wall": taken * 1e3, "CPU": (program.cpu() - cpu) * 1e3, "peak memory": program.peak()}


def flood_read(place: Place) -> Values:
    before = time.perf_counter()
    with subprocess.Popen(["bash", "-c", FLOOD], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while process.stdout.read(1 << 16):
            pass
    return {"wall": (time.perf_counter() - before) * 1e3}


def trips(place: Place, contender: Contender) -> Values:
    with place.home() as home, contender.start(home, place.mock.url("one"), "--no-session") as program:
        return _trips(program)


def trips_plain(place: Place) -> Values:
    with place.home() as home, Program([sys.executable, "-c", ANSWERER, STATE], home, {}) as program:
        return _trips(program)


def trips_asyncio(place: Place) -> Values:
    with place.home() as home, Program([sys.executable, answerer.__file__], home, {}) as program:
        return _trips(program)


def _trips(program: Program) -> Values:
    for _ in range(TRIPS // 10):
        program.ask(GET_STATE)
    cpu = program.cpu()
    one_by_one = statistics.median(program.trip(GET_STATE) for _ in range(TRIPS))
    cpu = (program.cpu() - cpu) / TRIPS
    before = time.perf_counter()
    writer = threading.Thread(target=program.say, args=(GET_STATE * TRIPS,))
    writer.start()
    for _ in range(TRIPS):
        program.head()
    at_once = (time.perf_counter() - before) / TRIPS
    writer.join()
    return {"one by one": one_by_one * 1e6, "CPU, one by one": cpu * 1e6, "all at once": at_once * 1e6}


JOBS = [
    Job(
        "bash-turns",
        f"{TURNS} answers that call bash, one after the other",
        bash_turns,
        {"CPU per turn": "CPU ms", "wall per turn": "ms", "peak memory": "MB"},
        [Target("CPU per turn", 0.5, BEST, "9")],
    ),
    Job(
        "bash-output",
        "the command bash with 169 MB of output",
        flood,
        {"wall": "ms", "CPU": "CPU ms", "peak memory": "MB"},
        [Target("wall", 0.15, BEST, "9"), Target("peak memory", 60, ALONE, "9")],
        floors={"read only": flood_read},
    ),
    Job(
        "get-state",
        f"get_state, {TRIPS:,} times: waiting for each response, and all commands at once",
        trips,
        {"one by one": "us", "CPU, one by one": "CPU us", "all at once": "us"},
        [Target("one by one", 0.8, BEST, "20")],
        floors={"json loop": trips_plain, "asyncio loop": trips_asyncio},
        times=3,  # a trip is mostly waking up, which depends on where the system puts the two processes
    ),
]
