"""A panel with a text field: input and editor dialogs, and the reason why a call is denied."""

from __future__ import annotations

from collections.abc import Sequence

from tau.screen.editor import Editor
from tau.screen.input_events import Key
from tau.screen.lines import Line, Span
from tau.screen.panels import Answer, PanelView, Status
from tau.screen.panels.layout import INDENT, fitted, hint, top_rule, wrapped
from tau.screen.safe_text import one_line

MAX_TITLE_LINES = 5
MARK = "> "  # as wide as INDENT
DOT = "•"
# After a backslash, "submit" makes a new line.
LINE_ACTIONS = ("tui.input.newLine", "tui.input.submit")


class FieldPanel:
    """Enter answers. With `multiline`, Shift+Enter makes a new line; without it, line breaks become spaces.

    `hidden`: dots are shown instead of the text.
    """

    def __init__(
        self,
        title: str,
        *,
        text: str = "",
        placeholder: str = "",
        multiline: bool = False,
        hidden: bool = False,
        hint_of_enter: str = "Enter answers",
    ) -> None:
        self._editor = Editor()
        self._editor.set_text(text)
        self._title = title
        self._placeholder = placeholder
        self._multiline = multiline
        self._hidden = hidden
        self._hints = [hint_of_enter, "Shift+Enter makes a line" if multiline else "", "Esc cancels"]

    def wants(self, key: Key, actions: Sequence[str]) -> bool:
        return bool(key.text) or key.id == "enter" or any(map(self._edits, actions))

    def key(self, key: Key, actions: Sequence[str]) -> Answer | None:
        if key.id == "escape" or "tui.select.cancel" in actions:
            return Answer(None)
        if any(self._edits(action) and self._editor.perform(action) for action in actions):
            return None
        if key.id == "enter" or "tui.input.submit" in actions:
            return Answer(self._editor.expanded())
        if key.text:
            self._editor.insert(key.text)
        return None

    def paste(self, text: str) -> bool:
        self._editor.paste(text if self._multiline else " ".join(text.split("\n")))
        return True

    def rows(self, width: int, max_rows: int, status: Status) -> PanelView:
        first, _, rest = self._title.partition("\n")
        top = top_rule(one_line(first), status, width)
        text = wrapped(rest.strip("\n"), width)[: min(MAX_TITLE_LINES, max_rows - 3)] if rest.strip() else []
        bottom = hint(self._hints if status.focused else ["Tab answers"], width)
        view = self._shown().view(max(width - len(INDENT) - 1, 1), max(max_rows - 2 - len(text), 1))
        field: list[Line] = [(Span(INDENT), *row) for row in view.lines]
        field[0] = (Span(MARK, "accent"), *field[0][1:])
        if self._editor.empty and self._placeholder:
            field = [(Span(MARK, "accent"), Span(one_line(self._placeholder), "dim"))]
        lines = [top, *text, *field, bottom] if max_rows > 2 else field
        above = 1 + len(text) if max_rows > 2 else 0
        cursor = (above + view.row, min(view.column + len(INDENT), width - 1)) if status.takes_keys else None
        return PanelView(fitted(lines, width, max_rows), cursor)

    def _shown(self) -> Editor:
        if not self._hidden:
            return self._editor
        dots = Editor()
        dots.set_text(DOT * len(self._editor.text))
        return dots

    def _edits(self, action: str) -> bool:
        """True for actions of the editor. There are no older prompts here."""
        if action.startswith("tui.editor.history"):
            return False
        return action.startswith("tui.editor.") or (self._multiline and action in LINE_ACTIONS)
