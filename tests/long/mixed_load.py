"""Mixed load: RPC, the server, ACP and fleets at once, with faults, for hours, in runs that can be continued.

    python tests/long/mixed_load.py --hours 2      (make mixed-load)

Each front end has a lane in a process of its own (tests/long/mixed_lanes.py). A run consists of segments; after each,
the figures are added to the state file. A run that is started with the same state file goes on from there, so that six
hours can be done in three runs, also on several machines: by default it is a file of the repository. A segment that is
interrupted does not count.

Counted are acknowledged entries that are lost, answers that came later than five seconds (without the time in which
this machine did nothing for the lane), memory for each prompt, and descriptors, threads and processes that are left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gate import records
from gate.figure import Figure
from long.mixed_lanes import LANES
from long.soak import in_a_namespace

FILE = Path(__file__).with_name("mixed_load.json")
MAX_HOURS = 2.0  # of one run
SEGMENT_S = 1200.0
MORE_TIME_S = 900.0  # for a lane to end
SHOWN = 20
POOL = min(32, (os.cpu_count() or 1) + 4)  # threads that asyncio starts for blocking work, and keeps
Json = dict[str, Any]


class State:
    """What all segments found, by lane. A file that a run without faults left can be read by the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.content: Json = {"seconds": 0.0, "runs": [], "lanes": {}}
        if path.exists():
            self.content = json.loads(path.read_text())

    def add(self, seconds: float, lanes: dict[str, Json]) -> None:
        self.content["seconds"] += seconds
        self.content["runs"].append(
            {"at": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": round(seconds), "commit": records.commit()}
        )
        for name, found in lanes.items():
            known = self.content["lanes"].setdefault(name, {})
            for what, value in found.items():
                if what == "slowest":
                    before = known.get(what, {})
                    known[what] = {one: max(before.get(one, 0.0), value.get(one, 0.0)) for one in {*before, *value}}
                elif what.startswith("more_"):
                    known[what] = max(known.get(what, 0), value)
                else:
                    known[what] = known[what] + value if what in known else value
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(self.content, indent=1))
        draft.replace(self._path)

    def figures(self) -> list[Figure]:
        made: list[Figure] = []
        for name, found in self.content["lanes"].items():
            prompts = found["grown_prompts"]
            per_prompt = max(0.0, found["grown_kib"] / prompts) if prompts else 0.0
            made += [
                Figure(name, "acknowledged entries lost", found["acknowledged"], len(found["lost"]), 0),
                Figure(name, "answers later than 5 s", found["responses"], len(found["late"]), 0),
                Figure(name, "memory for each prompt", prompts, round(per_prompt, 3), 1.0, "KiB"),
                Figure(name, "descriptors left", found["rests"], found["more_descriptors"], 0),
                Figure(name, "threads left", found["rests"], found["more_threads"], POOL),
                Figure(name, "processes left", found["kills"] + found["rests"], len(found["left"]), 0),
                Figure(name, "other failures", found["prompts"], len(found["wrong"]), 0),
            ]
        return made


def segment(seconds: float, seed: int, names: list[str]) -> dict[str, Json]:
    """All lanes for so long, each in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tau-mixed-") as scratch:
        running = {name: start_lane(Path(scratch).resolve() / name, name, seconds, seed) for name in names}
        found: dict[str, Json] = {}
        for name, process in running.items():
            output, _ = process.communicate(timeout=seconds + MORE_TIME_S)
            assert process.returncode == 0, f"{name}: it ended with {process.returncode}"
            found[name] = json.loads(output)
    return found


def start_lane(folder: Path, name: str, seconds: float, seed: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    argv = [sys.executable, __file__, "--lane", name, "--folder", str(folder), "--seconds", str(seconds)]
    return subprocess.Popen([*argv, "--seed", str(seed)], stdout=subprocess.PIPE)


def lane(given: argparse.Namespace) -> int:
    """One lane, in a process of its own. What it found is printed as JSON."""
    if given.lane == "rpc":
        in_a_namespace()
    sys.setrecursionlimit(20_000)  # each entry of get_tree is two levels deeper than the one before it
    output = os.dup(1)
    os.dup2(2, 1)  # stdout is for the result alone
    found = LANES[given.lane](Path(given.folder), given.seconds, given.seed)
    with os.fdopen(output, "w") as result:
        json.dump(vars(found), result)
    return 0


def table(state: State) -> str:
    lines = [f"{'':7} {'':28} {'tried':>10} {'found':>12} {'at most':>8}"]
    for figure in state.figures():
        verdict = "" if figure.holds else "  TOO MUCH"
        found = f"{figure.found:g} {figure.unit}".strip()
        lines.append(f"{figure.goal:7} {figure.what:28} {figure.tried:>10,} {found:>12} {figure.limit:>8g}{verdict}")
    for name, found in state.content["lanes"].items():
        for what in ("lost", "late", "left", "wrong", "excused"):
            lines += [f"  {name} {what}: {one[:300]}" for one in found[what][:SHOWN]]
        slowest = sorted(found["slowest"].items(), key=lambda item: -item[1])[:4]
        lines.append(f"  {name} slowest: {', '.join(f'{what} {seconds:.2f} s' for what, seconds in slowest)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=MAX_HOURS, help=f"of this run, at most {MAX_HOURS:g}")
    parser.add_argument("--state", type=Path, default=FILE)
    parser.add_argument("--segment", type=float, default=SEGMENT_S, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=LANES, default=[*LANES])
    parser.add_argument("--lane", choices=LANES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.lane:
        return lane(given)
    state = State(given.state)
    end = time.monotonic() + min(given.hours, MAX_HOURS) * 3600
    while (left := end - time.monotonic()) > min(30.0, given.segment):
        began, seed = time.monotonic(), given.seed + len(state.content["runs"])
        found = segment(min(left, given.segment), seed, given.only)
        state.add(time.monotonic() - began, found)
        print(f"{state.content['seconds'] / 3600:.2f} hours so far, seed {seed}\n{table(state)}", flush=True)
    return 0 if all(figure.holds for figure in state.figures()) else 1


if __name__ == "__main__":
    sys.exit(main())
