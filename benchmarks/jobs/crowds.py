"""Many agents on one machine: a process for each, or all in one process."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median

from benchmarks import many_sessions
from benchmarks.job import ALONE, Job, Place, Target, Values
from benchmarks.jobs.commands import GET_STATE, PROMPT
from benchmarks.measure import Program
from benchmarks.peers import Contender, work

PIECES = 100
ASKED = 9  # times, each session
RESTING = 2.0  # seconds
PROMPT_ALL = b'{"id":"q","type":"prompt"}\n'
GET_STATE_OF = b'{"id":"q","type":"get_state","session":%d}\n'


def processes(count: int, place: Place, contender: Contender) -> Values:
    with ExitStack() as all_of_them:
        started = []
        for _ in range(count):
            home, url = all_of_them.enter_context(place.home()), place.mock.url(f"text-{PIECES}")
            started.append(all_of_them.enter_context(contender.start(home, url, "--no-session")))
        first = started[0]
        for one in started:
            one.ask(GET_STATE)
        found = {"all answer": first.elapsed * 1e3}
        for one in started:
            one.rest(0.1)
        found["CPU, start of each"] = sum(one.cpu() for one in started) / count * 1e3
        found["memory of each"] = sum(one.pss() for one in started) / count
        before, cpu = first.elapsed, sum(one.cpu() for one in started)
        for _ in range(2):  # the second answer of this stream is the long one
            for one in started:
                one.say(PROMPT)
            for one in started:
                one.answered()
        found["prompts"] = (first.elapsed - before) * 1e3
        found["CPU, prompts of each"] = (sum(one.cpu() for one in started) - cpu) / count * 1e3
        return found


def sessions(count: int, place: Place, contender: Contender) -> Values:
    """Through the library: all are opened, rest, are asked one thing each, rest again, and are looked at one by one."""
    with place.home() as home:
        contender.prepare(home, place.mock.url("one"))
        argv = [sys.executable, many_sessions.__file__, str(count), str(work(home)), str(home / "agent")]
        with Program(argv, work(home), contender.environment(home), 600) as program:
            program.ask(GET_STATE)
            found = {"open, each": program.elapsed / count * 1e3, "CPU, open, each": program.cpu() / count * 1e3}
            program.rest()
            found["memory"] = program.pss()
            cpu = program.cpu()
            program.ask(PROMPT_ALL)
            found["CPU, prompt, each"] = (program.cpu() - cpu) / count * 1e3
            program.rest()
            found["memory, after a prompt"] = program.pss()
            found["open files"] = program.open_files()
            trips = _trips(program, count)
            cpu = program.cpu()
            time.sleep(RESTING)
            found["CPU, a second of rest"] = (program.cpu() - cpu) / RESTING * 1e3
    every = sorted(one for many in trips.values() for one in many)
    return {
        **found,
        "get_state, median": median(every),
        "get_state, 99 of 100": every[len(every) * 99 // 100],
        "get_state, worst session": max(map(median, trips.values())),
    }


def _trips(program: Program, count: int) -> dict[int, list[float]]:
    """Milliseconds of get_state by session, asked in no order."""
    chance, trips = random.Random(count), {number: list[float]() for number in range(count)}
    for _ in range(ASKED):
        for number in chance.sample(range(count), count):
            trips[number].append(program.ask(GET_STATE_OF % number) * 1e3)
    return trips


UNITS = {
    "all answer": "ms",
    "CPU, start of each": "CPU ms",
    "memory of each": "MB",
    "prompts": "ms",
    "CPU, prompts of each": "CPU ms",
}
IN_ONE = {
    "open, each": "ms",
    "CPU, open, each": "CPU ms",
    "CPU, prompt, each": "CPU ms",
    "CPU, a second of rest": "CPU ms",
    "memory": "MB",
    "memory, after a prompt": "MB",
    "open files": "",
    "get_state, median": "ms",
    "get_state, 99 of 100": "ms",
    "get_state, worst session": "ms",
}
PROMISED = [
    Target("memory", 1_000, ALONE, "9"),
    Target("memory, after a prompt", 1_000, ALONE, "9"),
    Target("get_state, worst session", 5, ALONE, "9"),
]


def _processes(count: int) -> Callable[[Place, Contender], Values]:
    return partial(processes, count)


def _no_peer(version: str) -> bool:
    return False


JOBS = [
    Job("processes-8", f"8 processes: start, rest, two prompts ({PIECES} pieces)", _processes(8), UNITS),
    Job("processes-64", "64 processes, the same", _processes(64), UNITS, rounds=1, slow=True),
    Job("sessions-100", "100 idle sessions in one process", partial(sessions, 100), IN_ONE, takes=_no_peer),
    Job(
        "sessions-1000",
        "1,000 idle sessions in one process",
        partial(sessions, 1_000),
        IN_ONE,
        PROMISED,
        takes=_no_peer,
        rounds=1,
    ),
]
