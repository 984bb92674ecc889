"""A schedule fuzzer: sessions in random interleavings of everything that can happen to them.

    python tests/long/schedules.py [SCHEDULES] [--seed FIRST] [--jobs PROCESSES] [--permute]      (make fuzz)
    python tests/long/schedules.py --replay SEED [--permute]        one schedule, made small, with all its events

A schedule depends on its seed alone: tests/support/schedule_loop.py says how, schedule_cases.py what happens in it, and
schedule_rules.py what must hold. Seeds that are done are kept in a file (--state), so that a run that was interrupted
is continued. Each broken rule is shown with its seed and the fewest operations that break it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.schedule_cases import Json, case, make_small
from support.schedule_player import Player
from support.schedule_record import Record
from support.schedule_rules import KNOWN, Problem, problems
from support.schedule_world import Workshop

SCHEDULES = 100_000
PORTION = 250  # schedules that a process plays before it reports
SHRUNK = 5  # problems of each rule that are made small


class Playground:
    """Folders for schedules, in memory if the system has such a file system."""

    def __enter__(self) -> Playground:
        memory = Path("/dev/shm")
        self._folder = tempfile.mkdtemp(prefix="tau-schedules-", dir=memory if os.access(memory, os.W_OK) else None)
        self.workshop = Workshop(Path(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def play(self, case: Json, *, permute: bool = False) -> tuple[Record, list[Problem]]:
        record = Player(case, self.workshop, permute=permute).play()
        return record, problems(record)

    def shrunk(self, case: Json, rule: str, *, permute: bool = False) -> Json:
        def breaks(smaller: Json) -> bool:
            return any(found == rule for found, _ in self.play(smaller, permute=permute)[1])

        return make_small(case, breaks)


def portion(work: tuple[int, int, bool]) -> tuple[int, int, list[tuple[int, str, str]]]:
    """Play the seeds of one portion, in a process of the pool."""
    first, count, permute = work
    found: list[tuple[int, str, str]] = []
    with Playground() as ground:
        for seed in range(first, first + count):
            try:
                broken = ground.play(case(seed), permute=permute)[1]
            except Exception as error:
                broken = [("fuzzer", f"{type(error).__name__}: {error}")]
            found += [(seed, rule, text) for rule, text in broken]
    return first, count, found


class State:
    """The portions that are done, and what they found."""

    def __init__(self, path: Path, arguments: Json) -> None:
        self._path = path
        self.content: Json = {"arguments": arguments, "done": [], "found": []}
        if path.exists() and (kept := json.loads(path.read_text()))["arguments"] == arguments:
            self.content = kept

    def add(self, first: int, found: list[tuple[int, str, str]]) -> None:
        self.content["done"].append(first)
        self.content["found"] += found
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(self.content))
        draft.replace(self._path)


def fuzz(options: argparse.Namespace) -> int:
    state = State(options.state, {"seed": options.seed, "count": options.schedules, "permute": options.permute})
    firsts = range(options.seed, options.seed + options.schedules, PORTION)
    end = options.seed + options.schedules
    todo = [(first, min(PORTION, end - first), options.permute) for first in firsts]
    todo = [one for one in todo if one[0] not in set(state.content["done"])]
    if len(todo) < len(firsts):
        print(f"{len(firsts) - len(todo)} of {len(firsts)} portions were done before ({options.state})")
    began, played = time.monotonic(), 0
    context = multiprocessing.get_context("spawn")  # the same hashes in each process: see main
    with context.Pool(options.jobs) as pool:
        for first, count, found in pool.imap_unordered(portion, todo):
            state.add(first, found)
            played += count
            for seed, rule, text in found:
                if rule not in KNOWN:
                    print(f"seed {seed}: {rule}: {text}", flush=True)
    seconds = time.monotonic() - began
    print(f"{played} schedules in {seconds:.0f} s ({played / max(seconds, 0.001):.0f} a second)")
    options.state.unlink(missing_ok=True)  # only a run that was interrupted is continued
    return report(state.content["found"], options.permute)


def report(found: list[Any], permute: bool) -> int:
    by_rule: dict[str, list[Any]] = {}
    for seed, rule, text in found:
        by_rule.setdefault(rule, []).append((seed, text))
    for rule, known in KNOWN.items():
        if rule in by_rule:
            print(f"{len(by_rule[rule])} times {rule}, which is known: {known} (seed {min(by_rule.pop(rule))[0]})")
    with Playground() as ground:
        for rule, broken in by_rule.items():
            print(f"\n{len(broken)} times {rule}: seeds {sorted({seed for seed, _ in broken})[:20]}")
            for seed, text in broken[:SHRUNK]:
                print(f"  seed {seed}: {text}")
                for operation in ground.shrunk(case(seed), rule, permute=permute)["operations"]:
                    print(f"    {json.dumps(operation)}")
    return 1 if by_rule else 0


def replay(seed: int, *, permute: bool) -> int:
    with Playground() as ground:
        found = case(seed)
        broken = ground.play(found, permute=permute)[1]
        if broken:
            found = ground.shrunk(found, broken[0][0], permute=permute)
        record, broken = ground.play(found, permute=permute)
    for name, value in found.items():
        if name != "operations":
            print(f"{name}: {json.dumps(value)}")
    for operation in found["operations"]:
        print(f"    {json.dumps(operation)}")
    for _, line in sorted(told(record), key=lambda one: one[0]):
        print(line)
    for rule, text in broken:
        print(f"{rule}: {text}")
    return 1 if broken else 0


def told(record: Record) -> Iterator[tuple[int, str]]:
    for left in record.sessions:
        yield left.at, f"{left.at:6} session {left.id[-6:]}"
    for step in record.loads:
        yield step, f"{step:6} extension loaded"
    if record.closed_at is not None:
        yield record.closed_at, f"{record.closed_at:6} close"
    for asked in record.asked:
        yield asked.at, f"{asked.at:6} > {asked.do} {asked.text} (session {asked.session[-6:]})"
        if asked.done is not None:
            yield asked.done, f"{asked.done:6} < {asked.do} {asked.text} {asked.answers or asked.errors}"[:160]
    for step, tag, event in record.events:
        if tag != "message_update":
            yield step, f"{step:6}   {tag} {event!r}"[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("schedules", type=int, nargs="?", default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--permute", action="store_true", help="ready callbacks of different tasks run in any order")
    parser.add_argument("--replay", type=int, metavar="SEED")
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir(), "tau-schedules.json"))
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set of strings is part of a schedule
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    return replay(options.replay, permute=options.permute) if options.replay is not None else fuzz(options)


if __name__ == "__main__":
    sys.exit(main())
