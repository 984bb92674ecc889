"""No core dumps of this process and of the programs that it starts, apart from those that set a limit of their own.

A core file has the contents of the memory, and so every key. It is written to the working folder, which is often a
repository, or handed to a program that stores it for all crashes of the machine.
"""

from __future__ import annotations

from contextlib import suppress

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

# For Linux, one byte is more of a prohibition than none: with 0, a program that handles core dumps still gets them.
NO_CORE_BYTES = 1


def forbid_core_dumps() -> None:
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    limit = NO_CORE_BYTES if most == resource.RLIM_INFINITY else min(NO_CORE_BYTES, most)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (limit, most))
