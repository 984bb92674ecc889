"""Fleets on dask.distributed: the same results, whatever part of the cluster is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from long.fleet_kills import final, rows
from support.dask_cluster import MISSING, DaskCluster, fleet_workers, is_installed
from support.fleets import FleetRun, wait_for
from support.library_agent import calls

pytestmark = [pytest.mark.skipif(not is_installed(), reason=f"*** {MISSING} ***"), pytest.mark.timeout(300)]
SLOW = [{"blocks": [{"text": ["a ", "b"]}], "delayMs": 150}]


def checked(fleet: FleetRun, count: int) -> None:
    """Each task has exactly one result, in the table and in the file."""
    assert set(final(fleet)) == {f"t{number}" for number in range(count)}
    assert len(fleet.results()) == count
    assert {result["outcome"] for result in fleet.results().values()} == {"done"}


def begun(fleet: FleetRun, at_least: int = 1) -> None:
    wait_for(lambda: len(rows(fleet, "select 1 from attempt where begun is not null")) >= at_least)


def test_a_cluster_on_this_machine(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(10))
    done = fleet.run("--engine", "dask", "--concurrency", "4", "--workers", "1")
    assert done.returncode == 0, done.stderr
    checked(fleet, 10)
    wait_for(lambda: not fleet_workers(tmp_path), "workers are left")


# Tries to use the ports of a cluster without its credentials: over TCP, with TLS and without a certificate, and with
# TLS and a certificate of its own. Prints what answered.
STRANGER = r"""
import asyncio, json, ssl, sys
from distributed import Security
from distributed.comm import connect

async def within(work):
    try:
        return await asyncio.wait_for(work, 8)
    except Exception:
        return ""

async def asked(address, **options):
    comm = await connect(address, timeout=5, **options)
    await comm.write({"op": "identity", "reply": True})
    return str(await comm.read())

async def spoken(port, context):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"GET /info/main/workers.html HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    data = await reader.read()
    return data.decode(errors="replace") if b"HTTP/" in data else ""

async def tried(port):
    own, none = Security.temporary(), ssl._create_unverified_context()
    pages = [await within(spoken(port, context)) for context in (None, none)]
    if any(pages):  # dask's client would take the answer for the length of a message
        return ["", "", *pages]
    plain = await within(asked(f"tcp://127.0.0.1:{port}"))
    return [plain, await within(asked(f"tls://127.0.0.1:{port}", **own.get_connection_args("client"))), *pages]

async def main():
    for found in await asyncio.gather(*map(tried, map(int, sys.argv[1:]))):
        print(json.dumps(found))

asyncio.run(main())
"""


def descendants(pid: int) -> set[int]:
    """Those of all threads: dask starts its workers in one."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = {int(word) for file in files for word in file.read_text().split()}
    return children.union(*map(descendants, children))


def listening(pids: set[int]) -> dict[int, str]:
    """The ports of processes and where they listen."""
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    places = [line.split()[3] for line in lines if pids & {int(pid) for pid in re.findall(r"pid=(\d+)", line)}]
    return {int(place.rpartition(":")[2]): place.rpartition(":")[0] for place in places}


def answers(ports: Iterable[int]) -> list[list[str]]:
    words = [sys.executable, "-c", STRANGER, *map(str, ports)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=200)
    return [json.loads(line) for line in done.stdout.splitlines()]


def waiting_fleet(folder: Path, count: int) -> FleetRun:
    """Its agents wait until there is a file `go`."""
    command = f"touch {folder}/waits-$$; until test -e {folder}/go; do sleep 0.05; done"
    fleet = FleetRun(folder, [calls("bash", command=command), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}"} for number in range(count))
    return fleet


@pytest.mark.promise("W21")
@pytest.mark.skipif(shutil.which("ss") is None, reason="*** needs ss, which lists ports ***")
@pytest.mark.parametrize("engine", ["dask", "dask:cluster.yaml"])
def test_no_port_of_a_cluster_on_this_machine_answers_a_stranger(tmp_path: Path, engine: str) -> None:
    fleet = waiting_fleet(tmp_path, 2)
    (tmp_path / "cluster.yaml").write_text("cluster: distributed.LocalCluster\narguments: {n_workers: 2}\n")
    with fleet.running("--engine", engine, "--workers", "2", "--concurrency", "2") as process:
        wait_for(lambda: len(list(tmp_path.glob("waits-*"))) == 2, "the agents do not work")
        ports = listening({process.pid, *descendants(process.pid)})
        assert set(ports.values()) == {"127.0.0.1"}
        assert answers(ports) == [["", "", "", ""]] * len(ports)
        assert len(ports) == 5, "the scheduler, and two workers with their nannies"
        (tmp_path / "go").touch()
        assert process.wait(60) == 0


@pytest.mark.promise("W21")
@pytest.mark.skipif(shutil.which("ss") is None, reason="*** needs ss, which lists ports ***")
def test_no_port_of_a_cluster_with_credentials_answers_a_stranger(tmp_path: Path) -> None:
    fleet = waiting_fleet(tmp_path, 1)
    with DaskCluster(tmp_path / "dask") as cluster, ExitStack() as stack:
        worker = cluster.add_worker("one")
        process = stack.enter_context(fleet.running(*cluster.flags(fleet)))
        wait_for(lambda: len(list(tmp_path.glob("waits-*"))) == 1, "the agent does not work")
        assert {path.stat().st_mode & 0o777 for path in cluster.config.iterdir()} == {0o600}
        assert cluster.config.stat().st_mode & 0o777 == 0o700
        ports = listening({pid for one in (cluster.scheduler, worker) for pid in (one.pid, *descendants(one.pid))})
        found = answers(ports)
        assert [one[:2] for one in found] == [["", ""]] * len(ports)
        pages = {text.split("\r\n")[0] for one in found for text in one[2:]} - {""}
        assert pages <= {"HTTP/1.1 404 Not Found"}  # dask's own programs listen for browsers, and have no page
        (tmp_path / "go").touch()
        assert process.wait(60) == 0
    checked(fleet, 1)


@pytest.mark.promise("W21")
def test_a_scheduler_that_everybody_can_use_is_refused(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    refused = fleet.run("--engine", "dask:tcp://127.0.0.1:9")
    assert refused.returncode == 2
    assert "everybody who reaches its ports can run programs as you. `tau fleet credentials DIR`" in refused.stderr
    refused = fleet.run("--engine", "dask:tls://127.0.0.1:9")
    assert (refused.returncode, "needs a certificate" in refused.stderr) == (2, True)
    (tmp_path / "cluster.yaml").write_text(
        "cluster: distributed.LocalCluster\narguments: {n_workers: 1, security: null, protocol: tcp}\n"
    )
    refused = fleet.run("--engine", "dask:cluster.yaml")
    assert (refused.returncode, "made a scheduler without TLS" in refused.stderr) == (2, True)
    wait_for(lambda: not fleet_workers(tmp_path), "workers are left")
    assert fleet.command("credentials", "made").returncode == 0
    again = fleet.command("credentials", "made")
    assert (again.returncode, "key.pem exists" in again.stderr) == (2, True)


def test_a_cluster_that_a_file_describes(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"t{number}"} for number in range(4))
    file = tmp_path / "cluster.yaml"
    file.write_text("cluster: distributed.LocalCluster\narguments: {n_workers: 1, dashboard_address: null}\n")
    done = fleet.run("--engine", f"dask:{file}", "--concurrency", "4")
    assert done.returncode == 0, done.stderr
    checked(fleet, 4)
    file.write_text("workers: 3\n")
    fleet.tasks({"id": f"u{number}"} for number in range(4))
    refused = fleet.run("--engine", f"dask:{file}")
    assert refused.returncode == 2
    assert "`cluster: module.Class` was expected" in refused.stderr


@pytest.mark.promise("W01")
def test_a_killed_worker_of_dask_loses_no_task(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, SLOW)
    fleet.tasks({"id": f"t{number}"} for number in range(40))
    with DaskCluster(tmp_path / "dask") as cluster:
        first, _ = cluster.add_worker("one"), cluster.add_worker("two")
        process = fleet.start(*cluster.flags(fleet), "--concurrency", "10")
        begun(fleet, 10)
        os.killpg(first.pid, signal.SIGKILL)
        wait_for(lambda: len(fleet_workers(tmp_path / "dask")) == 1, "agents outlive the worker of dask")
        # And the process with the agents, beside a worker of dask that lives.
        os.kill(fleet_workers(tmp_path / "dask")[0], signal.SIGKILL)
        assert process.wait(120) == 0
        checked(fleet, 40)
        wait_for(lambda: not fleet_workers(tmp_path / "dask"), "workers are left")


@pytest.mark.promise("W05")
def test_after_a_killed_scheduler_of_dask_the_next_run_goes_on(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, SLOW)
    fleet.tasks({"id": f"t{number}"} for number in range(30))
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker("one")
        process = fleet.start(*cluster.flags(fleet), "--concurrency", "5")
        wait_for(lambda: final(fleet))
        os.killpg(cluster.scheduler.pid, signal.SIGKILL)
        assert process.wait(60) == 1
        wait_for(lambda: not fleet_workers(tmp_path / "dask"), "agents outlive the scheduler")
    before = final(fleet)
    assert 0 < len(before) < 30
    with DaskCluster(tmp_path / "dask2") as cluster:
        cluster.add_worker("one")
        assert fleet.run(*cluster.flags(fleet), "--concurrency", "10").returncode == 0
    checked(fleet, 30)
    assert {task: final(fleet)[task] for task in before} == before


@pytest.mark.promise("W02")
def test_a_killed_coordinator_stops_its_agents_in_dask(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, SLOW)
    fleet.tasks({"id": f"t{number}"} for number in range(30))
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker("one")
        for _ in range(3):
            process = fleet.start(*cluster.flags(fleet), "--concurrency", "5")
            count = len(rows(fleet, "select 1 from attempt where begun is not null"))
            begun(fleet, count + 3)
            process.kill()
            process.wait()
            wait_for(lambda: not fleet_workers(tmp_path / "dask"), "agents outlive the coordinator")
        assert fleet.run(*cluster.flags(fleet), "--concurrency", "10").returncode == 0
    checked(fleet, 30)


def test_agents_in_dask_outlive_a_killed_coordinator_if_they_should(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"touch {tmp_path}/waits-$$; until test -e {go}; do sleep 0.05; done"
    fleet = FleetRun(tmp_path, [calls("bash", command=command), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}"} for number in range(4))
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker("one")
        flags = (*cluster.flags(fleet), "--concurrency", "4", "--orphans", "keep")
        process = fleet.start(*flags)
        wait_for(lambda: len(list(tmp_path.glob("waits-*"))) == 4, "the agents do not work")
        process.kill()
        process.wait()
        process = fleet.start(*flags)
        wait_for(lambda: list((fleet.out / "orphans").glob("*.in")), "the worker was not found")
        go.touch()
        assert process.wait(120) == 0
    checked(fleet, 4)
    assert {result["attempt"] for result in fleet.results().values()} == {1}
    wait_for(lambda: not fleet_workers(tmp_path), "workers are left")


@pytest.mark.promise("W05")
def test_a_cluster_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    assert fleet.command("credentials", "made").returncode == 0
    fleet.variables["DASK_CONFIG"] = str(tmp_path / "made")
    refused = fleet.run("--engine", "dask:tls://127.0.0.1:9")
    assert refused.returncode == 2
    assert "--engine dask:tls://127.0.0.1:9: Timed out" in refused.stderr
    assert "Traceback" not in refused.stderr
