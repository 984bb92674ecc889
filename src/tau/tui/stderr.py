"""What this process writes to stderr while the interface owns the screen: shown as notices instead.

Log lines and tracebacks of a library would otherwise be printed into the box. On the way out the real stderr is put
back, and lines that were not shown are printed there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 64 * 1024
MAX_UNFINISHED_BYTES = 64 * 1024


class CapturedStderr:
    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._unfinished = b""
        self._real = os.dup(2)
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)  # a flood is cut off; it must not stop the event loop that reads it
        os.dup2(write, 2)
        os.close(write)
        asyncio.get_running_loop().add_reader(self._read, self._on_readable)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read, CHUNK_BYTES)
        except BlockingIOError:
            return
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if len(self._unfinished) > MAX_UNFINISHED_BYTES:
            lines, self._unfinished = [*lines, self._unfinished], b""
        if text := b"\n".join(lines).decode("utf-8", "replace").strip():
            self._show(text)

    def restore(self) -> None:
        """Put the real stderr back, and print there what has not been shown."""
        asyncio.get_running_loop().remove_reader(self._read)
        os.dup2(self._real, 2)
        os.close(self._real)
        with suppress(OSError):
            rest = self._unfinished + os.read(self._read, CHUNK_BYTES)
            if rest.strip():
                os.write(2, rest)
        os.close(self._read)
