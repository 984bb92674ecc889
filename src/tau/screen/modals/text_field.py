"""A modal with one text: a name, a label, instructions, the value of a setting, an API key that is not shown."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.input_events import Key
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.field import FieldPanel

MAX_PASTE = 100_000  # characters


class TextField:
    """The value of its outcome is the text. `hidden`: dots are shown, and the text is not in any history."""

    def __init__(
        self,
        title: str,
        about: str = "",
        text: str = "",
        *,
        placeholder: str = "",
        hidden: bool = False,
        multiline: bool = False,
        hint_of_enter: str = "Enter confirms",
    ) -> None:
        self._multiline = multiline
        self._panel = FieldPanel(
            f"{title}\n{about}" if about else title,
            text=text,
            placeholder=placeholder,
            hidden=hidden,
            multiline=multiline,
            hint_of_enter=hint_of_enter,
        )

    def rows(self, width: int, max_rows: int) -> PanelView:
        return self._panel.rows(width, max_rows, Status())

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        answer = self._panel.key(key, actions)
        if answer is None:
            return None
        return CANCELLED if answer.value is None else Outcome("confirm", answer.value)

    def paste(self, text: str) -> None:
        text = text[:MAX_PASTE]
        self._panel.paste(text if self._multiline else " ".join(text.split()))
