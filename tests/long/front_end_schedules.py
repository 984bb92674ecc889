"""Schedules of the front ends: server, ACP, MCP and terminal in random interleavings of all that happens to them.

    python tests/long/front_end_schedules.py KIND [SCHEDULES] [--seed FIRST] [--jobs PROCESSES]      (make fuzz)
    python tests/long/front_end_schedules.py KIND --replay SEED        one schedule, made small, with all that was seen

A schedule depends on its seed alone: tests/support/schedule_loop.py says how, the module of its kind what happens in it
and what must hold. Seeds that are done are kept in a file (--state), so that a run that was interrupted is continued.
Each broken rule is shown with its seed and the fewest operations that break it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.schedules import PORTION, State
from support.schedule_cases import Json
from support.schedule_world import Workshop
from support.staged_schedule import Played, Problem, make_small

SCHEDULES = 100_000
SHRUNK = 3  # problems of each rule that are made small
# Each has `case(seed)`, `play(case, workshop, permute=...)`, and PLAIN: the simplest values of the fields of a case.
KINDS = {
    "server": "support.server_schedule",
    "acp": "support.acp_schedule",
    "mcp": "support.mcp_schedule",
    "terminal": "support.terminal_schedule",
}


class Playground:
    """A folder for the schedules of one kind, in memory if the system has such a file system."""

    def __init__(self, kind: str) -> None:
        self._kind: Any = importlib.import_module(KINDS[kind])

    def __enter__(self) -> Playground:
        memory = Path("/dev/shm")
        self._folder = tempfile.mkdtemp(prefix="tau-schedules-", dir=memory if os.access(memory, os.W_OK) else None)
        self.workshop = Workshop(Path(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def case(self, seed: int) -> Json:
        made: Json = self._kind.case(seed)
        return made

    def play(self, case: Json, *, permute: bool = False) -> Played:
        played: Played = self._kind.play(case, self.workshop, permute=permute)
        return played

    def problems(self, seed: int, *, permute: bool = False) -> list[Problem]:
        return self.play(self.case(seed), permute=permute).problems

    def shrunk(self, case: Json, rule: str, *, permute: bool = False) -> Json:
        def breaks(smaller: Json) -> bool:
            return any(found == rule for found, _ in self.play(smaller, permute=permute).problems)

        return make_small(case, breaks, self._kind.PLAIN)


def portion(work: tuple[str, int, int, bool]) -> tuple[int, int, list[tuple[int, str, str]]]:
    """Play the seeds of one portion, in a process of the pool."""
    kind, first, count, permute = work
    found: list[tuple[int, str, str]] = []
    with Playground(kind) as ground:
        for seed in range(first, first + count):
            try:
                broken = ground.problems(seed, permute=permute)
            except Exception as error:
                broken = [("fuzzer", f"{type(error).__name__}: {error}")]
            found += [(seed, rule, text) for rule, text in broken]
    return first, count, found


def fuzz(options: argparse.Namespace) -> int:
    arguments = {"kind": options.kind, "seed": options.seed, "count": options.schedules, "permute": options.permute}
    path = options.state or Path(tempfile.gettempdir(), f"tau-schedules-{options.kind}.json")
    state = State(path, arguments)
    end = options.seed + options.schedules
    firsts = range(options.seed, end, PORTION)
    done = set(state.content["done"])
    todo = [(options.kind, one, min(PORTION, end - one), options.permute) for one in firsts if one not in done]
    if len(todo) < len(firsts):
        print(f"{len(firsts) - len(todo)} of {len(firsts)} portions were done before ({path})")
    began, played = time.monotonic(), 0
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for first, count, found in pool.imap_unordered(portion, todo):
            state.add(first, found)
            played += count
            for seed, rule, text in found:
                print(f"seed {seed}: {rule}: {text}", flush=True)
    seconds = time.monotonic() - began
    found = state.content["found"]
    print(
        f"{options.kind}: {played} schedules from seed {options.seed} in {seconds:.0f} s"
        f" ({played / max(seconds, 0.001):.0f} a second), {len(found)} violations"
    )
    path.unlink(missing_ok=True)  # only a run that was interrupted is continued
    return report(options.kind, found, options.permute)


def report(kind: str, found: list[Any], permute: bool) -> int:
    by_rule: dict[str, list[Any]] = {}
    for seed, rule, text in found:
        by_rule.setdefault(rule, []).append((seed, text))
    with Playground(kind) as ground:
        for rule, broken in by_rule.items():
            print(f"\n{len(broken)} times {rule}: seeds {sorted({seed for seed, _ in broken})[:20]}")
            for seed, text in broken[:SHRUNK]:
                print(f"  seed {seed}: {text}")
                for operation in ground.shrunk(ground.case(seed), rule, permute=permute)["operations"]:
                    print(f"    {json.dumps(operation)}")
    return 1 if by_rule else 0


def replay(kind: str, seed: int, *, permute: bool) -> int:
    with Playground(kind) as ground:
        found = ground.case(seed)
        if broken := ground.play(found, permute=permute).problems:
            found = ground.shrunk(found, broken[0][0], permute=permute)
        played = ground.play(found, permute=permute)
    for name, value in found.items():
        if name != "operations":
            print(f"{name}: {json.dumps(value)}")
    for operation in found["operations"]:
        print(f"    {json.dumps(operation)}")
    for line in played.trace:
        print(line)
    for rule, text in played.problems:
        print(f"{rule}: {text}")
    return 1 if played.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("schedules", type=int, nargs="?", default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--permute", action="store_true", help="ready callbacks of different tasks run in any order")
    parser.add_argument("--replay", type=int, metavar="SEED")
    parser.add_argument("--state", type=Path)
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set of strings is part of a schedule
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if options.replay is not None:
        return replay(options.kind, options.replay, permute=options.permute)
    return fuzz(options)


if __name__ == "__main__":
    sys.exit(main())
