"""R32: hostile and dying MCP servers harm no other call and leave no process; `tau mcp serve` survives any message."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path
from random import Random

from gate.figure import Figure
from gate.lots import failures, in_lots
from long import fuzz_mcp, fuzz_mcp_serve, mcp_kills

MESSAGES = 100_000
LOT = 10_000
KILLS = 200
SERVED = 20_000
SERVED_LOT = 1_000
SECONDS = 3600.0


def measure(scale: float, seed: int) -> list[Figure]:
    messages, served = max(4_000, round(MESSAGES * scale)), max(300, round(SERVED * scale))
    kills = max(2, round(KILLS * scale))

    def fuzzed(number: int, amount: int, folder: Path) -> None:
        asyncio.run(fuzz_mcp.fuzz(amount, seed + number))

    def mutated(number: int, amount: int, folder: Path) -> None:
        fuzz_mcp_serve.run(folder, amount, seed + number)

    def killed(number: int, amount: int, folder: Path) -> bool:
        problem = mcp_kills.play(folder / "x", Random(seed * 1_000_003 + number))
        if problem:
            print(f"R32, kill {number}: {problem}", file=sys.stderr)
        return bool(problem)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wrong = failures(messages, LOT, fuzzed, at_once=1)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    broken = failures(served, SERVED_LOT, mutated)
    problems = sum(in_lots(kills, 1, killed))
    return [
        Figure("R32", "lots of mutated messages of servers that do harm", messages, wrong, 0),
        Figure("R32", "memory for them", messages, round(grown, 1), fuzz_mcp.MAX_GROWTH_KIB / 1024, "MiB"),
        Figure("R32", "kills of servers and agents: processes left, calls made twice", kills, problems, 0),
        Figure("R32", "lots of mutated messages to tau mcp serve answered wrongly", served, broken, 0),
    ]
