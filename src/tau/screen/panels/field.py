"""A panel with a text field: input and editor dialogs, and the reason why a call is denied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tau.core.text.terminal_text import escape_for_display
from tau.screen.cells import graphemes, text_width
from tau.screen.input_events import Key
from tau.screen.lines import Line, line
from tau.screen.panels import Answer, PanelView, Status
from tau.screen.panels.layout import INDENT, fitted, hint, top_rule, wrapped

MAX_TITLE_LINES = 5


class TextField:
    """Text with a cursor, as a list of grapheme clusters."""

    def __init__(self, text: str = "", *, multiline: bool = False) -> None:
        self._multiline = multiline
        self._before: list[str] = []
        self._after: list[str] = []
        self.insert(text)

    @property
    def text(self) -> str:
        return "".join([*self._before, *self._after])

    def insert(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        kept = text if self._multiline else " ".join(text.split("\n"))
        # What is typed may combine with the cluster before it.
        last = self._before.pop() if self._before else ""
        self._before += graphemes(last + kept)

    def perform(self, name: str) -> bool:
        """Move or delete; `name` is a key or an action. False if it is neither."""
        change = CHANGES.get(name)
        if change is None or (name in MULTILINE and not self._multiline):
            return False
        change(self)
        return True

    def left(self) -> None:
        if self._before:
            self._after.insert(0, self._before.pop())

    def right(self) -> None:
        if self._after:
            self._before.append(self._after.pop(0))

    def line_start(self) -> None:
        while self._before and self._before[-1] != "\n":
            self.left()

    def line_end(self) -> None:
        while self._after and self._after[0] != "\n":
            self.right()

    def up(self) -> None:
        column = self._column()
        self.line_start()
        if self._before:
            self.left()
            self.line_start()
            self._to_column(column)

    def down(self) -> None:
        column = self._column()
        self.line_end()
        if self._after:
            self.right()
            self._to_column(column)

    def backspace(self) -> None:
        if self._before:
            self._before.pop()

    def delete(self) -> None:
        if self._after:
            self._after.pop(0)

    def delete_word(self) -> None:
        while self._before and self._before[-1].isspace():
            self._before.pop()
        while self._before and not self._before[-1].isspace():
            self._before.pop()

    def delete_to_start(self) -> None:
        while self._before and self._before[-1] != "\n":
            self._before.pop()

    def delete_to_end(self) -> None:
        while self._after and self._after[0] != "\n":
            self._after.pop(0)

    def new_line(self) -> None:
        self._before.append("\n")

    def _column(self) -> int:
        return self._before[::-1].index("\n") if "\n" in self._before else len(self._before)

    def _to_column(self, column: int) -> None:
        while column and self._after and self._after[0] != "\n":
            self.right()
            column -= 1

    def view(self, width: int, max_rows: int) -> tuple[list[str], int, int]:
        """Rows of at most `width`, and the row and column of the cursor."""
        rows, cursor = [""], (0, 0)
        used = 0
        for index, cluster in enumerate([*self._before, *self._after, ""]):
            shown = "" if cluster in ("", "\n") else escape_for_display(cluster, "").replace("\t", "    ")
            size = text_width(shown)
            if used + size > width and used:
                rows.append("")
                used = 0
            if index == len(self._before):
                cursor = len(rows) - 1, used
            if cluster == "\n":
                rows.append("")
                used = 0
                continue
            rows[-1] += shown
            used += size
        first = max(min(cursor[0] - max_rows + 1, len(rows) - max_rows), 0)
        return rows[first : first + max_rows], cursor[0] - first, cursor[1]


CHANGES: dict[str, Callable[[TextField], None]] = {
    "left": TextField.left,
    "right": TextField.right,
    "home": TextField.line_start,
    "end": TextField.line_end,
    "up": TextField.up,
    "down": TextField.down,
    "backspace": TextField.backspace,
    "delete": TextField.delete,
    "tui.editor.cursorLeft": TextField.left,
    "tui.editor.cursorRight": TextField.right,
    "tui.editor.cursorLineStart": TextField.line_start,
    "tui.editor.cursorLineEnd": TextField.line_end,
    "tui.editor.cursorUp": TextField.up,
    "tui.editor.cursorDown": TextField.down,
    "tui.editor.deleteCharBackward": TextField.backspace,
    "tui.editor.deleteCharForward": TextField.delete,
    "tui.editor.deleteWordBackward": TextField.delete_word,
    "tui.editor.deleteToLineStart": TextField.delete_to_start,
    "tui.editor.deleteToLineEnd": TextField.delete_to_end,
    "tui.input.newLine": TextField.new_line,
    "shift+enter": TextField.new_line,
    "ctrl+j": TextField.new_line,
}
MULTILINE = {"up", "down", "tui.editor.cursorUp", "tui.editor.cursorDown", "tui.input.newLine", "shift+enter", "ctrl+j"}


class FieldPanel:
    """`multiline`: Enter still answers; Shift+Enter makes a new line."""

    def __init__(
        self,
        title: str,
        *,
        text: str = "",
        placeholder: str = "",
        multiline: bool = False,
        hint_of_enter: str = "Enter answers",
    ) -> None:
        self.field = TextField(text, multiline=multiline)
        self._title = title
        self._placeholder = placeholder
        self._hints = [hint_of_enter, "Shift+Enter makes a line" if multiline else "", "Esc cancels"]

    def wants(self, key: Key, actions: Sequence[str]) -> bool:
        names = (key.id, *actions)
        return (
            bool(key.text) or "enter" in names or "tui.input.submit" in names or any(name in CHANGES for name in names)
        )

    def key(self, key: Key, actions: Sequence[str]) -> Answer | None:
        if key.id == "escape" or "tui.select.cancel" in actions:
            return Answer(None)
        if any(self.field.perform(name) for name in (*actions, key.id)):
            return None
        if key.id == "enter" or "tui.input.submit" in actions:
            return Answer(self.field.text)
        if key.text:
            self.field.insert(key.text)
        return None

    def paste(self, text: str) -> bool:
        self.field.insert(text)
        return True

    def rows(self, width: int, max_rows: int, status: Status) -> PanelView:
        first, _, rest = self._title.partition("\n")
        top = top_rule(escape_for_display(first, ""), status, width)
        text = wrapped(rest.strip("\n"), width)[: min(MAX_TITLE_LINES, max_rows - 3)] if rest.strip() else []
        bottom = hint(self._hints if status.focused else ["Tab answers"], width)
        room = max(max_rows - 2 - len(text), 1)
        rows, row, column = self.field.view(max(width - len(INDENT) - 1, 1), room)
        field: list[Line] = [line(INDENT + one) for one in rows]
        if not self.field.text and self._placeholder:
            field = [line(INDENT + escape_for_display(self._placeholder, ""), "dim")]
        lines = [top, *text, *field, bottom] if max_rows > 2 else field
        above = 1 + len(text) if max_rows > 2 else 0
        cursor = (above + row, min(column + len(INDENT), width - 1)) if status.focused else None
        return PanelView(fitted(lines, width, max_rows), cursor)
