"""A provider that serves 20 requests at once and refuses the others: the window settles there, and no task fails.

    python tests/long/fleet_window.py [SECONDS]

The server is on loopback, each request takes a second, and 100 agents would ask at once. The second half counts.
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


def run(folder: Path, seconds: float) -> str:
    fleet = FleetRun(folder)
    active: list[int] = []
    with LimitedServer(LIMIT, 1.0) as server:
        (folder / "agent" / "models.json").write_text(json.dumps(server.models))
        fleet.tasks({"id": f"t{at}", "model": "mock/m1"} for at in range(round(seconds * LIMIT * 1.5)))
        process = fleet.start("--concurrency", "100", "--workers", "1", "--per-worker", "100")
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            assert process.poll() is None, "it ended too early"
            if passed > seconds / 2:
                active.append(server.active)
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        refused, served = server.refused, server.served
    failed = rows(fleet, "select count(*) from result where outcome != 'done'")[0][0]
    assert failed == 0, f"{failed} tasks failed"
    return (
        f"{served} requests served, {refused} refused, 0 tasks failed; at once in the second half:"
        f" most {max(active)}, mean {statistics.mean(active):.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=600)
    with tempfile.TemporaryDirectory() as folder:
        print(run(Path(folder), parser.parse_args().seconds))


if __name__ == "__main__":
    main()
