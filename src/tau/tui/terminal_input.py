"""Input of a terminal: reads bytes, decodes them, and waits for the rest of an escape sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tau.concurrency.turns import run_turn
from tau.screen.input_events import InputEvent
from tau.screen.keys import KeyDecoder
from tau.tui.tty import Tty

PASTE_TIMEOUT_S = 2.0  # a paste whose end is lost must not keep the keyboard


class TerminalInput:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tty: Tty,
        escape_timeout: float,
        on_events: Callable[[list[InputEvent]], None],
        on_hangup: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._tty = tty
        self._escape_timeout = escape_timeout
        self._on_events = on_events
        self._on_hangup = on_hangup
        self._decoder = KeyDecoder()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop.add_reader(self._tty.fd, run_turn, self._loop, self._read)

    def stop(self) -> None:
        self._loop.remove_reader(self._tty.fd)
        self._cancel_timer()

    def _read(self) -> None:
        data = self._tty.read()
        if data is None:
            return
        if not data:
            self.stop()
            self._on_hangup()
            return
        self._cancel_timer()
        events = self._decoder.feed(data)
        if self._decoder.pending_escape:
            self._timer = self._loop.call_later(self._escape_timeout, self._timed_out)
        elif self._decoder.in_paste:
            self._timer = self._loop.call_later(PASTE_TIMEOUT_S, self._timed_out)
        if events:
            self._on_events(events)

    def _timed_out(self) -> None:
        self._timer = None
        if events := self._decoder.flush() or self._decoder.end_paste():
            self._on_events(events)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
