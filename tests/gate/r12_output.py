"""R12: what 10 GB of a command's output cost in memory and on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gate.figure import Figure
from long.big_output import DISK_LIMIT, MEMORY_LIMIT, NOTICE
from long.big_output import measure as big_output

GIBIBYTES = 10
MEBIBYTE = 1024**2


def measure(scale: float, seed: int) -> list[Figure]:
    size = max(200, round(GIBIBYTES * 1024 * scale))  # less than the limit on disk would show nothing
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        found = big_output(f"{size}M", Path(folder))
    wrong = sum(not right for right in (found["ok"]["result"], found["ok"]["file"]))
    disk = (DISK_LIMIT + len(NOTICE)) / MEBIBYTE
    return [
        Figure(
            "R12",
            f"memory over base for {size} MiB of tool output",
            size,
            found["extraMiB"],
            MEMORY_LIMIT / MEBIBYTE,
            "MiB",
        ),
        Figure("R12", f"disk for {size} MiB of tool output", size, found["diskMiB"], round(disk, 1), "MiB"),
        Figure("R12", "wrong text in the result or in the file", 2, wrong, 0),
    ]
