"""The prompt editor: a document with paste and image markers, soft wrap and history.

Keys reach it as text or as ids of key bindings (`perform`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tau.records.base import Value
from tau.screen.editor.buffer import Position
from tau.screen.editor.document import Document
from tau.screen.editor.layout import Layout
from tau.screen.editor.markers import Image, Markers, clean, is_large, is_marker
from tau.screen.editor.view import EditorView, Viewport
from tau.screen.history import History, HistoryEntry


class Submission(Value):
    """What was sent: pastes in full, images as their labels, and the images in the order of the labels."""

    text: str
    images: tuple[Image, ...] = ()


class Editor:
    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        self._document = Document()
        self._markers = Markers()
        self._layout = Layout(self._markers)
        self._viewport = Viewport(self._layout)
        self._goal = (Position(0, 0), 0)  # a cursor that moved by rows, and the cell that it keeps to
        self._recalled = -1  # version of the document when a history entry was put into it
        self._jump: Literal["", "forward", "backward"] = ""

    @property
    def text(self) -> str:
        """The text as it is shown, with labels for pastes and images."""
        return self._markers.labels(self._document.buffer.text)

    def expanded(self) -> str:
        """The text with all pastes in full; images are their labels."""
        return self._markers.expand(self._document.buffer.text)

    @property
    def empty(self) -> bool:
        return self._document.buffer.empty

    @property
    def cursor(self) -> Position:
        return self._document.cursor

    @property
    def version(self) -> int:
        """Changes with every change of the text."""
        return self._document.version

    @property
    def first_line(self) -> str:
        """The first line. A marker is one character that neither a command nor a path contains."""
        return self._document.lines[0]

    @property
    def line_before_cursor(self) -> str:
        return self._document.line[: self.cursor.column]

    @property
    def line_after_cursor(self) -> str:
        return self._document.line[self.cursor.column :]

    @property
    def waits_for_character(self) -> bool:
        """Whether the next character is the target of a jump."""
        return bool(self._jump)

    # Input

    def insert(self, text: str) -> None:
        """Insert typed text, or jump to it if a jump waits for its target; an empty text cancels the jump."""
        text = clean(text)
        if self._jump:
            self._jump_to(text)
        elif text:
            self._document.type(text)

    def paste(self, text: str) -> None:
        """Insert pasted text; a large one as a marker."""
        self._jump = ""
        text = clean(text)
        if is_large(text):
            text = self._markers.add_paste(text)
        elif text[:1] in ("/", "~", ".") and "\n" not in text and self.line_before_cursor[-1:].isalnum():
            text = f" {text}"  # the path of a file that was dropped behind a word
        if text:
            self._document.insert(text)

    def insert_image(self, image: Image) -> None:
        self._jump = ""
        if code := self._markers.add_image(image):
            self._document.insert(code)

    def replace_around_cursor(self, before: int, text: str, after: int = 0) -> None:
        """Replace characters before and after the cursor in its line: an accepted completion."""
        self._document.replace_around_cursor(before, clean(text), after)

    def set_text(self, text: str) -> None:
        """Replace everything; the cursor goes to the end. Can be undone."""
        self._jump = ""
        self._document.set_text(clean(text))

    def set_expanded(self, text: str) -> None:
        """Take back a text that `expanded` gave, as an external editor left it.

        Pastes and images that did not change become markers again.
        """
        text, result = clean(text), ""
        for code in self._markers.codes(self._document.buffer.text):
            before, found, after = text.partition(self._markers.expand(code))
            if found:
                result, text = result + before + code, after
        self._document.set_text(result + text)

    def clear(self) -> None:
        """Can be undone."""
        self.set_text("")

    def prepend(self, text: str) -> None:
        """Insert a text before what stands there, on lines of its own: queued messages that were taken back."""
        rest = self._document.buffer.text
        self._jump = ""
        self._document.set_text(f"{clean(text)}\n{rest}" if rest else clean(text))

    def expand_marker(self) -> bool:
        """Replace the paste marker at or before the cursor by its text; False if there is none."""
        column = self.cursor.column
        for start in (column, column - 1):
            code = self._document.line[start : start + 1] if start >= 0 else ""
            if is_marker(code) and not self._markers.images(code):
                self._document.replace_around_cursor(column - start, self._markers.expand(code), start + 1 - column)
                return True
        return False

    def take(self) -> Submission:
        """Return the text for sending, clear the editor and add the text to the history."""
        raw = self._document.buffer.text
        submission = Submission(self._markers.expand(raw), tuple(self._markers.images(raw)))
        self.history.add(self._entry(raw))
        self._document.reset()
        self._markers.keep_only(self._document.kills.texts)
        self._layout.forget()
        self._jump = ""
        return submission

    def perform(self, action: str) -> bool:
        """Perform an action by its id; False if it is not an action of the editor.

        "tui.input.submit" is one only after a backslash, which it replaces by a line break. Otherwise the caller
        submits with `take`.
        """
        if action == "tui.input.submit" and not self.line_before_cursor.endswith("\\"):
            return False
        if change := CHANGES.get(action):
            self._jump = ""
            change(self._document)
        elif motion := MOTIONS.get(action):
            self._jump = ""
            self._document.move(motion(self._document))
        elif own := OWN.get(action):
            own(self)
        else:
            return False
        return True

    def view(self, width: int, max_rows: int) -> EditorView:
        self._layout.resize(max(width, 1))
        return self._viewport.view(self._document.buffer, self.cursor, max_rows)

    # Rows

    def up(self) -> None:
        """At the first row: to its beginning, and from there to older prompts."""
        self._jump = ""
        if self._step_row(-1):
            return
        if self.empty or self._browsing or not self.cursor.column:
            self.history_previous()
        else:
            self._document.move(self._document.line_start())

    def down(self) -> None:
        """At the last row: to newer prompts while browsing, else to its end."""
        self._jump = ""
        if self._step_row(1):
            return
        if self._browsing:
            self.history_next()
        else:
            self._document.move(self._document.line_end())

    def page(self, step: Literal[-1, 1]) -> None:
        self._jump = ""
        for _ in range(self._viewport.rows):
            if not self._step_row(step):
                document = self._document
                document.move(document.line_start() if step < 0 else document.line_end())
                break

    def _step_row(self, step: Literal[-1, 1]) -> bool:
        """Move one row up or down, in the same cell as far as possible; False at the first or last row."""
        lines = self._document.lines
        line, column = self.cursor
        wrapped = self._layout.line(lines[line])
        row = wrapped.row_of(column) + step
        cell = self._goal[1] if self._goal[0] == self.cursor else wrapped.cell_of(column)
        if not 0 <= row < len(wrapped.starts):
            line += step
            if not 0 <= line < len(lines):
                return False
            row = 0 if step > 0 else self._layout.height(lines[line]) - 1
        self._document.move(self._layout.position_near(lines, line, row, cell, forward=step > 0))
        self._goal = (self.cursor, cell)
        return True

    # Jumps and history

    def start_jump(self, direction: Literal["forward", "backward"]) -> None:
        """The next character is the target; the same action again cancels."""
        self._jump = "" if self._jump == direction else direction

    def _jump_to(self, text: str) -> None:
        direction, self._jump = self._jump, ""
        find = self._document.find_forward if direction == "forward" else self._document.find_backward
        if text and (found := find(text)):
            self._document.move(found)

    @property
    def _browsing(self) -> bool:
        """Whether the text is a history entry that was not changed."""
        return self.history.browsing and self._recalled == self._document.version

    def history_previous(self) -> None:
        if not self._browsing:
            self.history.stop()
        if entry := self.history.previous(HistoryEntry(self._document.buffer.text)):
            self._recall(entry)
            self._document.move(Position(0, 0))

    def history_next(self) -> None:
        if self._browsing and (entry := self.history.next()):
            self._recall(entry)

    def _recall(self, entry: HistoryEntry) -> None:
        raw, end = "", 0
        for start, stop in entry.pastes:
            raw += entry.text[end:start] + self._markers.paste_again(entry.text[start:stop])
            end = stop
        self._document.set_text(raw + entry.text[end:])
        self._recalled = self._document.version

    def _entry(self, raw: str) -> HistoryEntry:
        """The history entry of a text: pastes in full with their places, without images."""
        text = ""
        pastes = []
        for part, content in self._markers.parts(raw):
            if isinstance(content, str):
                if content:
                    pastes.append((len(text), len(text) + len(part)))
                text += part
        return HistoryEntry(text, tuple(pastes))


MOTIONS: dict[str, Callable[[Document], Position]] = {
    "tui.editor.cursorLeft": Document.before,
    "tui.editor.cursorRight": Document.after,
    "tui.editor.cursorWordLeft": Document.word_before,
    "tui.editor.cursorWordRight": Document.word_after,
    "tui.editor.cursorLineStart": Document.line_start,
    "tui.editor.cursorLineEnd": Document.line_end,
}
CHANGES: dict[str, Callable[[Document], None]] = {
    "tui.editor.deleteCharBackward": lambda document: document.delete(document.before(), document.cursor),
    "tui.editor.deleteCharForward": lambda document: document.delete(document.cursor, document.after()),
    "tui.editor.deleteWordBackward": lambda document: document.kill(
        document.word_before(), document.cursor, backward=True
    ),
    "tui.editor.deleteWordForward": lambda document: document.kill(
        document.cursor, document.word_after(), backward=False
    ),
    "tui.editor.deleteToLineStart": Document.kill_to_line_start,
    "tui.editor.deleteToLineEnd": Document.kill_to_line_end,
    "tui.editor.yank": Document.yank,
    "tui.editor.yankPop": Document.yank_pop,
    "tui.editor.undo": Document.undo,
    "tui.editor.redo": Document.redo,
    "tui.input.newLine": lambda document: document.insert("\n"),
    "tui.input.submit": lambda document: document.replace_around_cursor(1, "\n"),
}
OWN: dict[str, Callable[[Editor], None]] = {
    "tui.editor.cursorUp": Editor.up,
    "tui.editor.cursorDown": Editor.down,
    "tui.editor.pageUp": lambda editor: editor.page(-1),
    "tui.editor.pageDown": lambda editor: editor.page(1),
    "tui.editor.historyPrevious": Editor.history_previous,
    "tui.editor.historyNext": Editor.history_next,
    "tui.editor.jumpForward": lambda editor: editor.start_jump("forward"),
    "tui.editor.jumpBackward": lambda editor: editor.start_jump("backward"),
}
