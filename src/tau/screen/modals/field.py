"""A modal with one line of text: a name, a label, a path."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.field import FieldPanel


class FieldModal:
    """The value of its outcome is the text."""

    def __init__(
        self, title: str, text: str = "", *, placeholder: str = "", hint_of_enter: str = "Enter saves"
    ) -> None:
        self._panel = FieldPanel(title, text=text, placeholder=placeholder, hint_of_enter=hint_of_enter)

    def rows(self, width: int, max_rows: int) -> PanelView:
        return self._panel.rows(width, max_rows, Status())

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        answer = self._panel.key(key, actions)
        if answer is None:
            return None
        return CANCELLED if answer.value is None else Outcome("confirm", answer.value)

    def paste(self, text: str) -> None:
        self._panel.paste(text)
