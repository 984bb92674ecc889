"""R17: an extension that fails, in each of eight ways, harms nobody else."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from gate.figure import Figure
from gate.portion import portion
from long.extension_faults import FAULTS, SECOND, Harm, one_round
from long.witness import Heart


def measure(scale: float, seed: int) -> list[Figure]:
    kinds = portion(list(FAULTS), scale, seed)
    harms, slowest = 0, 0.0
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="tau-gate-") as folder:
            try:
                began = time.monotonic()
                with Heart() as heart:
                    taken = one_round(Path(folder), kind)
                slowest = max(slowest, taken - heart.lost(began))  # seconds of the machine's are not the agent's
            except (Harm, AssertionError) as harm:
                harms += 1
                print(f"R17, {kind}: {harm}", file=sys.stderr)
    return [
        Figure("R17", "faults of extensions that did harm to others", len(kinds), harms, 0),
        Figure("R17", "slowest abort while an extension fails", len(kinds), slowest, SECOND, "s"),
    ]
