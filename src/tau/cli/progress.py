"""One line on stderr that says what is going on, for a person who waits.

Only at a terminal; it is wiped away before anything else is said.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Self

from tau.core.agent.draft import Update
from tau.core.text.terminal_text import displayed
from tau.records.dialogs import UiRequest
from tau.records.events import AutoRetryStart, CompactionStart, Event, MessageStart, ToolStart
from tau.records.messages import Assistant
from tau.runtime.terminal import complain, wipe

USUAL = 80


class Progress:
    def __init__(self) -> None:
        self._seen = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            wipe()

    def show(self, event: Event | Update | UiRequest) -> None:
        if self._seen and not isinstance(event, Update | UiRequest) and (line := told(event)):
            wipe()
            complain(line[: width(2) - 1], end="")
            self._shown = True


def told(event: Event) -> str | None:
    """What a person wants to know of an event, on one line."""
    match event:
        case MessageStart(message=Assistant(model=model)):
            return one_line(f"{model} answers ...")
        case ToolStart():
            return f"{call(event)} ..."
        case AutoRetryStart():
            return one_line(f"try {event.attempt} of {event.max_attempts} follows: {event.error_message}")
        case CompactionStart():
            return "the conversation is being summarised ..."
    return None


def call(event: ToolStart) -> str:
    """A tool call: its name, and its arguments as far as they are short."""
    values = event.args.values() if isinstance(event.args, dict) else ()
    said = " ".join(str(value) for value in values if isinstance(value, str | int | float))
    return one_line(f"{event.tool_name} {said}")


def one_line(text: str) -> str:
    return displayed(" ".join(text.split()))


def width(handle: int) -> int:
    """Columns of a terminal."""
    try:
        return os.get_terminal_size(handle).columns or USUAL
    except OSError:
        return USUAL
