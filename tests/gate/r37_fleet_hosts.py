"""R37: fleets that share a repository, on one host and on two, whose workers are killed at random."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from long import fleet_hosts

SECONDS = 3600.0


def measure(scale: float, seed: int) -> list[Figure]:
    count = max(10, round(fleet_hosts.TASKS * scale))
    with tempfile.TemporaryDirectory(prefix="tau-gate-", ignore_cleanup_errors=True) as folder:
        found = {"two fleets on one repository": fleet_hosts.two_fleets(Path(folder).resolve(), count, seed)}
    if why := fleet_hosts.cannot_separate():
        print(f"*** one fleet on two hosts: not tried: {why} ***", file=sys.stderr)
        found["a fleet on two hosts"] = fleet_hosts.Figures(0, 0, 0, 0)
    else:
        found["a fleet on two hosts"] = fleet_hosts.in_namespaces(count, seed)
    for name, one in found.items():
        print(f"{name}: {one}", file=sys.stderr)
    return [
        figure
        for name, one in found.items()
        for figure in (
            Figure("R37", f"{name}: tasks lost", one.tasks, one.lost, 0),
            Figure("R37", f"{name}: work trees destroyed", one.tasks, one.destroyed, 0),
        )
    ]
