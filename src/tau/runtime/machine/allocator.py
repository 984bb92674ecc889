"""The C library's allocator, in a process that lives long: few arenas, and free memory returned to the system.

Imported lazily, because ctypes is slow to load. Other C libraries than glibc have nothing of this, and need it less.
"""

from __future__ import annotations

import ctypes

M_ARENA_MAX = -8  # of mallopt
_libc = ctypes.CDLL(None)


def share_arena() -> None:
    """Let threads that begin from now on allocate from the arenas that there are, or from one, if there are no threads.

    Python's threads take turns, so they gain nothing by arenas of their own, which would keep free memory apart.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(M_ARENA_MAX, 1)


def return_free_memory() -> None:
    """Give free pages back to the system."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(0)
