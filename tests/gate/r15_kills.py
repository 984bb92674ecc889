"""R15: a file that is being written when the agent is killed, or the disk is full, is the old one or the new one."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from long.kills import KINDS, can_mount, killed_at_random, lost_on_full_disks

TIMES = 200


def measure(scale: float, seed: int) -> list[Figure]:
    count = max(len(KINDS), round(TIMES * scale))
    lost = killed_at_random(count, seed)
    figures = [Figure("R15", "writes that are killed: neither the old file nor the new", count, lost, 0)]
    if not can_mount():
        print(
            "*** R15: NO DISK CAN BE MOUNTED HERE (unshare --user --mount): full disks were not tried ***",
            file=sys.stderr,
        )
        return figures
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        lost = lost_on_full_disks(Path(folder), count, seed)
    return [
        *figures,
        Figure("R15", "writes on a full disk: neither the old file nor the new", count, lost, 0),
    ]
