"""Read-ahead while the extensions of a session start.

Extensions may ask the user while they start, so input has to be read before the session takes commands. Only answers
to dialogs and aborts take effect then: they are meant for the extensions. All other lines wait, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from tau.runtime.protocol.requests import InputLine, line_type


class Startup:
    """`receive` returns the next line, or None at the end of the input; cancelling it must not lose a line."""

    def __init__(
        self,
        receive: Callable[[], Coroutine[Any, Any, InputLine | None]],
        *,
        answer_dialog: Callable[[bytes], object],
        abort: Callable[[], object],
        end_of_input: Callable[[], object],
    ) -> None:
        self._receive = receive
        self._answer_dialog = answer_dialog
        self._abort = abort
        self._end_of_input = end_of_input

    async def run(self, start: Coroutine[Any, Any, object]) -> deque[InputLine | None]:
        """Run `start` to its end. Returns the lines that arrived and were not handled; None is the end of the input."""
        lines = deque[InputLine | None]()
        starting = asyncio.ensure_future(start)
        try:
            while not starting.done() and (not lines or lines[-1] is not None):
                receiving = asyncio.ensure_future(self._receive())
                await asyncio.wait({starting, receiving}, return_when=asyncio.FIRST_COMPLETED)
                if not receiving.done():
                    receiving.cancel()
                    break
                self._sort(receiving.result(), lines)
            if lines and lines[-1] is None:
                self._end_of_input()
            await starting
        finally:
            starting.cancel()
        return lines

    def _sort(self, line: InputLine | None, lines: deque[InputLine | None]) -> None:
        kind = line_type(line)
        if kind == "extension_ui_response" and isinstance(line, bytes):
            self._answer_dialog(line)
            return
        lines.append(line)
        if kind == "abort":
            self._abort()
