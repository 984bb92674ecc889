"""A modal that is shown while something is made which the person can cancel."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.input_events import Key
from tau.screen.lines import Span
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.layout import fitted, hint, top_rule


class Waiting:
    def __init__(self, text: str) -> None:
        self._text = text

    def rows(self, width: int, max_rows: int) -> PanelView:
        lines = [top_rule("", Status(), width), (Span(f"  {self._text}"),), hint(("Esc cancels",), width)]
        return PanelView(fitted(lines, width, max_rows))

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        return CANCELLED if key.id == "escape" or "tui.select.cancel" in actions else None

    def paste(self, text: str) -> None:
        pass
