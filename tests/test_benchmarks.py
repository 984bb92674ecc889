"""The benchmarks hang together: nothing is timed here."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import sessions
from benchmarks.job import ALONE, BEST, TAU, Job, Result, Target
from benchmarks.jobs import JOBS
from benchmarks.mock import Mock
from benchmarks.results import CLOCK, CPU, compared, keep, relative
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
RESULT = Result(JOB, VALUES, {"0.3": "out of memory"}, yardstick=0.01)


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_targets_are_about_what_a_job_measures(job: Job) -> None:
    assert {target.measure for target in job.targets} <= set(job.units)
    assert set(job.units.values()) <= {*CPU, *CLOCK, "MB", ""}


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
