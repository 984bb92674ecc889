"""A field for one line of text, such as a number of a setting or an API key, which is not shown."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.cells import clip_line, wrap_line
from tau.screen.editor import Editor
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.modals import CANCELLED, Outcome
from tau.screen.panels import PanelView, Status
from tau.screen.panels.layout import INDENT, hint, top_rule
from tau.screen.safe_text import one_line

MAX_TEXT = 100_000  # characters
MAX_ABOUT_ROWS = 5
DOT = "•"


class TextField:
    """The value of its outcome is the text. `hidden`: dots are shown, and the text is not in any history."""

    def __init__(self, title: str, about: str = "", text: str = "", *, hidden: bool = False) -> None:
        self._title = title
        self._about = about
        self._hidden = hidden
        self._editor = Editor()
        self._editor.set_text(text)

    def key(self, key: Key, actions: Sequence[str]) -> Outcome | None:
        if key.id == "escape" or "tui.select.cancel" in actions:
            return CANCELLED
        if key.id == "enter" or "tui.input.submit" in actions:
            return Outcome("confirm", self._editor.text)
        edits = [one for one in actions if one.startswith("tui.editor.") and not one.startswith("tui.editor.history")]
        if not any(map(self._editor.perform, edits)) and key.text:
            self._editor.insert(key.text)
        return None

    def paste(self, text: str) -> None:
        self._editor.insert(" ".join(text.split())[:MAX_TEXT])

    def rows(self, width: int, max_rows: int) -> PanelView:
        about = wrap_line((Span(one_line(self._about), "muted"),), max(width - len(INDENT), 1)) if self._about else []
        about = about[: min(MAX_ABOUT_ROWS, max(max_rows - 3, 0))]
        shown = Editor()
        shown.set_text(DOT * len(self._editor.text) if self._hidden else self._editor.text)
        view = (shown if self._hidden else self._editor).view(max(width - 3, 1), 1)
        lines: list[Line] = [
            top_rule(one_line(self._title), Status(), width),
            *((Span(INDENT), *row) for row in about),
            (Span("> ", "accent"), *view.lines[0]),
            hint(("Enter confirms", "Esc leaves"), width),
        ]
        row = 1 + len(about)
        return PanelView(
            tuple(clip_line(one, width) for one in lines[:max_rows]), (row, min(2 + view.column, width - 1))
        )
