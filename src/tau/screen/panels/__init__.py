"""Panels: questions to the person at the terminal, drawn in place of the editor or above it.

A panel is a state: keys and times come in, lines and answers come out. focus.py decides which keys a panel gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tau.records.base import Value
from tau.screen.input_events import Key
from tau.screen.lines import Line


class PanelView(Value):
    lines: tuple[Line, ...]
    cursor: tuple[int, int] | None = None  # row in `lines`, and column; None hides the cursor


class Answer(Value):
    """`value` is an option or a text, True or False for a yes-or-no question, and None if it was cancelled.

    `reason` is why the person denies a tool call; the model reads it.
    """

    value: str | bool | None
    reason: str = ""


class Status(Value):
    """What the panel shows about itself, besides the question."""

    focused: bool = True
    ready: bool = True  # False: it has not had the focus long enough, keys are still for the editor
    position: str = ""  # "1 of 3", if other questions wait
    seconds_left: float | None = None  # None: there is no deadline
    clock_stopped: bool = False

    @property
    def takes_keys(self) -> bool:
        return self.focused and self.ready


class Panel(Protocol):
    def rows(self, width: int, max_rows: int, status: Status) -> PanelView: ...

    def wants(self, key: Key, actions: Sequence[str]) -> bool:
        """True if `key` would do something with this key."""

    def key(self, key: Key, actions: Sequence[str]) -> Answer | None:
        """Handle a key. None: the question stays open."""

    def paste(self, text: str) -> bool:
        """Insert pasted text where the panel has a text field. False: the panel takes no text. Never an answer."""
