"""Errors of the interface itself: the first one ends the program, after the terminal is restored.

An interface that goes on after an error in its painter would report that error with the painter that fails.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from tau.core.checks.exit_codes import FAILED
from tau.runtime.app.process import StopRequest

_PACKAGES = ("tau.tui.", "tau.screen.")


class InterfaceFailures:
    """Ends the program when a callback of the event loop fails in code of the interface."""

    def __init__(self, stop: StopRequest) -> None:
        self.error: BaseException | None = None
        self._stop = stop
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)

    def add(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
            self._stop.ask(FAILED)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" in context and isinstance(error, BaseException) and _is_of_interface(error.__traceback__):
            self.add(error)
        else:
            loop.default_exception_handler(context)


def _is_of_interface(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGES):
            return True
        traceback = traceback.tb_next
    return False
