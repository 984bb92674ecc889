"""Every line of the evasions in tests/core that is said to run what is denied, in a real bash without rules.

    python tests/long/bash_evasions.py

`make test` runs one line of each class; what the lines do depends on bash and on the
programs of this machine, not on tau.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.bash_evasions import EVASIONS, harmless_lines, is_possible, why_not_here


def main() -> int:
    if why := why_not_here():
        print(f"not run: {why}")
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tau-evasions-") as folder:
        harmless = harmless_lines(EVASIONS, Path(folder))
    amount = sum(bool(case.get("runs")) and is_possible(case) for case in EVASIONS)
    print(f"{amount} lines in {time.monotonic() - started:.1f} s, {len(harmless)} do not run what is denied")
    for line in harmless:
        print(line)
    return 1 if harmless else 0


if __name__ == "__main__":
    sys.exit(main())
