"""Workers killed at random while many work trees of one repository exist: no task is lost, no work tree destroyed.

    python tests/long/fleet_hosts.py [TASKS] [--seed SEED]

First two fleets with the same tasks at once on one repository. Then one fleet on two hosts: network namespaces that
are connected by a pair of virtual interfaces, each with a disk of its own for work trees; the repository and the folder
of the fleet are shared. Its workers are those of dask, with TLS. What is not possible here is named.
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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fleet_kills import rows
from long.fleet_partition import HERE, THERE, UNSHARE, can_separate, separated
from support.dask_cluster import MISSING, DaskCluster, fleet_workers, is_installed
from support.fleets import FleetRun, repository, wait_for
from support.library_agent import calls

TASKS = 200
CONCURRENCY = 16
ANSWERS = [calls("write", path="new.txt", content="hello\n"), {"blocks": [{"text": ["a ", "b"]}], "delayMs": 200}]
CHECK = "test -f new.txt && git diff --quiet HEAD"  # in a work tree that lives
LOCAL_KILLS = 5  # a worker that ends more often is not started again
KILL_EVERY_S = 5.0  # a task that is lost more than five times has failed
INSIDE = "TAU_FLEET_HOSTS"
OWN_DISK = 'mount -t tmpfs none "$1"; shift; exec "$@"'


class Figures(NamedTuple):
    tasks: int
    kills: int
    lost: int
    destroyed: int

    def __str__(self) -> str:
        harm = f"{self.lost} tasks lost, {self.destroyed} work trees destroyed"
        return f"{self.tasks} tasks, {self.kills} workers killed: {harm}"


def new_fleet(folder: Path, repo: Path, count: int) -> FleetRun:
    folder.mkdir()
    fleet = FleetRun(folder, ANSWERS)
    fleet.tasks({"id": f"t{number}", "repo": str(repo), "check": CHECK} for number in range(count))
    return fleet


def state(repo: Path) -> list[str]:
    commands = ("status --porcelain=v2 --branch", "worktree list --porcelain", "branch --list")
    return [
        subprocess.run(["git", *words.split()], cwd=repo, capture_output=True, text=True, check=True).stdout
        for words in commands
    ]


def measured(fleets: Sequence[FleetRun], count: int, kills: int) -> Figures:
    """A task is lost without a result of its own; a work tree is destroyed if its patch or its check is missing."""
    lost = destroyed = 0
    for fleet in fleets:
        results = fleet.results().values()
        lost += count - len(results)
        bad = [one for one in results if one["outcome"] != "solved" or (one["patch"] or {}).get("files") != 1]
        bad += rows(fleet, "select task, how from attempt where how = 'a failure that may pass'")
        destroyed += len(bad)
        for one in bad[:5]:
            print(one, file=sys.stderr)
    return Figures(count * len(fleets), kills, lost, destroyed)


def killing(running: Iterable[subprocess.Popen[bytes]], kill: Callable[[], bool], until: float) -> int:
    """Kill something now and then, until all fleets have ended with success. Returns how much was killed."""
    kills, due = 0, time.monotonic() + KILL_EVERY_S
    waiting = list(running)
    while waiting := [process for process in waiting if process.poll() is None]:
        if time.monotonic() > due:
            kills, due = kills + kill(), time.monotonic() + KILL_EVERY_S
        assert time.monotonic() < until, "the fleets do not end"
        time.sleep(0.05)
    return kills


def two_fleets(folder: Path, count: int, seed: int) -> Figures:
    chance, repo = random.Random(seed), repository(folder / "repo", {f"f{at}.txt": f"{at}\n" for at in range(50)})
    before = state(repo)
    fleets = [new_fleet(folder / name, repo, count) for name in ("one", "two")]
    left = {name: LOCAL_KILLS for name in ("one", "two")}
    running = [fleet.start("--concurrency", str(CONCURRENCY), "--workers", "2") for fleet in fleets]

    def kill() -> bool:
        fleet = chance.choice(fleets)
        alive = fleet.workers()
        if not alive or not left[fleet.folder.name]:
            return False
        left[fleet.folder.name] -= 1
        with suppress(ProcessLookupError):
            os.kill(chance.choice(alive), signal.SIGKILL)
        return True

    kills = killing(running, kill, time.monotonic() + 1800)
    assert [process.returncode for process in running] == [0, 0]
    assert state(repo) == before
    return measured(fleets, count, kills)


class Hosts:
    """A dask cluster whose workers are on two hosts, with the same path for different disks."""

    def __init__(self, cluster: DaskCluster, other: int, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance
        self._scratch = cluster.folder / "scratch"
        self._scratch.mkdir()
        self._started = 0
        enter = ["nsenter", f"--net=/proc/{other}/ns/net"]
        self._places: dict[str, list[str]] = {HERE: [], THERE: enter}
        self._workers = {host: self._start(host) for host in self._places}

    def _start(self, host: str) -> subprocess.Popen[bytes]:
        self._started += 1
        own_disk = [*self._places[host], "unshare", "--mount", "sh", "-ec", OWN_DISK, "sh", str(self._scratch)]
        return self._cluster.add_worker(f"w{self._started}", host, own_disk, self._scratch / f"w{self._started}")

    def kill(self) -> bool:
        """A worker of dask with all that it has started, or the process with the agents beside it."""
        if self._chance.random() < 0.5:
            host = self._chance.choice(list(self._places))
            os.killpg(self._workers[host].pid, signal.SIGKILL)
            self._workers[host].wait()
            self._workers[host] = self._start(host)
            return True
        alive = fleet_workers(self._scratch)
        with suppress(ProcessLookupError, IndexError):
            os.kill(self._chance.choice(alive), signal.SIGKILL)
            return True
        return False


def two_hosts(folder: Path, count: int, seed: int) -> Figures:
    other = separated()
    repo = repository(folder / "repo", {f"f{at}.txt": f"{at}\n" for at in range(50)})
    before, fleet = state(repo), new_fleet(folder / "fleet", repo, count)
    try:
        with DaskCluster(folder / "dask", HERE) as cluster:
            hosts = Hosts(cluster, other.pid, random.Random(seed))
            process = fleet.start(*cluster.flags(fleet), "--concurrency", str(CONCURRENCY), "--per-worker", "8")
            kills = killing([process], hosts.kill, time.monotonic() + 1800)
            found = measured([fleet], count, kills)
            assert process.returncode == 0 or found.destroyed, f"the fleet ended with {process.returncode}"
            used = rows(fleet, "select distinct substr(worker, 1, 9) from attempt where ended is not null")
            assert {(HERE,), (THERE,)} <= set(used), "a host had no work"
            wait_for(lambda: not fleet_workers(folder), "workers are left")
    finally:
        other.kill()
        other.wait()
    assert state(repo) == before
    return found


def cannot_separate() -> str:
    """Why there cannot be two hosts here; empty if there can."""
    return MISSING if not is_installed() else can_separate()


def in_namespaces(count: int, seed: int) -> Figures:
    """`two_hosts` in a process of its own, which may make network namespaces."""
    words = [*UNSHARE, "--mount", sys.executable, __file__, str(count), "--seed", str(seed)]
    done = subprocess.run(words, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    print(done.stderr, file=sys.stderr)
    return Figures(*map(int, done.stdout.split()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=int, nargs="?", default=TASKS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tau-fleet-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        if INSIDE in os.environ:
            print(*two_hosts(folder, given.tasks, given.seed))
            return 0
        print("two fleets on one repository:", two_fleets(folder, given.tasks, given.seed), flush=True)
    if why := cannot_separate():
        print(f"*** one fleet on two hosts: not tried: {why} ***")
    else:
        print("one fleet on two hosts:", in_namespaces(given.tasks, given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
