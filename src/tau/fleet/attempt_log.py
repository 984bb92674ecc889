"""`worker.log` of an attempt: what its worker did for it, and what was logged meanwhile."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

_current: ContextVar[AttemptLog | None] = ContextVar("attempt_log", default=None)


class AttemptLog:
    """`mask` removes secrets from a text."""

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        self._path = path
        self._mask = mask

    def note(self, text: str) -> None:
        """Add a line; an attempt does not fail because its log cannot be written."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03}Z"
        data = f"{stamp} {self._mask(text)}\n".encode(errors="replace")
        with suppress(OSError):
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, data)
            finally:
                os.close(handle)

    @contextmanager
    def is_current(self) -> Iterator[None]:
        """Log lines of this task, and of those that it starts, also go to the file."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


class _ToAttempt(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if (log := _current.get()) is not None:
            log.note(self.format(record))


def copy_log_lines() -> None:
    """From now on, warnings go to the log of the attempt that they are about, too."""
    handler = _ToAttempt(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
