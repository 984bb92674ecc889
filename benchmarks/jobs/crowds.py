"""Many agents on one machine: a process for each, or all in one process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from benchmarks.job import ALONE, Job, Place, Target, Values
from benchmarks.jobs.commands import GET_STATE, PROMPT
from benchmarks.measure import Failed, is_event
from benchmarks.peers import Contender

PIECES = 100


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
                one.until(is_event("agent_end"))
        found["prompts"] = (first.elapsed - before) * 1e3
        found["CPU, prompts of each"] = (sum(one.cpu() for one in started) - cpu) / count * 1e3
        return found


def sessions(count: int, place: Place, contender: Contender) -> Values:
    """Through the library: `count` sessions opened in one Python process, then get_state on each.

    To be written with the library: a script that opens them, prints a line when all
    rest, and answers get_state for a session by its number; measured as any Program.
    """
    raise Failed("not yet: comes with the library")


UNITS = {
    "all answer": "ms",
    "CPU, start of each": "CPU ms",
    "memory of each": "MB",
    "prompts": "ms",
    "CPU, prompts of each": "CPU ms",
}
IN_ONE = {"memory": "MB", "get_state": "ms"}
PROMISED = [Target("memory", 1_000, ALONE, "9"), Target("get_state", 5, ALONE, "9")]


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
