"""The idle connections of all pools of the process: there is a limit, and the one that is idle for longest is closed.

A pool belongs to a session, and a process may have hundreds of sessions. Each would keep a descriptor for a while after
every answer, although few of these connections are used again: without a limit for all of them, sessions that have just
answered use up the descriptors of the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

MIN_IDLE = 8  # however low the limit on descriptors is
MAX_IDLE = 128
SHARE = 8  # at most one descriptor in so many is for an idle connection


class IdleConnection:
    """One idle connection: `close` closes it, in its event loop, after some time or when others need the place."""

    __slots__ = ("__weakref__", "_close", "_loop", "_timer")

    def __init__(self, seconds: float, close: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._close = close
        self._timer = self._loop.call_later(seconds, close)

    def cancel(self) -> None:
        """Do not close it any more."""
        self._timer.cancel()

    def evict(self) -> None:
        """Close it soon. Any thread may call this."""
        with suppress(RuntimeError):  # its event loop has ended
            self._loop.call_soon_threadsafe(self._close)


class IdleConnections:
    """Idle connections in the order in which they became idle, from the event loops of any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weak: an event loop may end without closing its pools, and then nothing else would free the connections.
        self._entries: dict[weakref.ref[IdleConnection], None] = {}

    def __len__(self) -> int:
        with self._lock:
            return sum(entry() is not None for entry in self._entries)

    def add(self, entry: IdleConnection) -> None:
        evicted = []
        with self._lock:
            self._entries[weakref.ref(entry)] = None
            if len(self._entries) > MIN_IDLE:
                limit = idle_limit()
                while len(self._entries) > limit:
                    oldest = next(iter(self._entries))
                    del self._entries[oldest]
                    evicted.append(oldest())
        for one in evicted:
            if one is not None:
                one.evict()

    def remove(self, entry: IdleConnection) -> None:
        """The connection is used or closed: it is not idle any more."""
        entry.cancel()
        with self._lock:
            self._entries.pop(weakref.ref(entry), None)

    def forget(self) -> None:
        """In a process that was forked: the connections are those of the parent."""
        self._lock = threading.Lock()
        self._entries = {}


def idle_limit() -> int:
    """How many connections may be idle, with the descriptors that the process may have at this time."""
    try:
        import resource
    except ImportError:  # not on this system
        return MAX_IDLE
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_IDLE if soft == resource.RLIM_INFINITY else max(MIN_IDLE, min(MAX_IDLE, soft // SHARE))


IDLE_CONNECTIONS = IdleConnections()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=IDLE_CONNECTIONS.forget)
