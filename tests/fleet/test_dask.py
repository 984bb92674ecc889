"""Fleets on dask.distributed: the same results, whatever part of the cluster is killed."""

from __future__ import annotations

import os
import signal
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
        process = fleet.start("--engine", f"dask:{cluster.address}", "--concurrency", "10")
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
        process = fleet.start("--engine", f"dask:{cluster.address}", "--concurrency", "5")
        wait_for(lambda: final(fleet))
        os.killpg(cluster.scheduler.pid, signal.SIGKILL)
        assert process.wait(60) == 1
        wait_for(lambda: not fleet_workers(tmp_path / "dask"), "agents outlive the scheduler")
    before = final(fleet)
    assert 0 < len(before) < 30
    with DaskCluster(tmp_path / "dask2") as cluster:
        cluster.add_worker("one")
        assert fleet.run("--engine", f"dask:{cluster.address}", "--concurrency", "10").returncode == 0
    checked(fleet, 30)
    assert {task: final(fleet)[task] for task in before} == before


@pytest.mark.promise("W02")
def test_a_killed_coordinator_stops_its_agents_in_dask(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, SLOW)
    fleet.tasks({"id": f"t{number}"} for number in range(30))
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker("one")
        for _ in range(3):
            process = fleet.start("--engine", f"dask:{cluster.address}", "--concurrency", "5")
            count = len(rows(fleet, "select 1 from attempt where begun is not null"))
            begun(fleet, count + 3)
            process.kill()
            process.wait()
            wait_for(lambda: not fleet_workers(tmp_path / "dask"), "agents outlive the coordinator")
        assert fleet.run("--engine", f"dask:{cluster.address}", "--concurrency", "10").returncode == 0
    checked(fleet, 30)


def test_agents_in_dask_outlive_a_killed_coordinator_if_they_should(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"touch {tmp_path}/waits-$$; until test -e {go}; do sleep 0.05; done"
    fleet = FleetRun(tmp_path, [calls("bash", command=command), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}"} for number in range(4))
    with DaskCluster(tmp_path / "dask") as cluster:
        cluster.add_worker("one")
        flags = ("--engine", f"dask:{cluster.address}", "--concurrency", "4", "--orphans", "keep")
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
    refused = fleet.run("--engine", "dask:tcp://127.0.0.1:9")
    assert refused.returncode == 2
    assert "--engine dask:tcp://127.0.0.1:9" in refused.stderr
    assert "Traceback" not in refused.stderr
