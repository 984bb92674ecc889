"""Load of the machine during a measurement, to tell a slow program from a busy machine."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

STOLEN = 0.02  # of all processors, by the host of a virtual machine
OTHERS = 0.3  # processors that programs had which are none of ours
QUIET = 0.1  # processors that others may use when something is to be recorded
SHORT = 1.0  # seconds, in which ticks are too coarse to tell
_TICKS = os.sysconf("SC_CLK_TCK")


def others(seconds: float, also: Callable[[], float] = lambda: 0.0) -> float:
    """The processors that other programs use now, watched for that long."""
    began, before = time.monotonic(), _machine()[0] - _ours() - also()
    time.sleep(seconds)
    return max(0.0, _machine()[0] - _ours() - also() - before) / (time.monotonic() - began)


def watched(also: Callable[[], float]) -> Callable[[], str]:
    """Begin to watch. The function that comes back tells what others took since then; nothing if that was little.

    `also` are the processor seconds of what is ours and still lives.
    """
    began, mine, (busy, stolen) = time.monotonic(), _ours() + also(), _machine()

    def told() -> str:
        now = time.monotonic() - began
        if now < SHORT:
            return ""
        after, after_stolen = _machine()
        others = (after - busy - (_ours() + also() - mine)) / now
        taken = (after_stolen - stolen) / now / (os.cpu_count() or 1)
        said = []
        if others > OTHERS:
            said.append(f"others had {others:.1f} of {os.cpu_count()} processors")
        if taken > STOLEN:
            said.append(f"the host took {taken * 100:.0f} % of the time away")
        return " and ".join(said)

    return told


def _machine() -> tuple[float, float]:
    """Seconds for which processors worked, and for which they were kept from us, since the machine started."""
    fields = [int(field) / _TICKS for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _waiting, interrupts, more_interrupts, stolen, *_ = fields
    return user + nice + system + interrupts + more_interrupts, stolen


def _ours() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
