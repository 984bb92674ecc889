"""Kill the coordinator of a fleet at random moments: no final result is lost, changed or doubled, and it goes on.

    python tests/long/fleet_kills.py [KILLS] [--seed SEED]

Every life of the coordinator finds new tasks in the task file, and is killed (SIGKILL) soon: while it starts,
claims, stores results or ends. Sometimes its workers are killed with it, and sometimes the next life begins
while the workers of the last one are still there. At the end each task has one result.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.fleets import FleetRun

KILLS = 1000
TASKS_OF_A_LIFE = 6
LONGEST_LIFE_S = 1.0


class Figures(NamedTuple):
    kills: int
    tasks: int
    attempts: int
    going_on_s: float
    """from the start of a coordinator to its first new attempt, at the end of all kills"""


def rows(fleet: FleetRun, query: str) -> list[tuple[object, ...]]:
    path = fleet.out / "ledger.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=30)) as database:
        try:
            return list(database.execute(query))
        except sqlite3.OperationalError:  # killed before the tables were there
            return []


def final(fleet: FleetRun) -> dict[object, object]:
    return {task: record for task, record in rows(fleet, "select task, record from result")}


class Story:
    """`stub`: with workers that have no agent, so that a life is short."""

    def __init__(self, folder: Path, seed: int, *, stub: bool = False) -> None:
        self.chance = random.Random(seed)
        self.longest = 0.3 if stub else LONGEST_LIFE_S
        self.fleet = FleetRun(folder, [{"blocks": [{"text": ["a ", "b ", "c"]}], "delayMs": 15}])
        workers = ("--worker", self.fleet.stub_worker()) if stub else ("--workers", "1")
        self.flags = ("--concurrency", "8", *workers)
        self.count = 0
        self.known: dict[object, object] = {}

    def add_tasks(self, count: int) -> None:
        self.count += count
        self.fleet.tasks({"id": f"t{number}"} for number in range(self.count))

    def live(self) -> None:
        """One life of the coordinator, and what must hold after it."""
        self.add_tasks(TASKS_OF_A_LIFE)
        attempts = self.attempts()
        process = self.fleet.start(*self.flags)
        if self.chance.random() < 0.6:  # however long a start takes on a busy machine: kill it at work
            end = time.monotonic() + 20
            while self.attempts() == attempts and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.chance.uniform(0.0, self.longest))
        victims = self.fleet.workers() if self.chance.random() < 0.2 else []
        process.kill()
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        process.wait()
        if self.chance.random() < 0.5:
            self.wait_for_workers()
        self.check()

    def attempts(self) -> object:
        return rows(self.fleet, "select count(*) from attempt")

    def check(self) -> None:
        now = final(self.fleet)
        lost = {task for task, record in self.known.items() if now.get(task) != record}
        assert not lost, f"final results are gone or changed: {sorted(map(str, lost))[:5]}"
        self.known = now

    def wait_for_workers(self) -> None:
        end = time.monotonic() + 20
        while self.fleet.workers():
            assert time.monotonic() < end, "workers outlive their coordinator"
            time.sleep(0.02)

    def finish(self) -> float:
        """Run to the end. Returns how long it took to go on."""
        self.add_tasks(TASKS_OF_A_LIFE)
        self.wait_for_workers()
        before = self.attempts()
        started = time.monotonic()
        process = self.fleet.start(*self.flags)
        while self.attempts() == before and process.poll() is None:
            time.sleep(0.02)
        took = time.monotonic() - started
        assert process.wait(300) == 0
        self.check()
        self.check_end()
        return took

    def check_end(self) -> None:
        names = {f"t{number}" for number in range(self.count)}
        assert set(self.known) == names, f"{len(names - set(self.known))} tasks have no result"
        lines = [json.loads(line) for line in (self.fleet.out / "results.jsonl").read_text().splitlines()]
        twice = [name for name, count in Counter(line["id"] for line in lines).items() if count > 1]
        assert not twice, f"results.jsonl has two results of {twice[:5]}"
        assert {line["id"] for line in lines} == names
        for line in lines:  # the result that counts is that of an attempt that was claimed
            assert (self.fleet.out / "tasks" / line["id"] / str(line["attempt"]) / "result.json").exists(), line["id"]
        under_way = rows(self.fleet, "select task, number from attempt where ended is null")
        assert not under_way, f"attempts without an end: {under_way[:5]}"
        self.wait_for_workers()


def run(folder: Path, kills: int, seed: int = 0, *, stub: bool = False) -> Figures:
    story = Story(folder, seed, stub=stub)
    for _ in range(kills):
        story.live()
    took = story.finish()
    ((attempts,),) = rows(story.fleet, "select count(*) from attempt")
    assert isinstance(attempts, int)
    return Figures(kills, story.count, attempts, took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=KILLS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), given.kills, given.seed))


if __name__ == "__main__":
    main()
