"""Progress of a fleet: a line or a table that is redrawn at a terminal, else a line every half minute."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import TextIO

from tau.core.text.terminal_text import escape_message
from tau.fleet import display
from tau.fleet.snapshot import Snapshot

EVERY_S = 30.0
REDRAW_S = 1.0
DEFAULT_COLUMNS = 80


class Progress:
    """`take` returns a snapshot; `watch` asks for the table."""

    def __init__(self, take: Callable[[], Snapshot], to: TextIO, *, watch: bool = False) -> None:
        self._take = take
        self._to = to
        self._watch = watch
        self._is_terminal = to.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0  # lines of the terminal that the next drawing replaces

    async def run(self) -> None:
        """Show progress until cancelled."""
        while True:
            await asyncio.sleep(REDRAW_S if self._is_terminal else EVERY_S)
            self.show()

    def show(self) -> None:
        snapshot = self._take()
        if not self._is_terminal:
            self._write([display.line(snapshot)])
        elif self._watch:
            self._draw(display.table(snapshot))
        else:
            self._draw([display.line(snapshot)])

    def _draw(self, lines: Iterable[str]) -> None:
        columns = self._columns()
        shown = [escape_message(line)[: columns - 1] for line in lines]
        self._erase()
        self._write(shown)
        self._drawn = len(shown)

    def end(self, *, keep: bool = False) -> None:
        """Remove what is drawn; `keep` leaves it."""
        if not keep:
            self._erase()
        self._drawn = 0

    def _erase(self) -> None:
        if self._drawn:
            self._to.write(f"\x1b[{self._drawn}A\r\x1b[J")
            self._to.flush()

    def _write(self, lines: Iterable[str]) -> None:
        self._to.write("".join(f"{line}\n" for line in lines))
        self._to.flush()

    def _columns(self) -> int:
        try:
            return max(20, os.get_terminal_size(self._to.fileno()).columns)
        except (OSError, ValueError):
            return DEFAULT_COLUMNS
