"""The benchmarks hang together: nothing is timed here."""

from __future__ import annotations

import json
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import sessions
from benchmarks.gate import RULERS, Measure, Sizes, as_result, measures, worse
from benchmarks.job import ALONE, BEST, TAU, Job, Place, Result, Target, Values, run
from benchmarks.jobs import JOBS, crowds, starting
from benchmarks.measure import Failed
from benchmarks.mock import Mock
from benchmarks.page import PAGE, PARTS, TIMES, beside, filled, joined, picture, slower
from benchmarks.peers import Contender
from benchmarks.peers import tau as tau_here
from benchmarks.results import CLOCK, CPU, compared, keep, relative, told
from benchmarks.stepped import Stepped
from benchmarks.streams import answers
from benchmarks.table import job_table, summary

JOB = Job(
    "sum",
    "a job",
    lambda place, contender: {},
    {"work": "CPU ms", "memory": "MB"},
    [Target("work", 0.5, BEST, "9"), Target("memory", 60, ALONE, "9")],
)
VALUES = {TAU: {"work": 20.0, "memory": 70.0}, "0.1": {"work": 100.0, "memory": 90.0}, "0.2": {"work": 50.0}}
RESULT = Result(JOB, VALUES, {"0.3": "out of memory"}, yardstick=0.01, doubts=["others had 1.0 of 2 processors"])


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_targets_are_about_what_a_job_measures(job: Job) -> None:
    assert {target.measure for target in job.targets} <= set(job.units)
    assert set(job.units.values()) <= {*CPU, *CLOCK, "MB", "bytes", ""}


def test_a_target_is_held_against_the_best_peer_or_by_itself() -> None:
    assert summary([RESULT]).splitlines() == [
        "1 of 2 targets hold",
        "  sum, memory: <= 60 [9]: OVER",
    ]


def test_the_table_shows_ratios_and_who_failed() -> None:
    assert job_table(RESULT).splitlines() == [
        "a job",
        "sum               tau          0.1         0.2  0.3  target",
        "  work    CPU ms   20  100 (0.20x)  50 (0.40x)    -  <= 0.5x the best peer [9]: holds (0.40)",
        "  memory  MB       70   90 (0.78x)           -    -  <= 60 [9]: OVER",
        "  0.3: out of memory",
        "  ! others had 1.0 of 2 processors",
    ]


def test_times_are_compared_in_yardsticks(tmp_path: Path) -> None:
    assert relative([RESULT]) == {"sum": {"work": 2.0, "memory": 70.0}}
    keep(tmp_path / "baseline.json", [RESULT])
    twice_as_slow_a_machine = replace(RESULT, values={TAU: {"work": 40.0, "memory": 70.0}}, yardstick=0.02)
    assert compared(tmp_path / "baseline.json", [twice_as_slow_a_machine], 1.2)[1] is False
    grown = replace(RESULT, values={TAU: {"work": 20.0, "memory": 100.0}})
    text, worse = compared(tmp_path / "baseline.json", [grown], 1.2)
    assert worse and "sum: memory" in text and "1.43x" in text


def test_a_session_has_the_entries_it_was_asked_for_in_one_line(tmp_path: Path) -> None:
    last = sessions.make(tmp_path / "s.jsonl", tmp_path, 1_000)
    _, *entries = map(json.loads, (tmp_path / "s.jsonl").read_text().splitlines())
    assert len(entries) == 1_000
    assert [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]
    prompts = [entry["id"] for entry in entries if entry.get("message", {}).get("role") == "user"]
    assert prompts[-1] == last


def test_a_conversation_gets_its_answers_in_turn() -> None:
    expected = [b"".join(answer).partition(b"\r\n\r\n")[2] for answer in answers("bash-2")]
    with Mock() as mock:
        url = mock.url("bash-2")
        got = [_posted(url) for _ in range(5)]
    done, first, second, _ = (_unchunked(body) for body in expected)
    assert got == [done, first, second, done, done]


def _posted(url: str) -> bytes:
    with urllib.request.urlopen(f"{url}/v1/messages", data=b"{}" * 50_000) as reply:
        return bytes(reply.read())


def _unchunked(body: bytes) -> bytes:
    read = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        if size == b"0":
            return read
        read, body = read + body[: int(size, 16)], body[int(size, 16) + 2 :]


def test_programs_take_turns_and_none_is_always_first(tmp_path: Path) -> None:
    order = []

    def measure(place: Place, contender: Contender) -> Values:
        order.append(contender.name)
        return {"work": len(order)}

    with Mock() as mock:
        job = Job("turns", "", measure, {"work": ""})
        run(job, Place(mock, tmp_path), [Contender(name, []) for name in (TAU, "1.0", "2.0")], 3)
    assert order == [TAU, "1.0", "2.0", "1.0", "2.0", TAU, "2.0", TAU, "1.0"]


def test_rounds_that_differ_are_reported(tmp_path: Path) -> None:
    numbers = iter([10.0, 30.0, 10.0, 50.0])
    with Mock() as mock:
        job = Job("rounds", "", lambda place, contender: {"work": next(numbers)}, {"work": ""})
        result = run(job, Place(mock, tmp_path), [Contender(TAU, [])], 4)
    assert result.doubts[-1] == "the rounds differ: work of tau (10 to 50)"


def test_a_short_job_has_more_rounds(tmp_path: Path) -> None:
    numbers = iter(range(100))
    with Mock() as mock:
        job = Job("short", "", lambda place, contender: {"work": next(numbers)}, {"work": ""}, times=3)
        run(job, Place(mock, tmp_path), [Contender(TAU, [])], 4)
    assert next(numbers) == 12


def test_who_fails_keeps_what_it_had_and_is_not_asked_again(tmp_path: Path) -> None:
    asked = []

    def measure(place: Place, contender: Contender) -> Values:
        asked.append(contender.name)
        raise Failed("died", {"work": 1.0})

    with Mock() as mock:
        result = run(Job("one", "", measure, {"work": ""}), Place(mock, tmp_path), [Contender(TAU, [])], 3)
    assert (asked, result.values, result.failed) == ([TAU], {TAU: {"work": 1.0}}, {TAU: "died"})


def test_sessions_in_one_process_are_opened_asked_and_looked_at(tmp_path: Path) -> None:
    with Mock() as mock:
        found = crowds.sessions(3, Place(mock, tmp_path), tau_here())
    assert found.keys() == crowds.IN_ONE.keys()
    assert found["memory, after a prompt"] > found["memory"] > 1


def test_the_floor_program_answers_get_state(tmp_path: Path) -> None:
    with Mock() as mock:
        assert starting.rpc_floor(Place(mock, tmp_path))["start"] > 0


def test_pieces_that_wait_for_each_other_are_not_joined(tmp_path: Path) -> None:
    with Stepped(20) as model, tau_here().start(tmp_path, model.url, "--no-session") as program:
        model.two_prompts(program)  # raises Failed if fewer than twenty updates came


# The gate.

TOOK = {
    "start": 200.0,
    "start with MCP": 210.0,
    "two prompts": 300.0,
    "many pieces": 400.0,
    "pieces alone": 700.0,
    "trips": 500.0,
    "no trips": 250.0,
    "bash turns": 900.0,
    "answers": 150.0,
    "no answers": 50.0,
    "session": 250.0,
    "session stats": 300.0,
    "fork points": 350.0,
    "messages": 300.0,
    "export": 400.0,
    "memory": 150.0,
    "idle memory": 100.0,
    "terminal": 300.0,
    "keys": 340.0,
    "first shown piece": 500.0,
    "shown pieces": 580.0,
    "nothing": 10.0,
    "import asyncio": 100.0,
    "events": 30.0,
    "entries": 60.0,
}


def test_the_gate_counts_what_a_unit_costs_beyond_the_start() -> None:
    found = measures(TOOK, Sizes(pieces=100, alone=20, trips=50, turns=30, entries=50, of_floor=10, keys=10, shown=20))
    assert {name: (one.ours, one.least) for name, one in found.items()} == {
        "start": (200, 100),
        "mcp start": (210, 200),
        "prompts": (100, 100),
        "piece": (1, 2),
        "piece alone": (20, 2),
        "trip": (5, 2),
        "bash turn": (20, 2),
        "entry": (1, 5),
        "stats": (1, 5),
        "forks": (0.2, 5),
        "messages": (1, 5),
        "terminal start": (300, 100),
        "terminal key": (4, 2),
        "terminal piece": (4, 2),
        "export": (30, 5),
        "memory": (150, 100),
    }


@pytest.mark.parametrize(("grown", "fails"), [(1.19, False), (1.25, True), (0.7, False)])
def test_the_gate_fails_when_something_needs_a_fifth_more(tmp_path: Path, grown: float, fails: bool) -> None:
    ruler = RULERS["instructions"]
    then = {name: Measure("", "", 300, 100) for name in ("start", "piece")}
    keep(tmp_path / "kept.json", [as_result(ruler, then)])
    now = as_result(ruler, {**then, "piece": Measure("", "", 300 * grown, 100)})
    assert compared(tmp_path / "kept.json", [now], 1 + ruler.allowed / 100)[1] is fails


@pytest.mark.parametrize(
    ("grown", "slower"), [(1.015, []), (1.025, ["piece"]), (1.035, ["piece", "memory"]), (1.25, ["piece", "memory"])]
)
def test_a_strict_gate_allows_two_percent_of_instructions_and_three_of_memory(
    tmp_path: Path, grown: float, slower: list[str]
) -> None:
    ruler = RULERS["instructions"].strict(2)
    then = {name: Measure("", "", 300, 100) for name in ("start", "piece", "memory")}
    keep(tmp_path / "kept.json", [as_result(ruler, then)])
    now = {**then, **{name: Measure("", "", 300 * grown, 100) for name in ("piece", "memory")}}
    assert worse(tmp_path / "kept.json", ruler, now) == slower
    assert worse(tmp_path / "kept.json", RULERS["instructions"], now) == (["piece", "memory"] if grown > 1.2 else [])
    assert (ruler.rounds, ruler.typical([1, 2, 3, 9, 9])) == (5, 3)


def test_instructions_are_read_from_what_valgrind_says(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for said in ("==7== I   refs:      457,144,820\n", "==7== I refs:        457,144,820\n"):
        log.write_text(f"==7== Command: pi\n==7==\n{said}")
        assert RULERS["instructions"].read(log, 0.0) == 457_144_820


# The page.

TOLD = {"python": "3.11.0", "processors": 2, "system": "Linux", "jobs": {"export": told(RESULT)}}


def test_the_page_shows_how_many_times_what_tau_needs() -> None:
    values = {TAU: {"wall": 20.0}, "0.1": {"wall": 100.0}, "0.2": {"wall": 5.0}}
    job = Job("export", "", lambda place, contender: {}, {"wall": "ms"})
    result = {**TOLD, "jobs": {"export": told(Result(job, values, {"0.3": "died (1): why"}, 1.0))}}
    assert beside(result).splitlines() == [
        "|  | tau | pi 0.1 | pi 0.2 | pi 0.3 |",
        "| --- | --: | --: | --: | --: |",
        f"| export of 5,000 entries | 20 ms | 100 ms (5{TIMES}) | 5 ms (0.25{TIMES}) | died (1) |",
    ]
    assert slower(result) == "- `export`, wall: 20 ms, against 5 ms of 0.2"
    circles = [one.get("cx") for one in ET.fromstring(picture(result)).iter("{http://www.w3.org/2000/svg}circle")]
    assert len(circles) == 3 + 2  # the key, and two who have a number


def test_the_page_in_docs_has_a_place_for_every_part() -> None:
    result = {**TOLD, "laws": {}}
    page = filled(PAGE.read_text(), result)
    assert all(part(result) in page for part in PARTS.values())


def test_the_page_keeps_the_laws_of_an_earlier_run() -> None:
    assert "media/scaling-" in filled(PAGE.read_text(), TOLD)


def test_results_of_several_runs_make_one_page() -> None:
    first = {**TOLD, "jobs": {"export": 1, "start": 1}, "laws": {"a": 1}}
    assert joined([first, {**TOLD, "jobs": {"start": 2}}]) == {**first, "jobs": {"export": 1, "start": 2}}
