"""Signals of the terminal: a new size, stop and continue, and those that end the program."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tau.tui.terminal import Terminal

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)  # meant for the program that has the terminal
_MAX_STOPS = 100


class _Wakeup:
    """A pipe to which Python writes the number of each signal."""

    def __init__(self) -> None:
        self.reader = self._writer = self._before = -1

    def open(self) -> int:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        return self.reader

    def read(self) -> bytes:
        try:
            return os.read(self.reader, 4096)
        except (BlockingIOError, InterruptedError):
            return b""

    def close(self) -> None:
        signal.set_wakeup_fd(self._before, warn_on_full_buffer=False)
        os.close(self.reader)
        os.close(self._writer)


def _ignore(number: int, frame: FrameType | None) -> None:
    """The signal is handled in the event loop; a handler must exist for Python to write to the pipe."""


class JobControl:
    """Not with `loop.add_signal_handler`, which loads `inspect` to look at its argument."""

    HANGUP = signal.SIGHUP

    def __init__(self, loop: asyncio.AbstractEventLoop, terminal: Terminal) -> None:
        self._loop = loop
        self._terminal = terminal
        self._before: dict[int, Any] = {}  # the handlers that were there
        self._wakeup = _Wakeup()
        self._handlers: dict[int, Callable[[], None]] = {
            signal.SIGWINCH: terminal.size_changed,
            signal.SIGTSTP: self._stop,
            signal.SIGCONT: terminal.take_back,
            **{number: partial(self._end, number) for number in ENDING},
        }

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._loop.add_reader(self._wakeup.open(), self.receive)
        for number in self._handlers:
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup left it: it stays ignored
                self._before[number] = signal.signal(number, _ignore)

    def remove(self) -> None:
        """Restore the handlers that were there, but let a Ctrl+C do nothing: it may come late, when the program is
        about to stop or has restored the terminal, and the handler that was there would end the program in the middle.
        """
        if not self._before:
            return
        self._loop.remove_reader(self._wakeup.reader)
        if signal.SIGINT in self._before:
            self._before[signal.SIGINT] = _ignore
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before.clear()
        self._wakeup.close()

    def receive(self) -> None:
        """Handle the signals that have come."""
        for number in self._wakeup.read() if self._before else b"":
            if self._before and number in self._handlers:
                self._handlers[number]()

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
            with self.removed():
                stop_process_group(lambda: True)
        elif self._terminal.listeners.suspend is not None:
            self._terminal.listeners.suspend()
        else:
            self._terminal.suspend()


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
