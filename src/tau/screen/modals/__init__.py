"""Modals: lists and forms that the person opens, drawn in place of the editor. They get every key until they close.

A modal is a state: keys come in, lines and an outcome come out. The program carries the outcome out and may open the
next modal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tau.records.base import Value
from tau.screen.input_events import Key
from tau.screen.panels import PanelView


class Outcome(Value):
    """How a modal closed: `action` is "confirm", "cancel" or the id of a key; `value` depends on the modal."""

    action: str
    value: Any = None


CANCELLED = Outcome("cancel")


class Modal(Protocol):
    def rows(self, width: int, max_rows: int) -> PanelView: ...

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        """Handle a key; `actions` are the ids bound to it. None: the modal stays open."""

    def paste(self, text: str) -> Outcome | None: ...
