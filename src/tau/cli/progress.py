"""A progress line on stderr while a run is active.

Only at a terminal; it is erased before anything else is printed.
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

DEFAULT_COLUMNS = 80


class Progress:
    def __init__(self) -> None:
        self._enabled = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            wipe()

    def show(self, event: Event | Update | UiRequest) -> None:
        if self._enabled and not isinstance(event, Update | UiRequest) and (line := progress_text(event)):
            wipe()
            complain(line[: width(2) - 1], end="")
            self._shown = True


def progress_text(event: Event) -> str | None:
    """The progress line for an event, or None."""
    match event:
        case MessageStart(message=Assistant(model=model)):
            return one_line(f"{model} answers ...")
        case ToolStart():
            return f"{call(event)} ..."
        case AutoRetryStart():
            return one_line(f"retry {event.attempt} of {event.max_attempts}: {event.error_message}")
        case CompactionStart():
            return "summarising the conversation ..."
    return None


def call(event: ToolStart) -> str:
    """A tool call on one line: its name and its scalar arguments."""
    values = event.args.values() if isinstance(event.args, dict) else ()
    arguments = " ".join(str(value) for value in values if isinstance(value, str | int | float))
    return one_line(f"{event.tool_name} {arguments}")


def one_line(text: str) -> str:
    return displayed(" ".join(text.split()))


def width(handle: int) -> int:
    """Number of columns of a terminal."""
    try:
        return os.get_terminal_size(handle).columns or DEFAULT_COLUMNS
    except OSError:
        return DEFAULT_COLUMNS
