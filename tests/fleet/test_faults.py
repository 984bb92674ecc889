"""The fault promises of fleets, with real processes: kills, stops, full disks, damaged ledgers, refusing providers."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import tau
from long import fleet_figures, fleet_kills
from support.fleets import FleetRun, can_mount, wait_for
from support.library_agent import calls
from tau.core.fleet.tasks import read_tasks
from tau.fleet.folder import FleetFolder
from tau.fleet.repair import repair
from tau.records.base import encode, replace
from tau.records.fleet import Result


@pytest.mark.promise("W02")
@pytest.mark.timeout(300)
def test_fifty_kills_of_the_coordinator_lose_and_double_nothing(tmp_path: Path) -> None:
    def lot(number: int) -> fleet_kills.Figures:
        folder = tmp_path / str(number)
        folder.mkdir()
        return fleet_kills.run(folder, 25, number, stub=True)

    with ThreadPoolExecutor(2) as pool:
        figures = list(pool.map(lot, range(2)))
    assert sum(one.kills for one in figures) == 50


def test_a_stopped_task_gets_no_more_work_and_the_others_go_on(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"text": "ok", "delayMs": 60_000}])
    quick = tmp_path / "quick.json"
    quick.write_text('{"answers": [{"text": "ok"}]}')
    fleet.tasks([{"id": "slow"}, {"id": "quick", "script": str(quick)}, {"id": "waits"}])
    process = fleet.start("--concurrency", "1")
    wait_for(lambda: bool(fleet_kills.rows(fleet, "select 1 from attempt where begun is not null")))
    for task in ("slow", "waits"):
        assert fleet.command("stop", str(fleet.out), task).returncode == 0
    assert process.wait(60) == 1
    found = {id: result["outcome"] for id, result in fleet.results().items()}
    assert found == {"slow": "stopped", "quick": "done", "waits": "stopped"}
    assert "has its result" in fleet.command("stop", str(fleet.out), "slow").stderr
    assert "no task nope" in fleet.command("stop", str(fleet.out), "nope").stderr
    assert "Nothing works on" in fleet.command("stop", str(fleet.out)).stderr


def test_a_stopped_fleet_starts_nothing_more_and_the_next_run_goes_on(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(400))
    process = fleet.start("--concurrency", "2", "--worker", fleet.stub_worker())
    wait_for(lambda: bool(fleet_kills.final(fleet)))
    assert fleet.command("stop", str(fleet.out)).stdout.startswith("No more tasks are started")
    assert process.wait(60) == 1
    assert 0 < len(fleet.results()) < 400
    assert fleet.run("--concurrency", "50", "--worker", fleet.stub_worker(50)).returncode == 0
    assert len(fleet.results()) == 400


def damage_first_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 512)


def damage_a_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4096 // 2 * 4096)
        file.write(os.urandom(8192))


@pytest.mark.promise("W08")
@pytest.mark.parametrize("damage", [damage_first_page, damage_a_page, Path.unlink])
def test_a_ledger_is_made_again_from_what_is_left(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Tasks with a result, one whose result was written and not stored, one that failed, and one that waits."""
    folder = FleetFolder(tmp_path)
    folder.create()
    lines = [f'{{"id":"t{number}","prompt":"{"x" * 200}"}}'.encode() for number in range(60)]
    tasks, _ = read_tasks(lines, {})
    folder.copy_tasks(task.task for task in tasks)
    results = [Result(task.id, 2, "done", task.hash, cost=0.5) for task in tasks]
    ledger = folder.ledger()
    ledger.add([(task.id, task.hash, task.task) for task in tasks], 1.0)
    ledger.claim([(task.id, number, "w") for task in tasks for number in (1, 2)], 1.0)
    folder.append([encode(result) for result in ledger.finish(results[:57], 2.0)])
    ledger.close()
    for result in (results[57], replace(results[58], outcome="failed")):
        folder.attempt(result.id, 2).mkdir(parents=True)
        (folder.attempt(result.id, 2) / "result.json").write_bytes(encode(result))
    (folder.tasks / "t59" / "2.partial").mkdir(parents=True)
    assert repair(folder) is None
    damage(tmp_path / "ledger.db")
    repaired = repair(folder)
    assert repaired is not None
    assert (repaired.tasks, repaired.results) == (60, 58)
    with closing(folder.ledger()) as ledger:
        assert [one.id for one in ledger.open_tasks()] == ["t58", "t59"]
        assert [ledger.numbers()[task] for task in ("t57", "t58", "t59")] == [2, 2, 2]
        assert len((tmp_path / "results.jsonl").read_bytes().splitlines()) == 58


@pytest.mark.promise("W08")
def test_a_damaged_ledger_is_named_and_repaired_by_the_command(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    flags = ("--concurrency", "8", "--worker", fleet.stub_worker())
    fleet.tasks({"id": f"t{number}", "labels": {"n": "x" * 50}} for number in range(40))
    assert fleet.run(*flags, "--first", "30").returncode == 0
    before = fleet.results()
    damage_first_page(fleet.out / "ledger.db")
    assert f"tau fleet repair {fleet.out}" in fleet.run(*flags).stderr
    repaired = fleet.command("repair", str(fleet.out))
    assert repaired.stdout.splitlines()[0] == f"{fleet.out}: 30 tasks, 30 results", repaired.stderr
    assert (fleet.out / "ledger.db.damaged-1").exists()
    assert fleet.results() == before
    assert fleet.run(*flags).returncode == 0
    after = fleet.results()
    assert len(after) == 40
    assert {id: after[id] for id in before} == before


@pytest.mark.promise("W03")
def test_a_result_that_came_twice_or_late_counts_once(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(20))
    echo = tmp_path / "echo.py"
    # Every line of the worker comes twice, and the results once more at the end.
    echo.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "late = []\n"
        "for line in child.stdout:\n"
        "    if b'\"hello\"' not in line:\n"
        "        late.append(line)\n"
        "        line += line\n"
        "    if len(late) > 30:\n"
        "        line += b''.join(late)\n"
        "    sys.stdout.buffer.write(line)\n"
        "    sys.stdout.buffer.flush()\n"
    )
    done = fleet.run("--concurrency", "4", "--worker", f"{sys.executable} {echo} {fleet.stub_worker()}")
    assert done.returncode == 0, done.stderr
    assert {result["attempt"] for result in fleet.results().values()} == {1}
    assert len(fleet_kills.rows(fleet, "select 1 from attempt")) == 20


@pytest.mark.promise("W05")
def test_a_worker_of_another_version_is_refused_and_the_fleet_ends(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    stub = fleet.stub_worker().replace(" 8 50 ", " 8 50 ").split()
    stub[4] = "0.0.1"
    done = fleet.run("--worker", " ".join(stub), timeout=30)
    assert done.returncode == 1
    assert "is tau 0.0.1, this is" in done.stdout


@pytest.mark.promise("W06")
@pytest.mark.skipif(not can_mount(), reason="*** no disk can be mounted here (unshare --user --mount) ***")
def test_a_full_disk_at_the_coordinator_stops_nothing_for_good(tmp_path: Path) -> None:
    """The folder of the fleet is a disk of 3 MB that is full while results come, and has room again later."""
    fleet = FleetRun(tmp_path)
    fleet.out.mkdir()
    fleet.tasks({"id": f"t{number}"} for number in range(200))
    fill = f"dd if=/dev/zero of={fleet.out}/ballast bs=64k 2>/dev/null"
    run = " ".join(fleet.argv("--concurrency", "8", "--worker", f"'{fleet.stub_worker()}'"))
    script = (
        f"mount -t tmpfs -o size=3m none {fleet.out} && {{ {run} & pid=$!; }}"
        f"; until test -s {fleet.out}/results.jsonl; do sleep 0.02; done; {fill}; sleep 3"
        f"; kill -0 $pid && echo alive; rm {fleet.out}/ballast; wait $pid; echo code $?"
        f"; wc -l < {fleet.out}/results.jsonl"
    )
    argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, env=fleet.env, cwd=tmp_path)
    assert "alive" in done.stdout, done.stdout + done.stderr
    assert done.stdout.split()[-3:] == ["code", "0", "200"], done.stdout + done.stderr
    assert "No tasks are started until it can be written" in done.stdout + done.stderr


@pytest.mark.promise("W04")
def test_a_worker_that_was_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(100))
    process = fleet.start("--concurrency", "4", "--worker", fleet.stub_worker())
    wait_for(lambda: bool(fleet_kills.final(fleet)))
    (worker,) = fleet.workers()
    os.kill(worker, signal.SIGSTOP)
    count = len(fleet_kills.final(fleet))
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(worker, signal.SIGCONT)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(60) == 0
    assert count < len(fleet.results()) == 100


@pytest.mark.promise("W01")
def test_a_killed_worker_leaves_no_command_behind_and_its_tasks_are_done(tmp_path: Path) -> None:
    assert fleet_figures.killed_worker(tmp_path, 5).results == 5


@pytest.mark.promise("W07")
@pytest.mark.skipif(not can_mount(), reason="*** no disk can be mounted here (unshare --user --mount) ***")
def test_a_worker_with_a_full_disk_takes_no_orders_and_others_do_its_tasks(tmp_path: Path) -> None:
    """The first worker has a disk without room and without inodes; its attempts do not count as retries."""
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}", "retries": 0} for number in range(8))
    full = tmp_path / "full"
    full.mkdir()
    worker = f"{sys.executable} -m tau fleet worker --slots 4 --root"
    mounted = f"mount -t tmpfs -o size=64k,nr_inodes=5 none {full}; dd if=/dev/zero of={full}/ballast bs=4k 2>/dev/null"
    first = f"unshare --user --map-root-user --mount sh -c '{mounted}; exec {worker} {full}/w'"
    done = fleet.run("--concurrency", "8", "--worker", first, "--worker", f"{worker} {tmp_path}/other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {result["worker"] for result in fleet.results().values()} == {"w2"}
    assert fleet_kills.rows(fleet, "select about from event where kind = 'capacity'") == [("w1: 0 its disk is full",)]
    assert fleet_kills.rows(fleet, "select 1 from attempt where worker = 'w1' and how = 'a failure outside the task'")


@pytest.mark.promise("W11")
def test_an_error_of_tau_in_a_tool_is_no_failure_of_the_task(tmp_path: Path) -> None:
    """An upgrade while the worker runs: what a tool loads when it is first called is not there any more."""
    package = tmp_path / "installed" / "tau"
    shutil.copytree(Path(tau.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    fleet = FleetRun(
        tmp_path, [calls("edit", path="a.txt", edits=[{"oldText": "one", "newText": "two"}]), {"text": "I cannot."}]
    )
    fleet.variables["PYTHONPATH"] = str(package.parent)
    setup = f"echo one > a.txt; rm -f {package}/core/text/editing.py"
    task = {"retries": 1, "setup": setup}
    fleet.tasks([{**task, "id": "unsolved", "check": "false"}, {**task, "id": "done"}])
    assert fleet.run("--workers", "1", "--concurrency", "1").returncode == 1
    error = "internal error: tool edit: ModuleNotFoundError: No module named 'tau.core.text.editing'"
    for result in fleet.results().values():
        assert (result["outcome"], result["attempt"], result["error"]) == ("failed", 2, error)
    assert fleet_kills.rows(fleet, "select distinct how from attempt where number = 1") == [
        ("a failure that may pass",)
    ]


def can_trace() -> bool:
    return (
        shutil.which("strace") is not None
        and not subprocess.run(["strace", "-f", "true"], capture_output=True).returncode
    )


WRITES = """
import asyncio, sys
from pathlib import Path
from tau.fleet.callbacks import check_unstored
from tau.fleet.folder import FleetFolder
from tau.records.base import encode
from tau.records.fleet import Result

folder = FleetFolder(Path(sys.argv[1]))
folder.create()
folder.write_about("{}")
folder.rewrite_results(iter([b"{}"]))
folder.attempt("t", 1).mkdir(parents=True)
(folder.attempt("t", 1) / "result.json").write_bytes(encode(Result("t", 1, "done", "")))
asyncio.run(check_unstored(folder, {"t": 1}, lambda result: True))
"""


@pytest.mark.skipif(not can_trace(), reason="*** needs strace, and the right to use it ***")
def test_files_of_a_fleet_are_on_disk_before_they_replace_others(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    words = ["strace", "-f", "-qq", "-y", "-o", str(trace), "-e", "trace=fsync,rename,renameat,renameat2"]
    subprocess.run([*words, sys.executable, "-c", WRITES, str(tmp_path / "out")], check=True)
    assert '"outcome":"solved"' in (tmp_path / "out" / "tasks" / "t" / "1" / "result.json").read_text()
    synced: set[str] = set()
    replaced = []
    for line in trace.read_text().splitlines():
        if found := re.search(r"fsync\(\d+<(.*)>\) += 0", line):
            synced.add(found[1])
        elif "rename" in line and (names := re.findall(r'"(.*?)"', line)) and names[1].startswith(str(tmp_path)):
            assert names[0] in synced, line
            replaced.append(Path(names[1]).name)
    assert replaced == ["fleet.json", "results.jsonl", "result.json"]
