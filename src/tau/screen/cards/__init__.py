"""Cards: the rows of one part of the transcript (a prompt, a tool call, a summary, a notice)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from tau.screen.lines import Line
from tau.screen.look import Look


class Card(Protocol):
    def state(self, now: float) -> Hashable:
        """Changes whenever the rows may change."""
        ...

    def rows(self, look: Look, now: float) -> list[Line]: ...
