"""The descriptors of the process: every session and every client needs one or two."""

from __future__ import annotations

import resource
from contextlib import suppress

SPARE = 256  # for the sessions that are open


def raise_limit() -> None:
    """Raise the soft limit to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def running_out(newest: int) -> bool:
    """True if fewer than SPARE are free. The system gives the lowest number that is free: `newest` tells how many."""
    return newest > resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE
