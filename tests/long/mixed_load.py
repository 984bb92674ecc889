"""Mixed load: RPC, the server, ACP and fleets at once, with faults, for hours, in runs that can be continued.

    python tests/long/mixed_load.py --hours 2      (make mixed-load)

Each front end has a lane in a process of its own (tests/long/mixed_lanes.py). A run consists of segments; after each,
the figures are added to the state file. A run that is started with the same state file goes on from there, so that six
hours can be done in three runs, also on several machines: by default it is a file of the repository. Runs at the same
time can share it; give each another `--seed`. A segment that is interrupted does not count.

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

from long.mixed_lanes import LANES
from long.mixed_results import FILE, State, table
from long.soak import in_a_namespace

MAX_HOURS = 2.0  # of one run
SEGMENT_S = 1200.0
MORE_TIME_S = 900.0  # for a lane to end
Json = dict[str, Any]


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
