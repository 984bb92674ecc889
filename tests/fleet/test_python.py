"""Fleets from Python: tau.fleet.run and tau.fleet.Fleet, with functions of the program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import tau
from support.fleets import FleetRun
from tau.fleet.callbacks import checked
from tau.records.base import replace
from tau.records.fleet import Result, Task


def test_run_returns_results_in_order_and_goes_on(tmp_path: Path) -> None:
    script = str(FleetRun(tmp_path).script)
    tasks = [{"id": f"t{number}", "prompt": "x"} for number in range(3)]
    usual = {"model": "scripted", "script": script}
    seen: list[str] = []

    def is_even(result: tau.fleet.Result) -> bool:
        return int(result.id[1:]) % 2 == 0

    def labelled(task: tau.fleet.Task) -> tau.fleet.Task:
        return replace(task, labels={"name": task.id})

    async def story() -> tuple[list[Result], list[Result]]:
        options = {"defaults": usual, "prepare": labelled, "check": is_even, "concurrency": 3}
        out = tmp_path / "out"
        first = await tau.fleet.run(tasks, out, on_result=lambda result: seen.append(result.id), **options)
        return first, await tau.fleet.run(tasks[1:], out, **options)

    first, second = asyncio.run(story())
    assert [(one.id, one.outcome, one.labels) for one in first] == [
        ("t0", "solved", {"name": "t0"}),
        ("t1", "unsolved", {"name": "t1"}),
        ("t2", "solved", {"name": "t2"}),
    ]
    assert sorted(seen) == ["t0", "t1", "t2"]
    assert second == first[1:]


def test_results_can_be_left_early(tmp_path: Path) -> None:
    task = {"prompt": "x", "model": "scripted", "script": str(FleetRun(tmp_path).script)}

    async def story() -> int:
        async with tau.fleet.Fleet(tmp_path / "out", concurrency=1) as fleet:
            await fleet.add([{**task, "id": f"t{number}"} for number in range(20)])
            results = fleet.results()
            await anext(results)
            await results.aclose()
            return fleet.counts()["done"]

    assert 1 <= asyncio.run(story()) < 20


def test_a_task_that_is_not_valid_is_named(tmp_path: Path) -> None:
    async def story(tasks: list[object]) -> None:
        async with tau.fleet.Fleet(tmp_path / "out") as fleet:
            await fleet.add(tasks)  # type: ignore[arg-type]

    with pytest.raises(tau.UsageError, match=r"Task 2 is not valid: .*colour"):
        asyncio.run(story([Task(prompt="x"), {"prompt": "y", "colour": 1}]))
    with pytest.raises(tau.UsageError, match="Two tasks have the id a"):
        asyncio.run(story([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]))
    with pytest.raises(TypeError, match="concurrent"):
        tau.fleet.Fleet(tmp_path / "out", concurrent=3)


def test_a_check_may_be_a_coroutine_and_its_failure_is_a_failure() -> None:
    done = Result("a", 1, "done", "h")

    async def solved(result: Result) -> bool:
        return True

    def broken(result: Result) -> bool:
        raise ValueError("no")

    async def story() -> list[Result]:
        limited = replace(done, outcome="limited")
        return [await checked(done, solved), await checked(done, broken), await checked(limited, solved)]

    first, second, third = asyncio.run(story())
    assert (first.outcome, second.outcome, third.outcome) == ("solved", "failed", "limited")
    assert second.error == "the check function failed: ValueError: no"


def test_neither_import_nor_help_loads_fleets() -> None:
    heavy = "('tau.fleet.fleet', 'tau.records.fleet', 'sqlite3', 'dask')"
    for ask in (
        "import tau, sys",
        "import tau.fleet, sys",
        "import sys; from tau.cli import main; main.main('pi', ['--help'])",
    ):
        code = f"{ask}\nprint([name for name in {heavy} if name in sys.modules])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("[]\n")
