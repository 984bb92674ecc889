"""What extensions show in the terminal: statuses, widgets, header, footer, title, and the look of the working line.

Requests come in, lines come out. Only the newest value of each part is kept, so a flood of requests costs no memory
and no frames of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeVar

from tau.records import terminal_requests as t
from tau.records.base import UnsetType, Value, replace
from tau.records.dialogs import SetStatus, SetTitle, SetWidget, UiRequest
from tau.screen.cells import clip_line
from tau.screen.lines import Line, Span
from tau.screen.role_markup import styled_line, styled_lines

MAX_WIDGET_LINES = 10
MAX_HEADER_LINES = 20
MAX_FOOTER_LINES = 4
MAX_KEYS = 100  # of statuses and of widgets; more are ignored
MAX_TEXT = 4000  # characters of a status, a title, a label
MIN_INTERVAL_MS = 80

T = TypeVar("T")
Placement = Literal["aboveEditor", "belowEditor"]


class Widget(Value):
    placement: Placement
    lines: tuple[str, ...]


class WorkingLook(Value):
    """How the working line looks. None: the default."""

    message: str | None = None
    visible: bool = True
    frames: tuple[str, ...] | None = None
    interval_ms: int | None = None


class ExtensionUiState:
    def __init__(self) -> None:
        self.title: str | None = None
        self.working = WorkingLook()
        self.hidden_thinking_label: str | None = None
        self._statuses: dict[str, str] = {}
        self._widgets: dict[str, Widget] = {}
        self._header: tuple[str, ...] | None = None
        self._footer: tuple[str, ...] | None = None

    @property
    def statuses(self) -> Mapping[str, str]:
        return self._statuses

    def apply(self, request: UiRequest) -> bool:
        """Apply a request. False if it is none of these."""
        match request:
            case SetStatus(status_key=key, status_text=text):
                _put(self._statuses, key, None if isinstance(text, UnsetType) else text[:MAX_TEXT])
            case SetWidget(widget_key=key, widget_lines=lines):
                place: Placement = "belowEditor" if request.widget_placement == "belowEditor" else "aboveEditor"
                kept = _kept(lines)
                _put(self._widgets, key, None if kept is None else Widget(place, kept))
            case SetTitle(title=title):
                self.title = title[:MAX_TEXT] or None
            case t.SetHeader(lines=lines):
                self._header = _kept(lines)
            case t.SetFooter(lines=lines):
                self._footer = _kept(lines)
            case t.SetHiddenThinkingLabel(label=label):
                self.hidden_thinking_label = _text(label)
            case _:
                return self._apply_to_working_line(request)
        return True

    def _apply_to_working_line(self, request: UiRequest) -> bool:
        look = self.working
        match request:
            case t.SetWorkingMessage(message=message):
                self.working = replace(look, message=_text(message))
            case t.SetWorkingVisible(visible=visible):
                self.working = replace(look, visible=visible)
            case t.SetWorkingIndicator(frames=frames, interval_ms=interval):
                kept = None if isinstance(frames, UnsetType) else tuple(frame[:20] for frame in frames[:100])
                pause = None if isinstance(interval, UnsetType) else max(interval, MIN_INTERVAL_MS)
                self.working = replace(look, frames=kept, interval_ms=pause)
            case _:
                return False
        return True

    def clear(self) -> None:
        """Forget everything: the extensions are loaded again, or another session begins."""
        self.__init__()  # type: ignore[misc]

    # Lines.

    def status_lines(self, width: int) -> list[Line]:
        """One line with all statuses, sorted by key; none if there are none."""
        spans: list[Span] = []
        for key in sorted(self._statuses):
            if status := styled_line(self._statuses[key], "muted"):
                spans += [*([Span("  ")] if spans else []), *status]
        return [clip_line(tuple(spans), width)] if spans else []

    def widget_lines(self, placement: Placement, width: int) -> list[Line]:
        return [
            row
            for widget in self._widgets.values()
            if widget.placement == placement
            for row in styled_lines(widget.lines, width, MAX_WIDGET_LINES)
        ]

    def header_lines(self, width: int) -> list[Line] | None:
        """None: the default header."""
        return None if self._header is None else styled_lines(self._header, width, MAX_HEADER_LINES)

    def footer_lines(self, width: int) -> list[Line] | None:
        """None: the default footer."""
        return None if self._footer is None else styled_lines(self._footer, width, MAX_FOOTER_LINES, "muted")


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    elif key in table or len(table) < MAX_KEYS:
        table[key] = value


def _kept(lines: Sequence[str] | UnsetType) -> tuple[str, ...] | None:
    return None if isinstance(lines, UnsetType) else tuple(line[:MAX_TEXT] for line in lines[:1000])


def _text(text: str | UnsetType) -> str | None:
    return None if isinstance(text, UnsetType) else text[:MAX_TEXT]
