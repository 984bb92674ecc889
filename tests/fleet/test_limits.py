"""Limits of a fleet: a provider that answers 429, and money."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from long.fleet_kills import rows
from support.fleets import FleetRun
from support.limited_server import LimitedServer


@pytest.mark.promise("W15")
def test_a_provider_that_refuses_gets_less_at_once_and_no_task_fails(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    retry = {"retry": {"baseDelayMs": 20, "maxRetries": 1}}
    task = {"model": "mock/m1", "settings": retry, "retries": 0}
    with LimitedServer(limit=3, seconds=0.1) as server:
        (tmp_path / "agent" / "models.json").write_text(json.dumps(server.models))
        fleet.tasks({**task, "id": f"t{number}"} for number in range(24))
        done = fleet.run("--concurrency", "12", "--workers", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.refused > 0
        assert server.most <= 3
    assert {result["outcome"] for result in fleet.results().values()} == {"done"}
    assert rows(fleet, "select 1 from event where kind = 'limited' and about = 'mock'")
    # Refusals do not count as retries (which are 0 here), but they are attempts in the ledger.
    assert {how for (how,) in rows(fleet, "select distinct how from attempt")} <= {"done", "a failure outside the task"}


@pytest.mark.promise("W14")
def test_what_killed_attempts_have_cost_counts_against_the_money_of_the_fleet(tmp_path: Path) -> None:
    """An answer costs 1 dollar; an agent would go on for ever. Each task may cost 3, the fleet 10."""
    fleet = FleetRun(tmp_path)
    with LimitedServer(limit=100, seconds=0.05, price=1.0, answer="$ true") as server:
        (tmp_path / "agent" / "models.json").write_text(json.dumps(server.models))
        fleet.tasks({"model": "mock/m1", "id": f"t{number}", "budget": {"maxCost": 3}} for number in range(10))
        lost = 0.0
        while not lost:  # again if the attempts that had cost something ended before the kill
            process = fleet.start("--max-cost", "10", "--concurrency", "2", "--workers", "1")
            while not rows(fleet, "select 1 from attempt where cost > 0 and ended is null"):
                assert process.poll() is None
            process.kill()
            process.wait()
            lost = rows(fleet, "select sum(cost) from attempt where ended is null")[0][0]
        assert fleet.run("--max-cost", "10", "--concurrency", "2", "--workers", "1").returncode == 3
    (spent,) = rows(fleet, "select sum(cost) from attempt")[0]
    assert lost < spent <= 10
    assert server.served <= 10 + 2 + lost  # one answer for each task under way, and what a killed worker had in flight
