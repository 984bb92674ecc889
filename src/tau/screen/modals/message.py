"""A modal that says what is being waited for, or what is being made. Escape ends the wait."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.layout import fitted, hint, top_rule, wrapped
from tau.screen.safe_text import one_line


class MessageModal:
    def __init__(self, title: str, text: str, *, hint_of_escape: str = "Esc leaves") -> None:
        self._title = title
        self._text = text
        self._hint = hint_of_escape

    def rows(self, width: int, max_rows: int) -> PanelView:
        lines = [top_rule(one_line(self._title), Status(), width), *wrapped(self._text, width)]
        return PanelView(fitted([*lines[: max(max_rows - 1, 1)], hint((self._hint,), width)], width, max_rows))

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        return CANCELLED if key.id == "escape" or "tui.select.cancel" in actions else None

    def paste(self, text: str) -> None:
        """A message takes no text."""
