"""The current time, in the two forms that messages and entries use."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> int:
    """Return the time in milliseconds, as messages store it."""
    return time.time_ns() // 1_000_000


def iso() -> str:
    """Return the time in UTC as text, as entries of a session store it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
