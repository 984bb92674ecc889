"""The view: what is on the screen now, from the transcript at the top to the footer at the bottom.

The transcript is printed once and scrolls into the terminal's own history. Below it stands the box, which is drawn
again and again: queued messages, a question, the editor between two rules, completions, the footer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tau.records.models import ThinkingLevel
from tau.screen.cells import clip_line, line_width, text_width
from tau.screen.completion import Completion
from tau.screen.editor import Editor
from tau.screen.extension_ui import ExtensionUiState
from tau.screen.footer import FooterFacts, footer_rows
from tau.screen.frame import Cursor, Frame
from tau.screen.lines import Line, Span, line
from tau.screen.panels import QuestionFocus
from tau.screen.safe_text import safe_line
from tau.screen.transcript import Transcript
from tau.screen.working import Working

MIN_EDITOR_ROWS = 5
SMALL_ROWS, SMALL_COLUMNS = 4, 20  # below, only the line of the editor is drawn
MAX_QUEUED_SHOWN = 5
PANEL_SHARE = 0.6
RULE = "─"


class Size(NamedTuple):
    rows: int
    columns: int


class Box(NamedTuple):
    rows: list[Line]
    cursor: tuple[int, int] | None  # row and column in the box


class View:
    def __init__(self, transcript: Transcript, editor: Editor, max_completions: int) -> None:
        self.transcript = transcript
        self.editor = editor
        self.completion = Completion(max_completions)
        self.questions = QuestionFocus()
        self.extension_ui = ExtensionUiState()
        self.working = Working()
        self.footer = FooterFacts()
        self.steering: Sequence[str] = ()
        self.follow_up: Sequence[str] = ()

    def frame(self, size: Size, first_visible: int, now: float) -> Frame:
        width = max(size.columns - 1, 1)
        box = self._small_box(width) if is_small(size) else self._box(width, size.rows, now)
        if is_small(size):
            top, rows = first_visible, list[Line]()
        else:
            top, rows = self.transcript.rows(first_visible, width, now)
        cursor = None
        if box.cursor is not None:
            cursor = Cursor(top + len(rows) + box.cursor[0], box.cursor[1])
        return Frame(top, (*rows, *box.rows), cursor)

    @property
    def box_top(self) -> int:
        """The absolute number of the first row of the box in the last frame."""
        return self.transcript.end

    def _small_box(self, width: int) -> Box:
        shown = self.editor.view(width, 1)
        return Box([clip_line(one, width) for one in shown.lines[:1]], (0, min(shown.cursor_column, width - 1)))

    def _box(self, width: int, rows: int, now: float) -> Box:
        above: list[Line] = [*self.extension_ui.above(width), *self._queued(width)]
        panel = self.questions.view(width, int(rows * PANEL_SHARE), now)
        if panel is not None and not self.questions.focused:
            above += [*panel.lines]
        below = [*self.extension_ui.below(width), *footer_rows(self.footer, width), *self.extension_ui.status(width)]
        if panel is not None and self.questions.focused:
            body, cursor = list(panel.lines), panel.cursor
        else:
            body, cursor = self._editor(width, rows, now)
        above = _last(above, rows - len(body) - len(below) - 1)
        body = _last(body, rows - len(below) - 1) if len(body) + len(below) >= rows else body
        if cursor is not None:
            cursor = len(above) + min(cursor[0], len(body) - 1), cursor[1]
        return Box([*above, *body, *below], cursor)

    def _editor(self, width: int, rows: int, now: float) -> tuple[list[Line], tuple[int, int]]:
        shown = self.editor.view(width, max(MIN_EDITOR_ROWS, rows // 3))
        style = self._border_style()
        more_above = f"↑ {shown.more_above} more" if shown.more_above else ""
        more_below = f"↓ {shown.more_below} more" if shown.more_below else ""
        working = self.working.line(width - 4, now) if self.extension_ui.working_visible else ()
        upper = rule(width, style, working, more_above)
        lower = rule(width, style, (), more_below)
        completions = self.completion.rows(width)
        return [upper, *shown.lines, lower, *completions], (1 + shown.cursor_row, shown.cursor_column)

    def _border_style(self) -> str:
        if self.editor.text.startswith("!"):
            return "bashMode"
        return thinking_style(self.footer.level)

    def _queued(self, width: int) -> list[Line]:
        queued = [f"Steering: {text}" for text in self.steering] + [f"Follow-up: {text}" for text in self.follow_up]
        rows = [clip_line(safe_line(" ".join(text.split()), "dim"), width) for text in queued[:MAX_QUEUED_SHOWN]]
        if len(queued) > MAX_QUEUED_SHOWN:
            rows.append(line(f"… {len(queued) - MAX_QUEUED_SHOWN} more", "dim"))
        if queued:
            rows.append(clip_line(line("Alt+Up returns them to the editor", "dim"), width))
        return rows


def is_small(size: Size) -> bool:
    return size.rows < SMALL_ROWS or size.columns < SMALL_COLUMNS


def rule(width: int, style: str, left: Line = (), right: str = "") -> Line:
    """A horizontal rule with a text at its beginning and one near its end."""
    spans: list[Span] = []
    used = 0
    if left:
        spans += [Span(RULE * 2 + " ", style), *left, Span(" ", style)]
        used = 4 + line_width(left)
    tail = f" {right} {RULE * 2}" if right and used + text_width(right) + 4 <= width else ""
    return (*spans, Span(RULE * max(width - used - text_width(tail), 0), style), *((Span(tail, style),) if tail else ()))


def thinking_style(level: ThinkingLevel) -> str:
    return {"max": "thinkingXhigh"}.get(level, f"thinking{level.capitalize()}")


def _last(rows: list[Line], count: int) -> list[Line]:
    return rows[-count:] if count > 0 else []
