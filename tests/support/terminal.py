"""A terminal for tests: starts a program in a pseudo terminal, answers its questions and shows its screen (pyte).

`answers` says what it is: "kitty" answers every question, "xterm" all but kitty's, "silent" none, "dumb" has
TERM=dumb. pyte does not know some sequences; they are taken out and recorded.
"""

from __future__ import annotations

import copy
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte

from support.terminal_keys import key_bytes

TIMEOUT_S = 20.0
QUIET_S = 0.15
PUMP_S = 0.2

_SEQUENCE = re.compile(
    rb"\x1b\[(?P<mark>[?<>=]?)(?P<parameters>[0-9;:]*)(?P<more>[ -/]*)(?P<final>[@-~])"
    rb"|\x1b(?P<kind>[]P_])(?P<string>[^\x07\x1b]*)(?:\x07|\x1b\\)"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[]P_][^\x07\x1b]*\x1b?)?\Z")
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


class Screen(pyte.HistoryScreen):
    """pyte, with the resize of a terminal that cuts rows and does not reflow, and keeps the cursor on its row."""

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        for _ in range(max(0, self.cursor.y - lines + 1)):
            self.history.top.append(copy.copy(self.buffer[0]))
            for row in range(self.lines):
                self.buffer[row] = self.buffer[row + 1]
            self.cursor.y -= 1
        for row in [row for row in self.buffer if row >= lines]:
            del self.buffer[row]
        for line in self.buffer.values():
            for column in [column for column in line if column >= columns]:
                del line[column]
        self.lines, self.columns = lines, columns
        self.margins = None
        self.cursor.x = min(self.cursor.x, columns - 1)
        self.dirty.update(range(lines))


class Recorder:
    """What pyte does not know: modes, hyperlinks, titles; every private mode that is on."""

    def __init__(self) -> None:
        self.modes: set[str] = set()
        self.links: list[str] = []
        self.titles: list[str] = []
        self.frames = 0

    def record(self, match: re.Match[bytes]) -> bool:
        """True if pyte should see the sequence."""
        if match["kind"]:
            self._string(match["kind"], match["string"].decode(errors="replace"))
            return False
        mark, parameters, final = match["mark"].decode(), match["parameters"].decode(), match["final"].decode()
        match (mark, final):
            case ("?", "h" | "l"):
                for number in parameters.split(";"):
                    self._mode(number, final == "h")
                return parameters in ("25", "7", "1049")
            case (">", "u"):
                self.modes.add("kitty")
            case ("<", "u"):
                self.modes.discard("kitty")
            case (">", "m"):
                self._mode("otherKeys", not parameters.endswith(";0") and parameters != "4")
            case ("", "t"):
                self._mode("title", parameters.startswith("22"))
            case ("", _):
                return not match["more"]
        return False

    def _mode(self, number: str, on: bool) -> None:
        self.frames += number == "2026" and on
        if number in ("25", "7"):
            on = not on  # the cursor is visible, and lines wrap, by default
        (self.modes.add if on else self.modes.discard)(number)

    def _string(self, kind: bytes, text: str) -> None:
        if kind == b"]" and text.startswith("8;"):
            self.links.append(text.split(";", 2)[2])
        elif kind == b"]" and text.startswith(("0;", "2;")):
            self.titles.append(text[2:])


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
        self.recorder = Recorder()
        self._answers = ANSWERS[answers]
        self._screen = Screen(cols, rows, history=1_000_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._raw = bytearray()
        self._unfinished = b""
        self._ended = False
        self._master, slave = pty.openpty()
        self._set_size(rows, cols)
        self.settings = termios.tcgetattr(slave)
        term = "dumb" if answers == "dumb" else "xterm-256color"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _STARTER, os.ttyname(slave), *argv],
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
        self._screen.resize(rows, cols)
        self._set_size(rows, cols)

    # Output

    def wait(self, text: str | Callable[[str], bool], timeout: float = TIMEOUT_S) -> str:
        """Until the screen shows the text."""
        found = (lambda shown: text in shown) if isinstance(text, str) else text
        self._until(lambda: found(self._shown()), timeout, f"the screen never showed {text!r}")
        return self._shown()

    def wait_raw(self, data: bytes, timeout: float = TIMEOUT_S) -> None:
        self._until(lambda: data in self._raw, timeout, f"the output never contained {data!r}")

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

    def screen(self) -> list[str]:
        self._pump(0)
        return [row.rstrip() for row in self._screen.display]

    def history(self) -> list[str]:
        """The rows that have been scrolled off."""
        self._pump(0)
        columns = self._screen.columns
        return ["".join(row[column].data for column in range(columns)).rstrip() for row in self._screen.history.top]

    def cells(self, row: int) -> list[Any]:
        """The characters of a row with their colours."""
        return [self._screen.buffer[row][column] for column in range(self._screen.columns)]

    def cursor(self) -> tuple[int, int]:
        """Row and column."""
        self._pump(0)
        return self._screen.cursor.y, min(self._screen.cursor.x, self._screen.columns - 1)

    def modes(self) -> set[str]:
        """What differs from a terminal at rest: numbers of private modes ("25" is a hidden cursor), "kitty", …"""
        self._pump(0)
        return set(self.recorder.modes)

    def raw(self) -> bytes:
        self._pump(0)
        return bytes(self._raw)

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
        return "\n".join(row.rstrip() for row in self._screen.display)

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
            self._feed(data)
        return anything

    def _feed(self, data: bytes) -> None:
        data = self._unfinished + data
        cut = match.start() if (match := _UNFINISHED.search(data)) else len(data)
        data, self._unfinished = data[:cut], data[cut:]
        position = 0
        for match in _SEQUENCE.finditer(data):
            self._stream.feed(data[position : match.start()])
            position = match.end()
            if answer := self._answers.get(match[0]):
                self.type(answer)
            elif self.recorder.record(match):
                self._stream.feed(match[0])
        self._stream.feed(data[position:])


# The pseudo terminal becomes the controlling terminal of the new session.
_STARTER = "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR)); os.execvp(sys.argv[2], sys.argv[2:])"
