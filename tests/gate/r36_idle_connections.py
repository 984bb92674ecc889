"""R36: sessions of one process that have just answered keep few connections open, and none runs out of descriptors."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from gate.figure import Figure
from long.idle_connections import DESCRIPTORS, SESSIONS
from long.idle_connections import measure as many_sessions
from tau.llm.idle_connections import MIN_IDLE, SHARE


def measure(scale: float, seed: int) -> list[Figure]:
    part = min(scale, 1)
    sessions, descriptors = max(60, round(SESSIONS * part)), max(110, round(DESCRIPTORS * part))
    with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
        found = many_sessions(Path(folder), sessions, descriptors)
    if found.said:
        print(f"R36: {found.said}", file=sys.stderr)
    limit = max(MIN_IDLE, descriptors // SHARE)
    return [
        Figure("R36", "sessions that fail, with two descriptors for each", sessions, found.failed, 0),
        Figure("R36", "connections that stay open when all have answered", sessions, found.idle, limit),
    ]
