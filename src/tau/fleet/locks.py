"""Locks between the workers of a machine: a file for each name, held with flock."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def locked(folder: Path, name: str) -> AsyncIterator[None]:
    """Exclude all other workers of the fleet on this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(os.path.realpath(name).encode()).hexdigest()[:24]
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
