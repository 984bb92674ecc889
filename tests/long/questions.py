"""Keys that are meant for the editor while a permission question appears, in a pseudo terminal: none may answer it.

    python tests/long/questions.py 1000 [seed]

Fifty keys at 30 per second, Enter held down, and pastes, at every 10 ms around the appearance of the question.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.question_trials import run_trials

KEYS = 50
PROCESSES = 8


def main(count: int, seed: int) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-questions-") as folder:
        found = run_trials(Path(folder), count, KEYS, seed, PROCESSES)
    print(
        f"{found.trials} questions in {time.monotonic() - started:.0f} s: {found.answered} answered by other keys, "
        f"{found.lost} texts not whole (seed {seed})"
    )
    return found.answered + found.lost


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    sys.exit(1 if main(count, int(sys.argv[2]) if len(sys.argv) > 2 else 0) else 0)
