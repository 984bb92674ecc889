"""Run a fleet while every second something is killed or stopped; in the end its table equals that of a quiet run.

    python tests/long/fleet_monkey.py [SECONDS] [--seed SEED] [--tasks 10000] [--dask]

Victims are workers, the coordinator, the processes that run commands, and all at once; they are killed (SIGKILL) or
stopped and continued, for up to 90 seconds. Lines of workers are cut, and the disk of the fleet is full for a while (a
file system in memory, where this user may mount one). The coordinator is started again each time it is gone. With
`--dask`, a scheduler and two workers of dask are among the victims, also while they are being found again.
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
from collections import Counter
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


LOCAL = ("worker", "worker", "coordinator", "stop", "all", "runner", "cut", "disk", "pause")
DASK = (
    "worker",
    "coordinator",
    "stop",
    "all",
    "runner",
    "node",
    "nodes",
    "scheduler",
    "scheduler and coordinator",
    "hang",
)
DISK_MB = 300
FULL_S = 3.0
INSIDE = "TAU_FLEET_MONKEY"
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]


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
        self.kinds = DASK if dask else LOCAL
        self.clusters = self.lives = 0
        self.deeds: Counter[str] = Counter()
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped: list[tuple[float, int]] = []
        self.full_until = 0.0
        if INSIDE in os.environ:
            self.fleet.out.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(self.fleet.out)]
            subprocess.run(mount, check=True)

    def flags(self) -> tuple[str, ...]:
        if self.kinds is LOCAL:
            worker = f"{sys.executable} -m tau fleet worker --slots 10 --root {self.fleet.out / 'local'}"
            cutting = Path(__file__).parents[1] / "support" / "cutting_worker.py"
            return ("--concurrency", "20", "--worker", f"{sys.executable} {cutting} {self.folder}/cut {worker} \u00d72")
        if self.cluster is None or self.cluster.scheduler.poll() is not None:
            self.stack.close()
            self.clusters += 1
            self.cluster = self.stack.enter_context(DaskCluster(self.folder / f"dask{self.clusters}"))
            self.nodes = []
        self.replace_nodes()
        return ("--concurrency", "20", *self.cluster.flags(self.fleet))

    def replace_nodes(self) -> None:
        """As the operator of a cluster does: a fleet waits for workers as long as its scheduler lives."""
        if self.cluster is None or self.cluster.scheduler.poll() is not None:
            return
        self.nodes = [node for node in self.nodes if node.poll() is None]
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_worker(f"n{self.chance.randrange(10**9)}"))

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
        kind = self.chance.choice(self.kinds)
        self.deeds[kind] += 1
        assert self.process is not None
        if kind == "cut":
            (self.folder / "cut").touch()
        elif kind == "disk":
            self.fill_disk()
        elif kind in ("stop", "pause", "hang"):
            victims = self.victims({"stop": "worker", "pause": "coordinator", "hang": "scheduler"}[kind])
            seconds = self.chance.choice([1, 3, 10, 90] if kind == "stop" else [1, 3, 10])
            for victim in victims:
                self.signal(victim, signal.SIGSTOP)
                self.stopped.append((time.monotonic() + seconds, victim))
        else:
            for victim in self.victims(kind):
                self.signal(victim, signal.SIGKILL)

    def victims(self, kind: str) -> list[int]:
        assert self.process is not None
        workers = fleet_workers(self.folder)
        self.chance.shuffle(workers)
        scheduler = [self.cluster.scheduler.pid] if self.cluster is not None else []
        return {
            "worker": workers[:1],
            "coordinator": [self.process.pid],
            "all": [self.process.pid, *workers],
            "runner": [child for worker in workers for child in _children(worker)][:1],
            "node": [node.pid for node in self.nodes[:1]],
            "nodes": [node.pid for node in self.nodes],
            "scheduler": scheduler,
            "scheduler and coordinator": [*scheduler, self.process.pid],
        }[kind]

    def fill_disk(self) -> None:
        if INSIDE in os.environ and not self.full_until:
            self.full_until = time.monotonic() + FULL_S
            with suppress(OSError), (self.fleet.out / "ballast").open("wb", buffering=0) as file:
                while file.write(bytes(1 << 20)):
                    pass

    def kill_all(self) -> None:
        """Leave nothing behind, also after a failure."""
        self.stack.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        for pid in fleet_workers(self.folder):
            self.signal(pid, signal.SIGKILL)

    def signal(self, pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def let_go(self, now: float) -> None:
        for due, pid in [one for one in self.stopped if one[0] <= now]:
            self.stopped.remove((due, pid))
            self.signal(pid, signal.SIGCONT)
        if self.full_until and self.full_until <= now:
            self.full_until = 0.0
            (self.fleet.out / "ballast").unlink(missing_ok=True)

    def run(self, seconds: float) -> None:
        end, next_deed = time.monotonic() + seconds, time.monotonic() + 1
        while self.keep_running():
            now = time.monotonic()
            self.let_go(now)
            self.replace_nodes()
            if next_deed <= now < end:
                self.deed()
                next_deed = now + 1
            if now > end:
                self.let_go(now + 1000)
            assert now < end + 1800, f"it does not end: {len(final(self.fleet))} results"
            time.sleep(0.05)
        self.stack.close()
        wait_for(lambda: not fleet_workers(self.folder), "workers are left")


def _children(pid: int) -> list[int]:
    """The processes that run the commands of a worker, among them the supervisor."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def run(folder: Path, seconds: float, seed: int, tasks: int, *, dask: bool = False) -> str:
    (folder / "quiet").mkdir()
    (folder / "monkey").mkdir()
    monkey = Monkey(folder / "monkey", seed, tasks, dask=dask)
    quiet = FleetRun(folder / "quiet", ANSWERS)
    quiet.file.write_bytes(monkey.fleet.file.read_bytes())
    try:
        monkey.run(seconds)
    finally:
        monkey.kill_all()
    deeds = ", ".join(f"{count} {kind}" for kind, count in sorted(monkey.deeds.items()))
    print(f"{len(monkey.fleet.results())} results after {deeds}; now the quiet run", flush=True)
    assert quiet.run("--concurrency", "20", timeout=7200).returncode == 0
    assert table(monkey.fleet) == table(quiet), "the tables differ"
    attempts = rows(monkey.fleet, "select count(*) from attempt")[0][0]
    return (
        f"{tasks} tasks, {sum(monkey.deeds.values())} deeds, {monkey.lives} coordinators,"
        f" {attempts} attempts: the table equals that of a quiet run"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--dask", action="store_true")
    given = parser.parse_args()
    if not given.dask and INSIDE not in os.environ and _can_mount():
        os.environ[INSIDE] = "1"
        return subprocess.run([*UNSHARE, sys.executable, *sys.argv], check=False).returncode
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a mounted folder cannot be removed
        print(run(Path(folder), given.seconds, given.seed, given.tasks, dask=given.dask))
    return 0


def _can_mount() -> bool:
    probe = [*UNSHARE, "mount", "-t", "tmpfs", "-o", "size=1m", "none", "/mnt"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
