"""A provider that serves 20 requests at once and refuses the others: the window settles there, and no task fails.

    python tests/long/fleet_window.py [SECONDS] [--request 5]

The server is on loopback, each request takes --request seconds, and 100 agents would ask at once. The second half
counts: the requests at once must be 20 with a tolerance of a fifth, on average.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from long.fleet_kills import rows
from support.fleets import FleetRun
from support.limited_server import LimitedServer

LIMIT = 20
TOLERANCE = 0.2


def run(folder: Path, seconds: float, request_s: float) -> bool:
    fleet = FleetRun(folder)
    active: list[int] = []
    windows: list[int] = []
    with LimitedServer(LIMIT, request_s) as server:
        (folder / "agent" / "models.json").write_text(json.dumps(server.models))
        fleet.tasks(
            {"id": f"t{at}", "model": "mock/m1"} for at in range(round(seconds * LIMIT * 1.5 / request_s) + 200)
        )
        process = fleet.start("--concurrency", "100", "--workers", "1", "--per-worker", "100")
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            assert process.poll() is None, "it ended too early"
            if passed > seconds / 2:
                active.append(server.active)
                windows.append(rows(fleet, "select count(*) from attempt where ended is null")[0][0])
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        refused, served = server.refused, server.served
    failed = rows(fleet, "select count(*) from result where outcome != 'done'")[0][0]
    assert failed == 0, f"{failed} tasks failed"
    mean = statistics.mean(active)
    print(
        f"{served} requests served, {refused} refused, 0 tasks failed; in the second half, requests at once:"
        f" most {max(active)}, mean {mean:.1f}; tasks at once: mean {statistics.mean(windows):.1f}"
    )
    return abs(mean - LIMIT) <= TOLERANCE * LIMIT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600)
    parser.add_argument("--request", type=float, default=5.0, metavar="SECONDS")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 0 if run(Path(folder), given.seconds, given.request) else 1


if __name__ == "__main__":
    sys.exit(main())
