"""Random keys, pastes, sizes, focus changes and replies at the whole interface, in a pseudo terminal.

    python tests/long/fuzz_terminal.py 100000 [seed]

Never a traceback, at rest the screen is what a fresh draw shows, and the program can always be left in order.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.terminal_fuzz import fuzz_at_once

PROCESSES = 3


def main(events: int, seed: int) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-fuzz-") as folder:
        found = fuzz_at_once(Path(folder), events, seed, PROCESSES)
    print(f"{found.events} events at {found.starts} terminals in {time.monotonic() - started:.0f} s (seed {seed})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
