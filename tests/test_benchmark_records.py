"""Recording of benchmarks: only on a quiet machine, with goals and scaling laws."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.__main__ import NOT_QUIET
from benchmarks.goals import GOALS, outcomes
from benchmarks.job import TAU, Job, Place, Result
from benchmarks.jobs import JOBS
from benchmarks.mock import Mock
from benchmarks.page import goals, laws, machine
from benchmarks.quiet import ATTEMPTS, NotQuiet, undisturbed, wait_for_quiet
from benchmarks.scaling import LAWS, Found, Rate, exponent, picture, tools_in_a_turn
from benchmarks.streams import answers
from benchmarks.table import goal_table

JOB = Job("export", "a job", lambda place, contender: {}, {"wall": "ms"})
RESULT = Result(JOB, {TAU: {"wall": 20.0}}, {}, yardstick=0.01)
ROOT = Path(__file__).parents[1]


@pytest.fixture
def busy() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield
        process.kill()


def test_nothing_is_recorded_while_another_program_works(busy: None) -> None:
    with pytest.raises(NotQuiet, match=r"Other programs use .* nothing is recorded"):
        wait_for_quiet(lambda: 0.0, limit=0)


def test_a_run_that_would_record_ends_while_another_program_works(busy: None, tmp_path: Path) -> None:
    code = (
        "import sys, benchmarks.quiet as quiet, benchmarks.__main__ as runner\n"
        "quiet.WAIT = 0.0\nquiet.wait_for_quiet.__defaults__ = quiet.undisturbed.__defaults__ = (0.0,)\n"
        "sys.exit(runner.main())"
    )
    file = tmp_path / "out.json"
    argv = [sys.executable, "-c", code, "--only", "help", "--rounds", "1", "--json", str(file)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == NOT_QUIET, done.stderr
    assert "nothing is recorded" in done.stdout
    assert not file.exists()
    trial = subprocess.run([*argv, "--trial"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert trial.returncode == 0, trial.stderr
    assert "a trial" in trial.stdout
    assert "a trial" in json.loads(file.read_text())["mark"]


def test_a_trial_is_not_kept() -> None:
    argv = [sys.executable, "-m", "benchmarks", "--trial", "--keep", "baseline.json", "--only", "help"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode and "not kept" in done.stderr


def test_a_job_that_was_disturbed_is_done_again() -> None:
    results = iter([replace(RESULT, disturbed="others had 1.0 of 2 processors"), RESULT])
    quiet = -1e9  # processor seconds of ours: more than the machine had, so that nothing is left for others
    assert undisturbed(lambda: next(results), _more(quiet)) is RESULT
    with pytest.raises(NotQuiet, match=f"In {ATTEMPTS} attempts, others had 1.0"):
        undisturbed(lambda: replace(RESULT, disturbed="others had 1.0"), _more(quiet))


def _more(quiet: float):  # type: ignore[no-untyped-def]
    """A count of our processor seconds that grows faster than any machine's."""
    seconds = quiet

    def ours() -> float:
        nonlocal seconds
        seconds += 1e6
        return seconds

    return ours


def test_the_page_says_that_a_result_is_a_trial() -> None:
    result = {"python": "3.11.0", "processors": 2, "system": "Linux", "jobs": {}}
    assert "trial" not in machine(result)
    assert "**This is a trial: why.**" in machine({**result, "mark": "a trial: why"})


# Goals.


def test_goals_are_about_what_jobs_measure() -> None:
    for goal in GOALS:
        assert goal.measure in JOBS[goal.job].units, goal


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({TAU: {"wall": 70.0}, "0.1": {"wall": 100.0}, "0.2": {"wall": 200.0}}, "holds"),
        ({TAU: {"wall": 90.0}, "0.1": {"wall": 100.0}}, "missed"),
        ({TAU: {"wall": 90.0}, "0.1": {"wall": 100.0}, "escaped text": {"wall": 85.0}}, "at the floor (escaped text)"),
        ({TAU: {"wall": 90.0}, "0.1": {"wall": 100.0}, "escaped text": {"wall": 60.0}}, "missed"),
        ({TAU: {"wall": 90.0}}, "not measured"),
    ],
)
def test_a_goal_is_reached_against_the_best_peer_or_at_the_floor(
    values: dict[str, dict[str, float]], verdict: str
) -> None:
    jobs = {"export": {"values": values, "units": {"wall": "ms"}}}
    [found] = outcomes(jobs)
    assert found.verdict == verdict
    assert goal_table(jobs).splitlines()[1].endswith(verdict)
    assert verdict in goals({"jobs": jobs})


# Scaling laws.


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_the_upper_decades(power: float) -> None:
    sizes = [1, 10, 100, 1_000, 10_000]
    assert exponent(sizes, [5.0, *(size**power for size in sizes[1:])]) == pytest.approx(power)
    assert math.isnan(exponent([1], [1.0]))


def test_a_law_is_drawn_and_told_with_its_exponent() -> None:
    found = Found("sessions")
    for size in (1, 10, 100, 1_000):
        found.add(size, {"open": size * 0.001, "prompt": size**1.2 * 0.001})
    circles = ET.fromstring(picture(LAWS["sessions"], found)).iter("{http://www.w3.org/2000/svg}circle")
    assert len(list(circles)) == 2 + 8  # the key, and the points
    text = laws({"laws": {"sessions": {"sizes": found.sizes, "costs": found.costs}}})
    assert "| 1.00 | holds |" in text and "| 1.20 | **over 1.05** |" in text
    assert "(media/scaling-sessions.svg)" in text


def test_what_is_merged_is_bounded_by_time_and_by_the_message() -> None:
    assert Rate(1_000, 2.0, 3.0).bound == pytest.approx(2 * 8.39 + 8 * 0.006, abs=0.01)


def test_tool_calls_of_one_answer_are_all_run(tmp_path: Path) -> None:
    call_blocks = b"".join(answers("calls-3")[1]).count(b'"tool_use","id"')
    assert call_blocks == 3
    with Mock() as mock:
        assert tools_in_a_turn(Place(mock, tmp_path), 3)["CPU"] > 0
