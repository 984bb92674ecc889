"""The view: what is on the screen now, from the transcript at the top to the footer at the bottom.

The transcript is printed once and scrolls into the terminal's own history. Below it stands the box, which is drawn
again and again: queued messages, a question, the editor between two rules, completions, the footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from tau.records.base import Value, replace
from tau.screen.cells import clip_line, line_width, text_width
from tau.screen.editor import Editor, max_editor_rows, more_label
from tau.screen.extension_ui import ExtensionUiState
from tau.screen.footer import Footer
from tau.screen.frame import Cursor, Frame
from tau.screen.lines import Line, Span
from tau.screen.look import THINKING_LABEL
from tau.screen.modals import Modal
from tau.screen.panels import PanelView
from tau.screen.prompt import Prompt
from tau.screen.transcript import Transcript
from tau.screen.working import CHANGES_PER_S, FRAMES, Working, queue_lines, working_line

SMALL_ROWS, SMALL_COLUMNS = 4, 20  # below, only the line of the editor is drawn
MAX_QUEUED_ROWS = 6
PANEL_SHARE = 0.6  # of the rows
MIN_PANEL_ROWS = 3
RULE = "─"


class Panels(Protocol):
    """The question that is shown, if any."""

    @property
    def focused(self) -> bool: ...
    def view(self, width: int, max_rows: int) -> PanelView | None: ...
    def not_drawn(self) -> None: ...


class Size(NamedTuple):
    rows: int
    columns: int


class Box(Value):
    rows: list[Line]
    cursor: tuple[int, int] | None  # row and column in the box


class View:
    def __init__(self, transcript: Transcript, prompt: Prompt, working: Working) -> None:
        self.transcript = transcript
        self.prompt = prompt
        self.working = working
        self.panels: Panels | None = None
        self.modal: Modal | None = None  # in place of the editor
        self.extension_ui = ExtensionUiState()
        self.footer = Footer()
        self.queued: tuple[Sequence[str], Sequence[str]] = ((), ())  # steering, follow-ups
        self.box_top = 0  # absolute number of the first row of the box in the last frame

    @property
    def editor(self) -> Editor:
        return self.prompt.editor

    def frame(self, size: Size, first_visible: int, now: float) -> Frame:
        width = max(size.columns - 1, 1)
        if is_small(size):
            if self.panels is not None:
                self.panels.not_drawn()
            box, top, rows = self._small_box(width), max(first_visible, self.box_top), list[Line]()
        else:
            self._use_thinking_label()
            box = self._box(width, size.rows, now)
            top, rows = self.transcript.rows(first_visible, width, now)
        self.box_top = top + len(rows)
        cursor = None if box.cursor is None else Cursor(self.box_top + box.cursor[0], box.cursor[1])
        return Frame(top, (*rows, *box.rows), cursor)

    def _use_thinking_label(self) -> None:
        label = self.extension_ui.hidden_thinking_label or THINKING_LABEL
        if label != self.transcript.look.thinking_label:
            self.transcript.set_look(thinking_label=label)

    def _small_box(self, width: int) -> Box:
        shown = self.editor.view(width, 1)
        return Box([clip_line(one, width) for one in shown.lines[:1]], (0, min(shown.column, width - 1)))

    def _box(self, width: int, rows: int, now: float) -> Box:
        shown = self.extension_ui
        above = [*(shown.header_lines(width) or ()), *shown.widget_lines("aboveEditor", width)]
        above += queue_lines(*self.queued, width)[-MAX_QUEUED_ROWS:]
        footer = shown.footer_lines(width)
        below = [
            *shown.widget_lines("belowEditor", width),
            *(self.footer.lines(width) if footer is None else footer),
            *shown.status_lines(width),
        ]
        panel = self.panels.view(width, int(rows * PANEL_SHARE)) if self.panels is not None else None
        if panel is not None and self.panels is not None and self.panels.focused:
            body, cursor = list(panel.lines), panel.cursor
        else:
            body, cursor = self._modal_or_editor(width, rows, now)
            if panel is not None:
                above += self._lines_above(panel, width, rows - len(above) - len(body) - len(below) - 1)
        if above or self.box_top or self.transcript.started:
            above.insert(0, ())  # a blank row below the transcript
        return _fitted(Box([*above, *body, *below], cursor), len(above), rows)

    def _lines_above(self, panel: PanelView, width: int, room: int) -> Sequence[Line]:
        """A question above the editor: on a small screen it is shortened, so that its title is not cut off."""
        if self.panels is not None and MIN_PANEL_ROWS <= room < len(panel.lines):
            panel = self.panels.view(width, room) or panel
        return panel.lines

    def _modal_or_editor(self, width: int, rows: int, now: float) -> tuple[list[Line], tuple[int, int] | None]:
        if self.modal is None:
            return self._editor(width, rows, now)
        shown = self.modal.rows(width, int(rows * PANEL_SHARE))
        return list(shown.lines), shown.cursor

    def _editor(self, width: int, rows: int, now: float) -> tuple[list[Line], tuple[int, int]]:
        shown = self.editor.view(width, max_editor_rows(rows))
        style = self._border_style()
        activity = self._activity(width - 6, now)
        upper = rule(width, style, activity, more_label("↑", shown.above))
        lower = rule(width, style, (), more_label("↓", shown.below))
        body = [upper, *shown.lines, lower, *self.prompt.completion.rows(width)]
        return body, (1 + shown.row, shown.column)

    def _activity(self, width: int, now: float) -> Line:
        """The working line, as extensions want it."""
        look, state = self.extension_ui.working, self.working.state
        if not look.visible:
            return ()
        if look.message is not None:
            state = replace(state, message=look.message)
        changes_per_s = CHANGES_PER_S if look.interval_ms is None else min(1000 / look.interval_ms, CHANGES_PER_S)
        frames = FRAMES if look.frames is None else look.frames
        return working_line(state, now, width, changes_per_s=changes_per_s, frames=frames)

    def _border_style(self) -> str:
        if self.editor.first_line.startswith("!"):
            return "bashMode"
        level = self.footer.state.level or "off"
        return {"max": "thinkingXhigh"}.get(level, f"thinking{level.capitalize()}")


def is_small(size: Size) -> bool:
    return size.rows < SMALL_ROWS or size.columns < SMALL_COLUMNS


@lru_cache(8)  # both rules of the editor stay the same in most frames
def rule(width: int, style: str, left: Line = (), right: str = "") -> Line:
    """A horizontal rule with a text at its beginning and one near its end."""
    start: Line = (Span(RULE * 2 + " ", style), *left, Span(" ", style)) if left else ()
    used = line_width(start)
    end = f" {right} {RULE * 2}" if right and used + text_width(right) + 4 <= width else ""
    return (*start, Span(RULE * max(width - used - text_width(end), 0), style), *((Span(end, style),) if end else ()))


def _fitted(box: Box, above: int, rows: int) -> Box:
    """Cut a box that is taller than the screen: first what stands above the editor, then the end.

    `above` is the number of rows over the editor or panel, which has the cursor.
    """
    shown, cursor = box.rows, None if box.cursor is None else (box.cursor[0] + above, box.cursor[1])
    dropped = min(max(len(shown) - rows, 0), above)
    shown = shown[dropped:][:rows]
    return Box(shown, None if cursor is None else (min(cursor[0] - dropped, len(shown) - 1), cursor[1]))
