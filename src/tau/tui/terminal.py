"""The terminal of the interface: input events, output with backpressure, size, signals, and its restoration.

Everything that is changed at the terminal (modes, title, raw mode) is in one list, which is undone backwards on every
way out: `close`, an exception, `SystemExit` (by atexit), SIGTERM, SIGHUP, SIGINT, SIGQUIT, and for as long as a SIGTSTP
stops the program or another program uses the terminal.
"""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tau.core.text.terminal_text import escape_for_display
from tau.screen.input_events import Focus, InputEvent, Reply
from tau.screen.keys import KeyDecoder
from tau.tui.job_control import JobControl, stop_process_group
from tau.tui.size_probe import REPLY, SizeProbe
from tau.tui.terminal_facts import TerminalFacts
from tau.tui.terminal_input import TerminalInput
from tau.tui.terminal_modes import (
    ABORT_FRAME,
    ALTERNATE_SCREEN,
    ALTERNATE_SCREEN_KITTY,
    END_FRAME,
    KITTY_KEYS,
    OTHER_KEYS,
    PROGRESS,
    SAVED_TITLE,
    Mode,
    ModeList,
    escape_timeout,
    first_modes,
    questions,
    resize_delay,
)
from tau.tui.terminal_output import TerminalOutput
from tau.tui.tty import Tty

LAST_OUTPUT_TIMEOUT_S = 1.0  # a slow terminal may still get what restores it
LATE_REPLIES_TIMEOUT_S = 0.1


class Listeners:
    """What the interface does when something happens at the terminal."""

    def __init__(self) -> None:
        self.input: Callable[[list[InputEvent]], None] = lambda _: None
        self.ready: Callable[[], None] = lambda: None  # the last frame was written; another may follow
        self.resize_started: Callable[[], None] = lambda: None
        self.resized: Callable[[int, int], None] = lambda _rows, _columns: None  # the size has settled
        self.resume: Callable[[], None] = lambda: None
        self.hand_over: Callable[[], bytes] = bytes
        self.suspend: Callable[[], None] | None = None  # None: suspend at once
        self.exit: Callable[[int], None] | None = None  # None: end at once


class Terminal:
    def __init__(self, loop: asyncio.AbstractEventLoop, tty: Tty, environment: Mapping[str, str]) -> None:
        self.listeners = Listeners()
        self.size = tty.size()
        self._tty = tty
        self._modes = ModeList()
        self._output = TerminalOutput(loop, tty, self._idle, self._hangup)
        self._input = TerminalInput(loop, tty, escape_timeout(environment), self._events, self._hangup)
        self._signals = JobControl(loop, self)
        self._resize = _ResizeTimer(loop, resize_delay(environment), self._resized)
        self._state = _State()
        self._probe: SizeProbe | None = None
        if environment.get("TMUX"):
            self._probe = SizeProbe(loop, self.write, lambda: self.size, self._probed)
        self.facts = TerminalFacts(environment)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str] | None = None) -> Terminal:
        """Take over the terminal. It is asked what it can do; the answers come as input events."""
        environment = os.environ if environment is None else environment
        terminal = cls(loop, Tty.open(), environment)
        terminal._take_over(first_modes(environment), questions(environment))
        return terminal

    def _take_over(self, modes: tuple[Mode, ...], asked: bytes) -> None:
        atexit.register(self.close)
        self._signals.install()
        self._modes.enable(*modes)
        self._enter()
        self._output.write(asked)

    def on_input(self, callback: Callable[[list[InputEvent]], None]) -> None:
        self.listeners.input = callback

    def on_resize(self, started: Callable[[], None], settled: Callable[[int, int], None]) -> None:
        """`started` at the first change of the size, `settled` with rows and columns when no other has followed."""
        self.listeners.resize_started, self.listeners.resized = started, settled

    def on_hand_over(self, callback: Callable[[], bytes]) -> None:
        """What to write before a stop, or before another program gets the terminal: it should find a free line."""
        self.listeners.hand_over = callback

    def on_suspend(self, callback: Callable[[], None]) -> None:
        """SIGTSTP has come; the callback calls `suspend`."""
        self.listeners.suspend = callback

    def on_resume(self, callback: Callable[[], None]) -> None:
        """The terminal is ours again, after a stop or another program: what is on the screen is not known."""
        self.listeners.resume = callback

    def on_exit(self, callback: Callable[[int], None]) -> None:
        """A signal should end the program. Without a callback, or at the second signal, it ends at once."""
        self.listeners.exit = callback

    def on_ready(self, callback: Callable[[], None]) -> None:
        self.listeners.ready = callback

    @property
    def ready(self) -> bool:
        """Whether a frame may be written: the last one is out, and the size is not changing."""
        return self._state.active and self._output.idle and not self._resize.waiting

    @property
    def echoes(self) -> bool:
        """Whether something can be written at the place of the cursor without a question about the size before it."""
        return self._probe is None and self.ready

    def take_turn(self) -> bool:
        """Whether a frame is written now. Otherwise `on_ready` tells when to try again."""
        return self.ready and (self._probe is None or self._probe.take())

    def write_frame(self, data: bytes) -> None:
        """Write what `take_turn` allowed."""
        self.write(data)
        if data and self._probe is not None:
            self._probe.check()

    def take_misplaced(self) -> bool:
        """Whether a frame was drawn on a screen of another size since this was asked last."""
        if self._probe is None:
            return False
        found, self._probe.misplaced = self._probe.misplaced, False
        return found

    @property
    def input_waits(self) -> bool:
        """Whether there is input that was not read yet."""
        return self._tty.has_input()

    @property
    def reflows(self) -> bool:
        """Whether the terminal wraps lines again when its width changes."""
        return self.facts.reflows

    def write(self, data: bytes) -> None:
        """Write, or keep what the terminal does not take yet; `ready` is then False."""
        if data and self._state.active:
            self._output.write(data)

    def set_title(self, title: str) -> None:
        """The title before is restored at the end."""
        save = self._modes.enable(SAVED_TITLE)
        self.write(save + f"\x1b]2;{escape_for_display(title, '')}\x1b\\".encode(errors="replace"))

    def alternate_screen(self, on: bool) -> bytes:
        """What to write to switch to the alternate screen, or back; it is switched back at the end in any case."""
        if on:
            return self._modes.enable(ALTERNATE_SCREEN_KITTY if self.facts.kitty_keys else ALTERNATE_SCREEN)
        back = self._modes.disable(ALTERNATE_SCREEN_KITTY) + self._modes.disable(ALTERNATE_SCREEN)
        return back + self._modes.enable(*([KITTY_KEYS] if self.facts.kitty_keys else []))

    def set_progress(self, busy: bool) -> None:
        """Show in the window's tab or task bar that something is going on."""
        self.write(self._modes.enable(PROGRESS) if busy else self._modes.disable(PROGRESS))

    def close(self) -> None:
        """Restore the terminal; safe to call again."""
        if self._state.closed:
            return
        self._state.closed = True
        atexit.unregister(self.close)
        self._signals.remove()
        self._leave()
        self._tty.close()

    def suspend(self) -> None:
        """Give the terminal back and stop, with all processes of the group, until the shell continues it."""
        with self.handed_over(), self._signals.removed():
            stop_process_group(self._tty.is_foreground)

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Another program uses the terminal."""
        self.write(self.listeners.hand_over())
        self._leave()
        try:
            yield
        finally:
            if not self._state.closed:
                self.take_back()

    def take_back(self) -> None:
        """Set all modes again: after another program, or after a SIGSTOP, which cannot be prepared for."""
        if not self._tty.is_foreground():
            return
        if not self._state.active:
            self._tty.save()
        self._enter()
        self.size = self._tty.size()
        self.listeners.resume()

    def end_by_signal(self, number: int) -> None:
        """The terminal is restored before the signal takes its usual effect.

        When a window is closed, SIGHUP and the end of the input come together: they do not count as two.
        """
        if self._state.ending and number == self._signals.HANGUP:
            return
        if self.listeners.exit is not None and not self._state.ending:
            self._state.ending = True
            self.listeners.exit(number)
            return
        self.close()
        self._signals.die(number)

    def size_changed(self) -> None:
        if self._state.active:
            if not self._resize.waiting:
                self.listeners.resize_started()
            self._resize.restart()

    @property
    def active(self) -> bool:
        """False while another program has the terminal, and after the end."""
        return self._state.active

    def _enter(self) -> None:
        self._tty.set_raw()
        self._signals.receive()  # a Ctrl+C that was for the program that had the terminal until now
        if self._state.active:
            self._output.write(self._modes.undo())  # some modes are a stack in the terminal
        else:
            self._state.active = True
            self._input.start()
        self._output.write(self._modes.redo())

    def _leave(self) -> None:
        """Undo everything. The last frame is written whole if the terminal takes it in time."""
        if not self._state.active:
            return
        self._state.active = False
        self._resize.cancel()
        self._input.stop()
        probed = 0 if self._probe is None else self._probe.waiting
        if self._probe is not None:
            self._probe.stop()
        left = self._output.take()
        whole = self._tty.write_all(left, LAST_OUTPUT_TIMEOUT_S)
        undo = (b"" if whole else ABORT_FRAME) + self._modes.undo() + END_FRAME
        self._tty.write_all(undo, LAST_OUTPUT_TIMEOUT_S)
        if not self.facts.complete:
            self._tty.discard_input(LATE_REPLIES_TIMEOUT_S, _until_replies("primaryAttributes", 1))
        elif probed:
            self._tty.discard_input(LATE_REPLIES_TIMEOUT_S, _until_replies(REPLY, probed))
        self._tty.restore()

    def _events(self, events: list[InputEvent]) -> None:
        events = [event for event in events if not self._is_size(event)]
        for event in events:
            if isinstance(event, Reply | Focus):
                self._replied(event)
        if events:
            self.listeners.input(events)

    def _is_size(self, event: InputEvent) -> bool:
        """Whether an event is the answer to a question about the size. It is then taken."""
        if self._probe is None or not isinstance(event, Reply) or event.name != REPLY:
            return False
        return self._probe.reply(event.value)

    def _probed(self, equal: bool) -> None:
        if equal:
            self._idle()
        else:  # the signal will follow
            self.size_changed()

    def _replied(self, reply: Reply | Focus) -> None:
        """Turn on the better way of telling keys apart that the terminal has."""
        was_complete = self.facts.complete
        self.facts.learn(reply)
        if self.facts.kitty_keys:
            # Each screen has its own keys: those of the normal one are turned on when it is back.
            if not self._modes.has(ALTERNATE_SCREEN):
                self.write(self._modes.enable(KITTY_KEYS))
        elif self.facts.complete and not was_complete:
            self.write(self._modes.enable(OTHER_KEYS))

    def _idle(self) -> None:
        if self.ready:
            self.listeners.ready()

    def _resized(self) -> None:
        self.size = self._tty.size()
        self.listeners.resized(*self.size)
        self._idle()

    def _hangup(self) -> None:
        if not self._state.closed:
            self.end_by_signal(self._signals.HANGUP)


class _State:
    def __init__(self) -> None:
        self.active = False  # the terminal is in raw mode and ours
        self.ending = False  # a signal has been passed on; a second one ends at once
        self.closed = False


class _ResizeTimer:
    """Calls back when the size has not changed for a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._delay = delay
        self._callback = callback
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        return self._timer is not None

    def restart(self) -> None:
        self.cancel()
        self._timer = self._loop.call_later(self._delay, self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._callback()


def _until_replies(name: str, count: int) -> Callable[[bytes], bool]:
    """Whether so many replies of a name have come."""
    decoder, seen = KeyDecoder(), 0

    def complete(data: bytes) -> bool:
        nonlocal seen
        seen += sum(isinstance(event, Reply) and event.name == name for event in decoder.feed(data))
        return seen >= count

    return complete
