"""Fleets of real processes: work trees, checks, budgets, deaths, and going on."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.fleets import FleetRun, repository
from support.library_agent import calls
from tau.fleet.fleet import Fleet

WRITE = calls("write", path="new.txt", content="hello\n")


def wait_for(condition: object, what: str) -> None:
    end = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_tasks_have_results_and_running_again_does_nothing(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(5))
    done = fleet.run()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{fleet.out}: 5 done")
    first = fleet.results()
    assert {result["outcome"] for result in first.values()} == {"done"}
    assert (fleet.out / "tasks" / "t0" / "1" / "session.jsonl").exists()
    assert fleet.run().returncode == 0
    assert fleet.results() == first
    for format, first_words in (("jsonl", '{"id":"t0"'), ("csv", "id,attempt"), ("swebench", '{"instance_id": "t0"')):
        fleet.command("export", str(fleet.out), "--format", format, "-o", "exported")
        assert (tmp_path / "exported").read_text().startswith(first_words)
    status = fleet.command("status", str(fleet.out)).stdout
    assert ["done", "5"] in [line.split() for line in status.splitlines()]
    assert fleet.out.stat().st_mode & 0o777 == 0o700


@pytest.mark.promise("W17")
def test_work_trees_give_patches_and_leave_the_repository_alone(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    before = subprocess.run(["git", "status", "--porcelain=v2", "--branch"], cwd=repo, capture_output=True, check=True)
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    check = "test -f new.txt"
    fleet.tasks({"id": f"t{number}", "repo": str(repo), "check": check} for number in range(20))
    assert fleet.run("--concurrency", "20").returncode == 0
    for result in fleet.results().values():
        assert (result["outcome"], result["patch"]["files"], result["patch"]["added"]) == ("solved", 1, 1)
    patch = (fleet.out / "tasks" / "t3" / "1" / "patch.diff").read_text()
    assert "+hello" in patch
    after = subprocess.run(["git", "status", "--porcelain=v2", "--branch"], cwd=repo, capture_output=True, check=True)
    assert after.stdout == before.stdout
    trees = subprocess.run(["git", "worktree", "list"], cwd=repo, capture_output=True, check=True, text=True)
    assert len(trees.stdout.splitlines()) == 1
    assert subprocess.run(["git", "fsck", "--strict"], cwd=repo, capture_output=True, check=False).returncode == 0


@pytest.mark.promise("W11")
def test_outcomes_say_what_happened(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [WRITE, {"text": "ok"}])
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"answers": [{"blocks": [{"tool": "no_such_tool", "arguments": {}, "id": "a"}]}]}))
    fleet.tasks(
        [
            {"id": "check", "check": "exit 4"},
            {"id": "setup", "setup": "echo broken; exit 3"},
            {"id": "turns", "budget": {"maxTurns": 1}},
            {"id": "stuck", "script": str(wrong)},
            {"id": "model", "model": "no-such-model"},
            {"id": "fine"},
        ]
    )
    assert fleet.run().returncode == 1
    found = fleet.results()
    assert {id: result["outcome"] for id, result in found.items()} == {
        "check": "unsolved",
        "setup": "failed",
        "turns": "limited",
        "stuck": "stuck",
        "model": "failed",
        "fine": "done",
    }
    assert found["check"]["check"]["code"] == 4
    assert "broken" in found["setup"]["error"]
    assert "no-such-model" in found["model"]["error"]
    retried = fleet.command("retry", str(fleet.out), "--outcome", "unsolved")
    assert retried.stdout.startswith("1 tasks wait again")
    assert "check" not in fleet.results()


@pytest.mark.promise("W13")
def test_mistakes_in_the_task_file_start_nothing(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.file.write_text('{"prompt":"x"}\n{"prompt":"y","colour":1}\n')
    done = fleet.run()
    assert done.returncode == 2
    assert f"{fleet.file}:2:" in done.stderr
    assert "colour" in done.stderr
    assert not fleet.out.exists()


def test_a_changed_task_is_named(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}, {"id": "b"}])
    fleet.run()
    fleet.tasks([{"id": "a", "prompt": "Something else."}, {"id": "b"}])
    refused = fleet.run()
    assert refused.returncode == 2
    assert "Task a is not what it was" in refused.stderr
    assert fleet.run("--changed", "redo").returncode == 0
    assert fleet.results()["a"]["attempt"] == 2


def test_a_task_that_has_not_begun_can_be_corrected(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a", "repo": str(tmp_path / "nowhere")}])
    refused = fleet.run()
    assert refused.returncode == 2 and f"Task a: repo {tmp_path}/nowhere: there is no such folder" in refused.stderr
    fleet.tasks([{"id": "a"}])
    assert fleet.run().returncode == 0
    assert fleet.results()["a"]["attempt"] == 1


def test_failed_tasks_come_with_the_command_that_runs_them_again(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"error": {"message": "401 no"}}])
    fleet.tasks([{"id": "a"}])
    done = fleet.run()
    said = done.stdout + done.stderr
    assert f"`tau fleet retry {fleet.out} --outcome failed` lets failed tasks run again." in said
    head, row = (next(line for line in said.splitlines() if line.startswith(word)) for word in ("task", "a "))
    assert head.index("outcome") == row.index("failed")


@pytest.mark.promise("W12")
def test_a_second_coordinator_is_refused(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"text": "ok", "delayMs": 60_000}])
    fleet.tasks([{"id": "a"}])
    process = fleet.start()
    try:
        wait_for(lambda: (fleet.out / "lock").exists() and fleet.workers(), "it did not start")
        second = fleet.run()
        assert second.returncode == 2
        assert f"Process {process.pid} works on" in second.stderr
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not fleet.workers(), "workers are left")


@pytest.mark.promise("W01")
def test_killed_workers_lose_no_task(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"blocks": [{"text": ["a ", "b"]}], "delayMs": 50}])
    fleet.tasks({"id": f"t{number}"} for number in range(60))
    process = fleet.start("--concurrency", "20", "--workers", "2")
    killed = 0
    while process.poll() is None and killed < 3:
        if workers := fleet.workers():
            os.kill(workers[0], signal.SIGKILL)
            killed += 1
        time.sleep(0.4)
    assert process.wait(90) == 0
    assert len(fleet.results()) == 60
    assert killed > 0
    wait_for(lambda: not fleet.workers(), "workers are left")


@pytest.mark.promise("W02")
def test_a_killed_coordinator_loses_and_doubles_nothing(tmp_path: Path) -> None:
    fleet, source = FleetRun(tmp_path), random.Random(4)
    fleet.tasks({"id": f"t{number}"} for number in range(200))
    for _ in range(4):
        process = fleet.start("--concurrency", "20")
        time.sleep(0.3 + source.random())
        process.kill()
        process.wait()
        wait_for(lambda: not fleet.workers(), "workers outlive the coordinator")
    assert fleet.run("--concurrency", "20").returncode == 0
    assert len(fleet.results()) == 200


def test_ctrl_c_lets_tasks_end_and_the_rest_waits(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"text": "ok", "delayMs": 300}])
    fleet.tasks({"id": f"t{number}"} for number in range(40))
    process = fleet.start("--concurrency", "4")
    wait_for(lambda: (fleet.out / "results.jsonl").exists() and fleet.results(), "nothing was done")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    count = len(fleet.results())
    assert 0 < count < 40
    assert fleet.run("--concurrency", "40").returncode == 0
    assert len(fleet.results()) == 40


def test_the_money_of_the_fleet_needs_limits_of_tasks(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    refused = fleet.run("--max-cost", "1")
    assert refused.returncode == 2
    assert "Task a has no budget.maxCost" in refused.stderr
    fleet.tasks([{"id": "b", "budget": {"maxCost": 2, "allowUnknownCost": True}}])
    limited = FleetRun(tmp_path)
    limited.out = tmp_path / "other"
    stopped = limited.run("--max-cost", "1")
    assert stopped.returncode == 3


def test_a_command_that_starts_a_worker_is_an_engine(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(4))
    root = tmp_path / "elsewhere"
    worker = " ".join(["sh", "-c", f"'exec {fleet.argv()[0]} -m tau fleet worker --root {root} --slots 2'"])
    done = fleet.run("--worker", worker, "--worker", worker)
    assert done.returncode == 0, done.stderr
    assert {result["worker"] for result in fleet.results().values()} <= {"w1", "w2"}


def test_a_fleet_from_python(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)

    async def story() -> list[str]:
        async with Fleet(tmp_path / "out", concurrency=4) as running:
            task = {"prompt": "x", "model": "scripted", "script": str(fleet.script)}
            await running.add([{**task, "id": "a"}, {**task, "id": "b"}])
            return sorted([result.id async for result in running.results()])

    assert asyncio.run(story()) == ["a", "b"]
