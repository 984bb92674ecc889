"""Seeded schedules of an MCP server and its callers: random interleavings keep all rules, and known races are found.

`make fuzz` plays many more (tests/long/front_end_schedules.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from long.front_end_schedules import Playground
from support.schedule_cases import Json
from tau.runtime.mcp.connection import Connection
from tau.runtime.mcp.server import McpServer

SCHEDULES = 150
MORE = 150
PLAIN: Json = {
    "seed": 1,
    "stall": 0.0,
    "era": "legacy",
    "start_fails": 0.0,
    "idle_s": 600.0,
    "timeout_s": 60.0,
    "startup_s": 30.0,
}


@pytest.fixture
def ground() -> Iterator[Playground]:
    with Playground("mcp") as made:
        yield made


def test_a_schedule_depends_on_its_seed_alone(ground: Playground) -> None:
    first, second = ([ground.play(ground.case(seed)).trace for seed in range(15)] for _ in range(2))
    assert first == second


def test_schedules_keep_all_rules(ground: Playground) -> None:
    broken = [(seed, ground.problems(seed, permute=seed % 3 == 2)) for seed in range(SCHEDULES)]
    assert [one for one in broken if one[1]] == []


# What the schedules found.


def played(ground: Playground, *operations: Json, seed: int = 1) -> list[str]:
    """The trace of these operations; `n` is their number."""
    numbered = [{"n": n, "pick": 0, **operation} for n, operation in enumerate(operations)]
    done = ground.play({**PLAIN, "seed": seed, "operations": numbered})
    assert done.problems == []
    return done.trace


def test_a_call_that_waits_for_a_start_which_is_stopped_fails_and_is_not_cancelled(ground: Playground) -> None:
    for seed in range(10):
        trace = played(ground, {"do": "call", "at": 0.0}, {"do": "stop", "on": ["state starting", 1, 1]}, seed=seed)
        assert any("call 0 failed: The MCP server fake was stopped." in line for line in trace), trace


def test_a_restart_during_a_start_starts_the_server(ground: Playground) -> None:
    for seed in range(10):
        restart = {"do": "restart", "on": ["state starting", 1, 1]}
        trace = played(ground, {"do": "start", "at": 0.0}, restart, seed=seed)
        assert any("restart 1 ended" in line for line in trace), trace


def test_a_stop_that_is_cancelled_leaves_no_process(ground: Playground) -> None:
    for seed in range(10):
        stop, cancel = {"do": "stop", "at": 60.0}, {"do": "cancel", "on": ["ask stop", 1, 3]}
        played(ground, {"do": "call", "at": 0.0}, stop, cancel, seed=seed)


def test_a_server_starts_again_when_its_last_process_has_ended(ground: Playground) -> None:
    for seed in range(10):
        again = {"do": "call", "on": ["ask stop", 1, 3]}
        played(ground, {"do": "call", "at": 0.0}, {"do": "stop", "at": 60.0}, again, seed=seed)


def test_a_change_that_a_server_announces_after_its_restart_is_seen(ground: Playground) -> None:
    """The task that fetched the lists of the process before still waits then."""
    for seed in range(40):
        changed, again = {"do": "list_changed", "at": 2.0}, {"do": "list_changed", "on": ["ended", 2, 1]}
        restart = {"do": "restart", "on": ["changed", 3, 1]}
        played(ground, {"do": "call", "at": 0.0}, changed, restart, again, seed=seed)


# Races that are put back in.


async def connect_or_be_cancelled(self: McpServer) -> Any:
    """In the place of McpServer._connection."""
    if self._connected is not None and self._connected.connection.error is None:
        return self._connected
    if self._starting is None:
        self._check_startable()
        self._starting = asyncio.ensure_future(self._start())
        self._starting.add_done_callback(self._start_ended)
    return await asyncio.shield(self._starting)


async def send_again(self: McpServer, connected: Any, error: Any) -> bool:
    """In the place of McpServer._is_refused: a call whose connection broke is sent again."""
    return "exited" in str(error)


async def close_and_leave(self: Connection, grace_s: float) -> None:
    """In the place of Connection.close."""
    await self.transport.close(grace_s)


RACES: dict[str, tuple[Any, str, Any, str]] = {
    "a stop cancels the callers": (McpServer, "_connection", connect_or_be_cancelled, "cancelled"),
    "a call is sent twice": (McpServer, "_is_refused", send_again, "once"),
    "calls wait for a server that was stopped": (Connection, "close", close_and_leave, "processes"),
}


@pytest.mark.parametrize("race", RACES)
def test_a_race_is_found(ground: Playground, race: str) -> None:
    place, name, value, rule = RACES[race]
    with patch.object(place, name, value):
        found = (broken for seed in range(MORE) for broken, _ in ground.problems(seed))
        assert any(broken == rule for broken in found), f"no schedule breaks the rule {rule!r}"
