"""A modal on the alternate screen. The normal screen is as it was afterwards."""

from __future__ import annotations

from tau.screen.frame import Cursor, Frame
from tau.screen.modals import Modal
from tau.screen.painter import HIDE_CURSOR, SHOW_CURSOR, Painter
from tau.screen.styles import Palette
from tau.tui.terminal import Terminal


class FullScreen:
    """`cursor_visible` says whether the normal screen shows the cursor."""

    def __init__(self, modal: Modal, terminal: Terminal, palette: Palette, *, cursor_visible: bool) -> None:
        self.modal = modal
        self._terminal = terminal
        self._cursor_visible = cursor_visible
        self._painter = Painter(*terminal.size, palette)
        self.size = terminal.size  # of the normal screen, when it was drawn last
        self.left = True  # the normal screen is shown
        self._draw_again = False
        self.enter()

    def enter(self) -> None:
        """Switch to the alternate screen, also again after another program had the terminal."""
        self._terminal.write(self._terminal.alternate_screen(True) + SHOW_CURSOR.encode())
        self._painter = Painter(*self._terminal.size, self._painter.palette)
        self._draw_again = False
        if self.left:
            self.size, self.left = self._terminal.size, False

    def leave(self) -> bytes:
        """What to write to get back to the normal screen."""
        self.left = True
        shown = SHOW_CURSOR if self._cursor_visible else HIDE_CURSOR
        return shown.encode() + self._terminal.alternate_screen(False)

    def use_palette(self, palette: Palette) -> None:
        self._painter.palette = palette
        self._painter.forget()

    def resize(self) -> None:
        """The size has changed: everything is drawn again."""
        self._draw_again = True

    def paint(self) -> None:
        rows, columns = self._terminal.size
        before = b""
        if self._draw_again:
            self._draw_again = False
            self._painter = Painter(rows, columns, self._painter.palette)
            before = SHOW_CURSOR.encode() + b"\x1b[H"
        self._painter.synchronized = self._terminal.facts.synchronized
        view = self.modal.rows(max(columns - 1, 1), rows)
        cursor = None if view.cursor is None else Cursor(*view.cursor)
        data = before + self._painter.paint(Frame(0, view.lines[:rows], cursor))
        if data:
            self._terminal.write(data)
