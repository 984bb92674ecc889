"""Watchdog: a thread that logs where the event loop stands when a turn of it takes too long.

All sessions of a host share one loop, so whatever blocks it delays everyone.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback

logger = logging.getLogger(__name__)
LIMIT_S = 1.0
MAX_FRAMES = 12


class Watchdog:
    """Watches the loop in which it is made, until it is stopped."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="tau-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._limit_s):
            turned = threading.Event()
            try:
                self._loop.call_soon_threadsafe(turned.set)
            except RuntimeError:  # the loop is closed
                return
            if not turned.wait(self._limit_s) and not self._stopped.is_set():
                self._report()
                turned.wait()

    def _report(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)
        where = "".join(traceback.format_stack(frame)[-MAX_FRAMES:]) if frame is not None else ""
        logger.warning("the event loop has stood for more than %g s:\n%s", self._limit_s, where)
