"""The terminal device: raw mode, size, non-blocking reads and writes. The only module that knows termios.

The device is opened by its name: O_NONBLOCK on the descriptors 0, 1 and 2 would be the shell's as well.
"""

from __future__ import annotations

import os
import select
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tau.errors import UsageError

CHUNK_BYTES = 65536


class TerminalSize(NamedTuple):
    rows: int
    columns: int


class NotATerminalError(UsageError):
    """Neither standard input nor standard output is a terminal that can be opened."""


def _open(name: str) -> int:
    return os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)


class Tty:
    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._saved = termios.tcgetattr(fd)

    @classmethod
    def open(cls) -> Tty:
        for descriptor in (0, 1, 2):
            with suppress(OSError):
                name = os.ttyname(descriptor)
                return cls(_open(name))
        if os.isatty(0) or os.isatty(1):  # its device is another user's (su), or outside of a container
            with suppress(OSError):
                return cls(_open("/dev/tty"))
        raise NotATerminalError("tau needs a terminal for its interface; use --plain or -p without one")

    def set_raw(self) -> None:
        """Input that has been typed already is kept: TCSANOW does not flush it."""
        attributes = termios.tcgetattr(self.fd)
        input_, output, control, local = attributes[:4]
        attributes[0] = input_ & ~(
            termios.BRKINT
            | termios.ICRNL
            | termios.INLCR
            | termios.IGNCR
            | termios.INPCK
            | termios.ISTRIP
            | termios.IXON
        )
        attributes[1] = output & ~termios.OPOST
        attributes[2] = (control & ~(termios.CSIZE | termios.PARENB)) | termios.CS8
        attributes[3] = local & ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.IEXTEN | termios.ISIG)
        attributes[6][termios.VMIN] = 1
        attributes[6][termios.VTIME] = 0
        termios.tcsetattr(self.fd, termios.TCSANOW, attributes)

    def save(self) -> None:
        """What `restore` goes back to: the shell may have changed it while the program was stopped."""
        self._saved = termios.tcgetattr(self.fd)

    def restore(self) -> None:
        with suppress(OSError, termios.error):
            termios.tcsetattr(self.fd, termios.TCSANOW, self._saved)

    def size(self) -> TerminalSize:
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self.fd)
            if columns > 0 and rows > 0:
                return TerminalSize(rows, columns)
        return TerminalSize(24, 80)  # a terminal that does not know, such as a serial line

    def is_foreground(self) -> bool:
        """Whether this process may use the terminal; a shell may have put it into the background."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    def read(self) -> bytes | None:
        """None if there is nothing yet; b"" if the terminal is gone."""
        try:
            return os.read(self.fd, CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def has_input(self) -> bool:
        with suppress(OSError, ValueError):  # it is closed
            return bool(select.select([self.fd], [], [], 0)[0])
        return False

    def write(self, data: bytes) -> int:
        """How many bytes were written at once. OSError if the terminal is gone."""
        try:
            return os.write(self.fd, data)
        except (BlockingIOError, InterruptedError):
            return 0

    def write_all(self, data: bytes, timeout: float) -> bool:
        """Wait for a slow terminal, but not longer than `timeout`. False if something is left."""
        deadline = time.monotonic() + timeout
        try:
            while data := data[self.write(data) :]:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([], [self.fd], [], left)[1]:
                    return False
        except OSError:
            return False
        return True

    def discard_input(self, timeout: float, until: Callable[[bytes], bool]) -> None:
        """Read and drop input until `until` says that it has seen the end."""
        deadline = time.monotonic() + timeout
        with suppress(OSError):
            while (left := deadline - time.monotonic()) > 0 and select.select([self.fd], [], [], left)[0]:
                data = self.read()
                if data == b"" or (data and until(data)):
                    return

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.fd)
