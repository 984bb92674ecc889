"""Cut the network to a worker of dask for longer than its lease, with real packets in network namespaces.

    python tests/long/fleet_partition.py [--seconds 100]

The coordinator, the scheduler and one worker are in a namespace, a second worker is in another; a pair of virtual
interfaces connects them. While tasks run on both, packets are dropped: the tasks of the second worker are
done by the first. Then the network is back. Each task has exactly one result. Without the right to make namespaces, it
says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fleet_kills import final, rows
from support.dask_cluster import MISSING, DaskCluster, is_installed
from support.fleets import FleetRun, wait_for

HERE, THERE = "10.77.0.1", "10.77.0.2"
TASKS = 60
INSIDE = "TAU_FLEET_PARTITION"
UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]


def shell(command: str) -> None:
    subprocess.run(["sh", "-ec", command], check=True)


def can_separate() -> str:
    """Empty if namespaces with a pair of interfaces can be made; else why not."""
    probe = subprocess.run(
        [*UNSHARE, "sh", "-ec", "ip link add here type veth peer name there"],
        capture_output=True,
        text=True,
        check=False,
    )
    return probe.stderr.strip() if probe.returncode else ""


def separated() -> subprocess.Popen[bytes]:
    """A process in another network namespace, which is connected to this one."""
    process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 3600"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    pid = process.pid
    shell(
        f"ip link set lo up; ip link add here type veth peer name there netns {pid}; ip addr add {HERE}/24 dev here;"
        f"ip link set here up; nsenter --net=/proc/{pid}/ns/net sh -ec"
        f" 'ip link set lo up; ip addr add {THERE}/24 dev there; ip link set there up'"
    )
    return process


def cut(pid: int) -> None:
    """Every packet, in both directions, goes to a hardware address that does not exist. Connections stay open."""
    shell(
        f"ip neigh replace {THERE} lladdr 02:00:00:00:00:99 dev here nud permanent;"
        f"nsenter --net=/proc/{pid}/ns/net ip neigh replace {HERE} lladdr 02:00:00:00:00:98 dev there nud permanent"
    )


def join(pid: int) -> None:
    shell(f"ip neigh del {THERE} dev here; nsenter --net=/proc/{pid}/ns/net ip neigh del {HERE} dev there")


def run(folder: Path, seconds: float) -> str:
    other = separated()
    fleet = FleetRun(folder, [{"blocks": [{"text": ["a ", "b ", "c"]}], "delayMs": 700}])
    fleet.tasks({"id": f"t{number}"} for number in range(TASKS))
    try:
        with DaskCluster(folder / "dask", HERE) as cluster:
            cluster.add_worker("near")
            cluster.add_worker("far", THERE, ["nsenter", f"--net=/proc/{other.pid}/ns/net"])
            process = fleet.start(*cluster.flags(fleet), "--concurrency", "8", "--per-worker", "4")
            far = "select task from attempt where worker like '10.77.0.2%' and begun is not null"
            wait_for(lambda: len(rows(fleet, far)) >= 4, "the far worker got nothing")
            cut(other.pid)
            began, noticed = time.monotonic(), 0.0
            while time.monotonic() - began < seconds and process.poll() is None:
                if not noticed and rows(fleet, "select 1 from event where kind = 'worker lost'"):
                    noticed = time.monotonic() - began
                time.sleep(0.1)
            join(other.pid)
            code = process.wait(300)
            assert code == 0, f"the fleet ended with {code}"
            lost = rows(fleet, "select 1 from attempt where worker like '10.77.0.2%' and how like '%lost%'")
    finally:
        other.kill()
        other.wait()
    assert set(final(fleet)) == {f"t{number}" for number in range(TASKS)}, "a task has no result"
    assert len(fleet.results()) == TASKS
    assert 0 < noticed <= 70, f"the loss was noticed after {noticed:.1f} s"
    return (
        f"{TASKS} tasks, {TASKS} results; noticed after {noticed:.1f} s, {len(lost)} attempts given to the other worker"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100.0)
    given = parser.parse_args()
    if why := (MISSING if not is_installed() else can_separate()):
        print(f"*** not tried: {why} ***")
        return 0
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        return subprocess.run(
            [*UNSHARE, sys.executable, __file__, "--seconds", str(given.seconds)], check=False
        ).returncode
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), given.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
