"""Figures of a fleet on this machine: a killed worker with many tasks, many work trees at once, money.

python tests/long/fleet_figures.py [--tasks 50] [--trees 200]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fleet_kills import rows
from support.fleets import FleetRun, repository, wait_for
from support.library_agent import calls
from support.limited_server import LimitedServer


class KilledWorker(NamedTuple):
    noticed_s: float
    left_after_s: float
    """until no process of its commands was left"""
    results: int


def processes(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if pid != os.getpid()]


def killed_worker(folder: Path, tasks: int) -> KilledWorker:
    """Kill a worker whose agents all run a command; the tasks are done by a second worker."""
    flag, nap = folder / "second", f"3000.{os.getpid()}{time.monotonic_ns() % 10**6}"
    fleet = FleetRun(folder, [calls("bash", command=f"test -e {flag} || sleep {nap}"), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}"} for number in range(tasks))
    process = fleet.start("--concurrency", str(tasks), "--workers", "1", "--per-worker", str(tasks))
    wait_for(lambda: len(processes(f"sleep\0{nap}")) >= tasks, "the commands do not run", 120)
    (worker,) = fleet.workers()
    flag.touch()
    os.kill(worker, signal.SIGKILL)
    killed = time.monotonic()
    wait_for(lambda: rows(fleet, "select 1 from event where kind = 'worker lost'"))
    noticed = time.monotonic() - killed
    wait_for(lambda: not processes(f"sleep\0{nap}"), "commands are left")
    left = time.monotonic() - killed
    assert process.wait(300) == 0
    return KilledWorker(noticed, left, len(fleet.results()))


def many_trees(folder: Path, count: int, files: int = 200) -> str:
    repo = repository(folder / "repo", {f"d{at % 20}/f{at}.txt": f"{at}\n" for at in range(files)})
    before = _state(repo)
    fleet = FleetRun(folder, [calls("write", path="new.txt", content="hello\n"), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}", "repo": str(repo), "check": "test -f new.txt"} for number in range(count))
    done = fleet.run("--concurrency", str(count), "--workers", "2", "--per-worker", str(count), timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    results = fleet.results()
    assert all(result["patch"]["files"] == 1 for result in results.values())
    assert {result["attempt"] for result in results.values()} == {1}, "a lock error made an attempt fail"
    assert _state(repo) == before
    fsck = subprocess.run(["git", "fsck", "--strict"], cwd=repo, capture_output=True, check=False)
    return f"{count} work trees, {len(results)} patches, git fsck {fsck.returncode}, git status unchanged"


def _state(repo: Path) -> bytes:
    def git(*words: str) -> bytes:
        return subprocess.run(["git", *words], cwd=repo, capture_output=True, check=True).stdout

    return git("status", "--porcelain=v2", "--branch") + git("worktree", "list") + git("branch", "-a")


def money(folder: Path, limit: float = 20.0) -> str:
    """Agents that would go on for ever, at 10 cents an answer; some tasks may cost 1 dollar, some 2."""
    with LimitedServer(limit=1000, seconds=0.02, price=0.1, answer="$ true") as server:
        fleet = FleetRun(folder)
        (folder / "agent" / "models.json").write_text(json.dumps(server.models))
        tasks = ({"id": f"t{at}", "model": "mock/m1", "budget": {"maxCost": 1 + at % 2}} for at in range(60))
        fleet.tasks(tasks)
        done = fleet.run("--max-cost", str(limit), "--concurrency", "10", timeout=300)
        paid = server.served * 0.1
    assert done.returncode == 3, done.stdout
    assert paid <= limit + 10 * 0.1 + 1e-9
    return f"--max-cost {limit:g}: {paid:.2f} dollars were spent, {len(fleet.results())} tasks ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--trees", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root) / name for name in ("killed", "trees", "money")]
        for folder in folders:
            folder.mkdir()
        print(killed_worker(folders[0], given.tasks), flush=True)
        print(many_trees(folders[1], given.trees), flush=True)
        print(money(folders[2]), flush=True)


if __name__ == "__main__":
    main()
