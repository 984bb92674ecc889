"""A terminal for tests: starts a program in a pseudo terminal, answers its questions and shows its screen (pyte).

`answers` says what it is: "kitty" answers every question, "xterm" all but kitty's, "silent" none, "dumb" has
TERM=dumb. pyte does not know some sequences; they are taken out and recorded.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from support.terminal_keys import key_bytes
from support.terminal_screen import Emulator

TIMEOUT_S = 20.0
QUIET_S = 0.15
PUMP_S = 0.2

_ANSWERS: dict[bytes, bytes] = {
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
    b"\x1b[?2004$p": b"\x1b[?2004;2$y",
    b"\x1b[>c": b"\x1b[>1;4000;38c",
    b"\x1b[c": b"\x1b[?62;22;52c",
}
ANSWERS: dict[str, dict[bytes, bytes]] = {
    "kitty": _ANSWERS,
    "xterm": {
        **{question: answer for question, answer in _ANSWERS.items() if question != b"\x1b[?u"},
        b"\x1b[?2026$p": b"\x1b[?2026;0$y",
        b"\x1b[>c": b"\x1b[>41;390;0c",
        b"\x1b[c": b"\x1b[?64;1;2;6c",
    },
    "silent": {},
    "dumb": {},
}


class Terminal:
    def __init__(
        self,
        argv: Sequence[str],
        rows: int = 24,
        cols: int = 80,
        answers: str = "kitty",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self._answers = ANSWERS[answers]
        self._emulator = Emulator(rows, cols)
        self.recorder = self._emulator.recorder
        self._raw = bytearray()
        self._ended = False
        self._master, slave = pty.openpty()
        self._set_size(rows, cols)
        self.settings = termios.tcgetattr(slave)
        term = "dumb" if answers == "dumb" else "xterm-256color"
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _STARTER, os.ttyname(slave), *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={**os.environ, "TERM": term, **dict(env or {})},
            start_new_session=True,
        )
        self._slave = slave  # stays open: its settings are looked at after the program's end
        os.set_blocking(self._master, False)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Input

    def type(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        deadline = time.monotonic() + TIMEOUT_S
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                assert time.monotonic() < deadline, "the program does not read its input"
                self._pump(0.05)

    def press(self, key: str) -> None:
        """A key by its id, in the encoding of xterm."""
        self.type(key_bytes(key))

    def paste(self, text: str) -> None:
        data = text.replace("\n", "\r")
        self.type(f"\x1b[200~{data}\x1b[201~" if "2004" in self.modes() else data)

    def resize(self, rows: int, cols: int) -> None:
        self._pump(0)
        self._emulator.resize(rows, cols)
        self._set_size(rows, cols)

    # Output

    def read_some(self, limit: int) -> None:
        """Take at most so many bytes of what was written: a slow terminal."""
        if select.select([self._master], [], [], 0)[0]:
            data = os.read(self._master, limit)
            self._raw += data
            self._emulator.feed(data, self._answer)

    def wait(self, text: str | Callable[[str], bool], timeout: float = TIMEOUT_S) -> str:
        """Until the screen shows the text."""
        found = (lambda shown: text in shown) if isinstance(text, str) else text
        self._until(lambda: found(self._shown()), timeout, f"the screen never showed {text!r}")
        return self._shown()

    def wait_raw(self, data: bytes, timeout: float = TIMEOUT_S) -> None:
        self._until(lambda: data in self._raw, timeout, f"the output never contained {data!r}")

    def wait_new(self, data: bytes, timeout: float = TIMEOUT_S) -> float:
        """Until output that was not read yet contains the bytes. Returns the time at which they came: the screen is
        drawn only then, and pyte is slow.
        """
        output = b""
        deadline = time.monotonic() + timeout
        while data not in output:
            assert time.monotonic() < deadline, self._failure(f"the output never contained {data!r} again")
            if select.select([self._master], [], [], 0.05)[0]:
                output += os.read(self._master, 65536)
        came = time.monotonic()
        self._raw += output
        self._emulator.feed(output, self._answer)
        return came

    def wait_end(self, timeout: float = TIMEOUT_S) -> int:
        """Until the program has ended. Returns its exit code, negative for a signal."""
        self._until(lambda: self.process.poll() is not None, timeout, "the program did not end")
        self._pump(0)
        return int(self.process.returncode)

    def wait_quiet(self, quiet: float = QUIET_S, timeout: float = TIMEOUT_S) -> str:
        """Until there was no output for a while."""
        deadline = time.monotonic() + timeout
        while self._pump(quiet):
            assert time.monotonic() < deadline, self._failure("the output never stopped")
        return self._shown()

    def take_output(self, timeout: float) -> bool:
        """Take what is written within a time. False for nothing."""
        return self._pump(timeout)

    def screen(self) -> list[str]:
        self._pump(0)
        return [row.rstrip() for row in self._emulator.screen.display]

    def history(self) -> list[str]:
        """The rows that have been scrolled off."""
        self._pump(0)
        columns = self._emulator.screen.columns
        return [
            "".join(row[column].data for column in range(columns)).rstrip() for row in self._emulator.screen.history.top
        ]

    def cells(self, row: int) -> list[Any]:
        """The characters of a row with their colours."""
        return [self._emulator.screen.buffer[row][column] for column in range(self._emulator.screen.columns)]

    def cursor(self) -> tuple[int, int]:
        """Row and column."""
        self._pump(0)
        return self._emulator.screen.cursor.y, min(self._emulator.screen.cursor.x, self._emulator.screen.columns - 1)

    def modes(self) -> set[str]:
        """What differs from a terminal at rest: numbers of private modes ("25" is a hidden cursor), "kitty", …"""
        self._pump(0)
        return set(self.recorder.modes)

    def raw(self) -> bytes:
        self._pump(0)
        return bytes(self._raw)

    def unread(self) -> int:
        """How many bytes of the input the program has not read yet."""
        return int(struct.unpack("i", fcntl.ioctl(self._slave, termios.FIONREAD, b"\0" * 4))[0])

    def settings_now(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def signal(self, number: signal.Signals) -> None:
        """To the program, or to what runs in the foreground of a shell."""
        os.killpg(os.tcgetpgrp(self._master), number)

    def hang_up(self) -> None:
        os.close(self._master)
        self._ended = True

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._slave)
        if not self._ended:
            os.close(self._master)
            self._ended = True

    def _set_size(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _shown(self) -> str:
        return "\n".join(row.rstrip() for row in self._emulator.screen.display)

    def _until(self, done: Callable[[], bool], timeout: float, failure: str) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            assert time.monotonic() < deadline, self._failure(failure)
            self._pump(0.05)

    def _failure(self, what: str) -> str:
        return f"{what}; the screen:\n{self._shown()}\nthe last output: {bytes(self._raw[-500:])!r}"

    def _pump(self, timeout: float) -> bool:
        """Take what has been written, waiting for the first of it, but not all that never ends. False for nothing."""
        anything = False
        deadline = time.monotonic() + timeout + PUMP_S
        while (
            not self._ended
            and time.monotonic() < deadline
            and select.select([self._master], [], [], 0 if anything else timeout)[0]
        ):
            try:
                data = os.read(self._master, 65536)
            except OSError as error:
                assert error.errno in (errno.EIO, errno.EAGAIN)
                break
            anything = True
            self._raw += data
            self._emulator.feed(data, self._answer)
        return anything

    def _answer(self, sequence: bytes) -> bool:
        answer = self._answers.get(sequence)
        if answer is not None:
            self.type(answer)
        return answer is not None


# The terminal becomes that of the session. Signals that a shell ignores for background jobs have their usual effect.
_STARTER = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)
os.close(os.open(sys.argv[1], os.O_RDWR))
os.execvp(sys.argv[2], sys.argv[2:])
"""
