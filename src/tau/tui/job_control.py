"""Signals of the terminal: a new size, stop and continue, and those that end the program."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tau.tui.terminal import Terminal

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)  # meant for the program that has the terminal
_MAX_STOPS = 100


class JobControl:
    """Not with `loop.add_signal_handler`, which loads `inspect` to look at its argument: the first frame would wait."""

    HANGUP = signal.SIGHUP

    def __init__(self, loop: asyncio.AbstractEventLoop, terminal: Terminal) -> None:
        self._loop = loop
        self._terminal = terminal
        self._handlers: dict[int, Callable[[], None]] = {
            signal.SIGWINCH: terminal.size_changed,
            signal.SIGTSTP: self._stop,
            signal.SIGCONT: terminal.take_back,
            **{number: partial(self._end, number) for number in ENDING},
        }
        self._before: dict[int, Any] = {}
        self._wakeup: tuple[int, int, int] | None = None  # both ends of a pipe, and the wake-up descriptor before

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._wakeup = reader, writer, signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._loop.add_reader(reader, self._read, reader)
        for number in self._handlers:
            self._before[number] = signal.signal(number, _note)
            signal.siginterrupt(number, False)

    def remove(self) -> None:
        for number, before in self._before.items():
            with suppress(ValueError, TypeError):
                signal.signal(number, before)
        self._before.clear()
        if self._wakeup is not None:
            reader, writer, before = self._wakeup
            self._wakeup = None
            with suppress(ValueError, OSError):
                signal.set_wakeup_fd(before)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(reader)
            os.close(reader)
            os.close(writer)

    def _read(self, reader: int) -> None:
        for number in os.read(reader, 4096):
            if handler := self._handlers.get(number):
                handler()

    @contextmanager
    def removed(self) -> Iterator[None]:
        installed = bool(self._before)
        self.remove()
        try:
            yield
        finally:
            if installed:
                self.install()

    def die(self, number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _end(self, number: signal.Signals) -> None:
        if self._terminal.active or number not in FROM_KEYBOARD:
            self._terminal.end_by_signal(number)

    def _stop(self) -> None:
        if not self._terminal.active:
            stop_process_group(lambda: True)
        elif self._terminal.listeners.suspend is not None:
            self._terminal.listeners.suspend()
        else:
            self._terminal.suspend()


def _note(number: int, frame: object) -> None:
    """A handler, so that the number is written to the wake-up descriptor, which JobControl reads."""


def stop_process_group(is_foreground: Callable[[], bool]) -> None:
    """Stop this process and its group. Returns when it is continued in the foreground."""
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.kill(0, signal.SIGTSTP)
    _stop_here(signal.SIGTSTP)
    for _ in range(_MAX_STOPS):  # `bg`: stop again, until the shell gives the terminal back
        if is_foreground():
            return
        _stop_here(signal.SIGTTOU)


def _stop_here(number: signal.Signals) -> None:
    """A signal to this thread takes effect before the call returns; one to the process may come later."""
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_kill(threading.get_ident(), number)
