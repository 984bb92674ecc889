"""Progress of a fleet: one line at a terminal, else a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TextIO

from tau.records.fleet import Result

EVERY_S = 30.0
REDRAW_S = 0.1


class Progress:
    def __init__(self, total: int, counts: Mapping[str, int], to: TextIO) -> None:
        self._total = total
        self._before = total - counts.get("", 0)
        self._counts = {name: count for name, count in counts.items() if name}
        self._cost = 0.0
        self._done = 0
        self._to = to
        self._is_terminal = to.isatty()
        self._started = time.monotonic()
        self._shown = self._started

    def on_result(self, result: Result) -> None:
        self._counts[result.outcome] = self._counts.get(result.outcome, 0) + 1
        self._cost += result.cost
        self._done += 1
        now = time.monotonic()
        if now - self._shown >= (REDRAW_S if self._is_terminal else EVERY_S):
            self._shown = now
            self._show(now)

    def _line(self, now: float) -> str:
        per_second = self._done / max(0.001, now - self._started)
        left = (self._total - self._before - self._done) / per_second if per_second else 0
        outcomes = ", ".join(f"{count} {name}" for name, count in self._counts.items())
        cost = f", ${self._cost:.2f}" if self._cost else ""
        ended = self._before + self._done
        return f"{ended} of {self._total}: {outcomes}{cost}, {per_second * 3600:,.0f} tasks/h, {left:.0f} s left"

    def _show(self, now: float) -> None:
        line = self._line(now)
        self._to.write(f"\r\x1b[K{line}" if self._is_terminal else line + "\n")
        self._to.flush()

    def end(self) -> None:
        if self._is_terminal:
            self._to.write("\r\x1b[K")
            self._to.flush()
