"""Run a fleet while every second something is killed or stopped; in the end its table equals that of a quiet run.

    python tests/long/fleet_monkey.py [SECONDS] [--seed SEED] [--dask]

Workers and the coordinator are killed (SIGKILL), stopped and continued, all at once or one by one. The coordinator
is started again each time it is gone. With `--dask`, a scheduler and two workers of dask are among the victims.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fleet_kills import final, rows
from support.dask_cluster import DaskCluster, fleet_workers
from support.fleets import FleetRun, wait_for
from support.rpc_process import Json

SAME = ("id", "outcome", "text", "turns", "toolCalls", "model", "taskHash", "labels", "check")
CALL: Json = {"blocks": [{"tool": "bash", "arguments": {"command": "echo one"}}]}
ANSWERS: list[Json] = [CALL, {"blocks": [{"text": ["a ", "b ", "c"]}], "delayMs": 30}]


def table(fleet: FleetRun) -> list[Json]:
    """What must be equal: everything but times, workers and the numbers of attempts."""
    return sorted(
        ({name: result[name] for name in SAME} for result in fleet.results().values()), key=lambda one: one["id"]
    )


class Monkey:
    def __init__(self, folder: Path, seed: int, tasks: int, *, dask: bool) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.fleet = FleetRun(folder, ANSWERS)
        self.fleet.tasks(
            {"id": f"t{number}", "check": "true", "labels": {"n": str(number % 7)}} for number in range(tasks)
        )
        self.stack = ExitStack()
        self.cluster: DaskCluster | None = None
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.dask = dask
        self.clusters = self.deeds = self.lives = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped: list[tuple[float, int]] = []

    def flags(self) -> tuple[str, ...]:
        if not self.dask:
            return ("--concurrency", "20", "--workers", "2")
        if self.cluster is None or self.cluster.scheduler.poll() is not None:
            self.stack.close()
            self.clusters += 1
            self.cluster = self.stack.enter_context(DaskCluster(self.folder / f"dask{self.clusters}"))
            self.nodes = []
        self.nodes = [node for node in self.nodes if node.poll() is None]
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_worker(f"n{self.chance.randrange(10**9)}"))
        return ("--concurrency", "20", "--engine", f"dask:{self.cluster.address}")

    def keep_running(self) -> bool:
        """Start the coordinator if it is not there. False when everything is done."""
        if self.process is not None and self.process.poll() is None:
            return True
        if self.process is not None and self.process.returncode == 0:
            return False
        self.process = self.fleet.start(*self.flags())
        self.lives += 1
        return True

    def deed(self) -> None:
        self.deeds += 1
        workers = fleet_workers(self.folder)
        kind = self.chance.choice(["worker", "worker", "coordinator", "stop", "all", "node", "scheduler"])
        assert self.process is not None
        victims = {
            "worker": workers[:1],
            "coordinator": [self.process.pid],
            "all": [self.process.pid, *workers],
            "node": [node.pid for node in self.nodes[:1]],
            "scheduler": [self.cluster.scheduler.pid] if self.cluster is not None else [],
        }.get(kind, [])
        if kind == "stop" and workers:
            self.signal(workers[0], signal.SIGSTOP)
            self.stopped.append((time.monotonic() + self.chance.choice([1, 3, 10, 90]), workers[0]))
        for victim in victims:
            self.signal(victim, signal.SIGKILL)

    def signal(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def let_go(self, now: float) -> None:
        for due, pid in [one for one in self.stopped if one[0] <= now]:
            self.stopped.remove((due, pid))
            self.signal(pid, signal.SIGCONT)

    def run(self, seconds: float) -> None:
        end, next_deed = time.monotonic() + seconds, time.monotonic() + 1
        while self.keep_running():
            now = time.monotonic()
            self.let_go(now)
            if next_deed <= now < end:
                self.deed()
                next_deed = now + 1
            if now > end:
                self.let_go(now + 1000)
            assert now < end + 600, f"it does not end: {len(final(self.fleet))} results"
            time.sleep(0.05)
        self.stack.close()
        wait_for(lambda: not fleet_workers(self.folder), "workers are left")


def run(folder: Path, seconds: float, seed: int, tasks: int, *, dask: bool = False) -> str:
    (folder / "quiet").mkdir()
    (folder / "monkey").mkdir()
    monkey = Monkey(folder / "monkey", seed, tasks, dask=dask)
    quiet = FleetRun(folder / "quiet", ANSWERS)
    quiet.file.write_bytes(monkey.fleet.file.read_bytes())
    monkey.run(seconds)
    assert quiet.run("--concurrency", "20", timeout=1200).returncode == 0
    assert table(monkey.fleet) == table(quiet), "the tables differ"
    attempts = rows(monkey.fleet, "select count(*) from attempt")[0][0]
    return (
        f"{tasks} tasks, {monkey.deeds} deeds, {monkey.lives} coordinators, {attempts} attempts:"
        f" the table equals that of a quiet run"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=0, help="default: ten for each second")
    parser.add_argument("--dask", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tasks = given.tasks or round(given.seconds * 10)
        print(run(Path(folder), given.seconds, given.seed, tasks, dask=given.dask))


if __name__ == "__main__":
    main()
