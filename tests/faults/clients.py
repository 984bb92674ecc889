"""Clients that are no good: slow, stopped, or gone. All of them start from `Agent(..., listening=False)`.

read_until(agent, b"words")    read by hand, and then no more: a client that has stopped
dripping(agent, 64_000)        so many bytes a second: a client that is slow
agent.deafen()                 its end of the pipe is closed: a client that is gone
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.rpc_process import Agent

PORTION = 1 << 16


def read_until(agent: Agent, words: bytes) -> bytes:
    """Read its stdout by hand until this was said."""
    assert agent.process.stdout is not None
    heard = b""
    while words not in heard:
        portion = os.read(agent.process.stdout.fileno(), PORTION)
        assert portion, agent.transcript()
        heard += portion
    return heard


@contextmanager
def dripping(agent: Agent, rate: int) -> Iterator[bytearray]:
    """Somebody reads `rate` bytes a second, a little each time: what was read so far. Ends with stdout, or with us."""
    assert agent.process.stdout is not None
    handle, heard, over = agent.process.stdout.fileno(), bytearray(), threading.Event()

    def read() -> None:
        started = time.monotonic()
        while not over.is_set() and (portion := os.read(handle, max(1, rate // 100))):
            heard.extend(portion)
            over.wait(len(heard) / rate - (time.monotonic() - started))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join(5)
