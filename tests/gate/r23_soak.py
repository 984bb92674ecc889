"""R23: a thousand prompts with tools, compactions and forks in one process: memory, descriptors, failures.

The model is quick and nothing fails but what is asked for wrongly; `make soak` has the faults.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gate.figure import Figure
from long.soak import Soak

PROMPTS = 1_000
WARM_UP = 200  # after which all that is loaded late is loaded, and the heap has found its size
GROWTH = 10.0  # MiB, whether it is for a thousand prompts or for ten thousand
MIB = 1024  # KiB


def measure(scale: float, seed: int) -> list[Figure]:
    prompts = max(20, int(PROMPTS * scale))
    with tempfile.TemporaryDirectory(prefix="tau-soak-") as folder:
        soak = Soak(Path(folder).resolve(), seed, faults=False, say=lambda line: None)
        before, after = soak.run_prompts(min(WARM_UP, prompts), prompts)
    ledger = soak.ledger
    failures = [*ledger.lost, *ledger.late, *ledger.wrong, *soak.left]
    for failure in failures:
        print(failure)
    return [
        Figure("R23", "memory grown", prompts, round((after.memory - before.memory) / MIB, 2), GROWTH, "MiB"),
        Figure("R23", "more descriptors", prompts, max(0, len(after.descriptors) - len(before.descriptors)), 0),
        Figure("R23", "failures", prompts, len(failures), 0),
    ]
