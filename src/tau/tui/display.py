"""The display: paints the view on the terminal, when something has changed and the terminal can take it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tau.screen.modals import Modal
from tau.screen.painter import Painter
from tau.screen.styles import Palette
from tau.tui.frames import FrameScheduler, frame_interval_s
from tau.tui.full_screen import FullScreen
from tau.tui.terminal import Terminal
from tau.tui.view import Size, View

TICK_S = 0.25  # the working line changes at most four times a second
REMOTE_TICK_S = 1.0


class Display:
    def __init__(self, terminal: Terminal, palette: Palette, view: View, environment: Mapping[str, str]) -> None:
        self._terminal = terminal
        self._view = view
        self._painter = Painter(*terminal.size, palette)
        self._tick_s = REMOTE_TICK_S if environment.get("SSH_CONNECTION") else TICK_S
        self._tick: asyncio.TimerHandle | None = None
        self._frames = FrameScheduler(self._paint, terminal.take_turn, frame_interval_s(environment))
        self._next_change: Callable[[], float | None] = lambda: None
        self._full_screen: FullScreen | None = None  # on the alternate screen
        self._before_frame: Callable[[], None] = lambda: None
        self._after_frame: Callable[[], None] = lambda: None
        terminal.on_ready(lambda: self.changed(at_once=True))
        terminal.on_resize(lambda: None, self._on_resize)
        terminal.on_hand_over(self._free_line)
        terminal.on_resume(self._on_resume)

    def on_clock(self, next_change: Callable[[], float | None]) -> None:
        """Paint also at the time that `next_change` returns after each frame."""
        self._next_change = next_change

    def before_frame(self, callback: Callable[[], None]) -> None:
        """Call `callback` before each frame: what is costly to find out is found out once for all changes."""
        self._before_frame = callback

    def on_frame(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each frame."""
        self._after_frame = callback

    def changed(self, *, at_once: bool = False, in_turn: bool = False) -> None:
        """The view has changed: paint it soon (FrameScheduler.request)."""
        self._frames.request(at_once=at_once, in_turn=in_turn)

    def echo(self, character: str) -> None:
        """Show a character that was typed, before the frame that contains it."""
        if self._full_screen is None and self._terminal.echoes and not self._frames.paused:
            self._terminal.write(self._painter.echo(character))

    def paint(self) -> None:
        """Paint now: the first frame."""
        self._paint()

    def use_palette(self, palette: Palette) -> None:
        """Draw what is on the screen again, in other colours."""
        self._painter.palette = palette
        self._painter.forget()
        if self._full_screen is not None:
            self._full_screen.use_palette(palette)
        self.changed(at_once=True)

    def redraw(self) -> None:
        self.use_palette(self._painter.palette)

    def text(self) -> str:
        """What is on the screen now."""
        now = asyncio.get_running_loop().time()
        frame = self._view.frame(Size(*self._terminal.size), self._painter.first_visible, now)
        return "\n".join("".join(span.text for span in row) for row in frame.rows)

    def erase_box(self) -> None:
        """On the way out: leave the transcript, and the cursor on a free line below it."""
        self._frames.cancel()
        self._frames.paused = True
        if self._tick is not None:
            self._tick.cancel()
        self._terminal.write(self._free_line())

    def show_full_screen(self, modal: Modal | None) -> None:
        """Show a modal on the alternate screen; None: the normal screen, as it was."""
        if self._full_screen is not None:
            self._terminal.write(self._full_screen.leave())
            before, self._full_screen = self._full_screen.size, None
            if before != self._terminal.size:
                self._on_resize(*self._terminal.size)
        if modal is not None:
            palette, visible = self._painter.palette, self._painter.cursor_visible
            self._full_screen = FullScreen(modal, self._terminal, palette, cursor_visible=visible)
        self.changed(at_once=True)

    def _free_line(self) -> bytes:
        """Leave the transcript, and the cursor on a free line below it."""
        before = b"" if self._full_screen is None else self._full_screen.leave()
        return before + self._painter.leave(self._view.box_top)

    def _on_resize(self, rows: int, columns: int) -> None:
        if self._full_screen is not None:  # the normal screen is drawn when it is shown again
            self._full_screen.resize()
            self.changed(at_once=True)
            return
        live_top, box_top = self._view.transcript.live_top, self._view.box_top
        self._painter.resize(
            rows,
            columns,
            reflows=self._terminal.reflows,
            live_top=live_top,
            box_top=box_top,
            misplaced=self._terminal.take_misplaced(),
        )
        self.changed(at_once=True)

    def _on_resume(self) -> None:
        """Another program had the terminal: draw the box below what it left."""
        full = self._full_screen
        if full is None or full.left:  # otherwise the other program wrote on the alternate screen
            self._painter.restart(self._view.box_top)
            self._painter.resize(*self._terminal.size, reflows=False)
        if full is not None:
            full.enter()
        self.changed(at_once=True)

    def _paint(self) -> None:
        now = asyncio.get_running_loop().time()
        self._before_frame()
        if self._full_screen is not None:
            self._full_screen.paint()
        else:
            self._paint_view(now)
        self._after_frame()
        self._schedule_tick(now)

    def _paint_view(self, now: float) -> None:
        size = Size(*self._terminal.size)
        self._painter.synchronized = self._terminal.facts.synchronized
        data = self._painter.paint(self._view.frame(size, self._painter.first_visible, now))
        self._terminal.write_frame(data)

    def _schedule_tick(self, now: float) -> None:
        """While something counts time, paint again without an event."""
        due = self._next_change()
        if self._view.working.active:
            due = min(due or now + self._tick_s, now + self._tick_s)
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None
        if due is not None:
            self._tick = asyncio.get_running_loop().call_at(max(due, now), self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        self.changed()
