"""Results are recorded on a quiet machine only: what is written down is compared with later, and read by others.

Before each job the machine must be quiet, and a job during which other programs worked is
done again. If that does not help, the run ends and says so; what was recorded before stays.
`--trial` measures all the same, and marks what it writes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from benchmarks.job import Result
from benchmarks.noise import QUIET, others

WATCHED = 1.0  # seconds
ATTEMPTS = 3
WAIT = 300.0  # seconds, for the machine to become quiet
TRIAL = "a trial: other programs may have been running"


class NotQuiet(Exception):
    """Why nothing more is recorded."""


def wait_for_quiet(also: Callable[[], float], limit: float = WAIT) -> None:
    """Return when other programs use next to nothing. Raises NotQuiet if that does not happen."""
    end, said = time.monotonic() + limit, False
    while (found := others(WATCHED, also)) > QUIET:
        if time.monotonic() > end:
            raise NotQuiet(
                f"Other programs use {found:.1f} processors, so nothing is recorded: repeat this on a quiet machine,"
                " or use --trial to see figures that are marked as such."
            )
        if not said:
            print(f"  waiting: other programs use {found:.1f} processors", file=sys.stderr, flush=True)
            said = True


def undisturbed(measure: Callable[[], Result], also: Callable[[], float], limit: float = WAIT) -> Result:
    """Measure until no other program worked in the meantime. Raises NotQuiet after a few attempts."""
    disturbed = ""
    for _ in range(ATTEMPTS):
        wait_for_quiet(also, limit)
        result = measure()
        if not (disturbed := result.disturbed):
            return result
        print(f"  {result.job.name}: {disturbed}: once more", file=sys.stderr, flush=True)
    raise NotQuiet(f"In {ATTEMPTS} attempts, {disturbed}: nothing more is recorded.")
