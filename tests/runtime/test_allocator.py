"""Memory of the C library in a process that lives long."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

THREADS = 12
COUNTED = f"""
import re, threading
from tau.runtime.app.process import PROMPTS_PER_RETURN, GarbageCollector

collector = GarbageCollector()
for _ in range(PROMPTS_PER_RETURN):
    collector.settled("one")

kept, at_once = [], threading.Barrier({THREADS})

def allocate():
    at_once.wait()
    kept.append([bytes(1000) for _ in range(1000)])
    at_once.wait()

threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
# An arena begins at a multiple of 64 MiB.
places = (int(line.partition("-")[0], 16) for line in open("/proc/self/maps"))
print(sum(place % (64 << 20) == 0 for place in places))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc")
def test_threads_of_an_agent_that_lives_long_have_no_arenas_of_their_own() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) <= 1
