"""A program under measure in a pseudo terminal of 30 rows and 100 columns, with its keys, its output and its costs.

The terminal answers the usual questions at once, as a modern one does, and draws nothing: what a program
writes is counted, and searched for the words that tell that something is on the screen.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Self

from benchmarks.measure import QUIET, Failed, cpu_of, memory

ROWS, COLUMNS = 30, 100
PORTION = 1 << 16
ANSWERS = {
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\",
    b"\x1b]11;?\x07": b"\x1b]11;rgb:1e1e/1e1e/2e2e\x07",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
    b"\x1b[>c": b"\x1b[>1;4000;38c",
    b"\x1b[c": b"\x1b[?62;22;52c",
    b"\x1b[16t": b"\x1b[6;18;9t",
    b"\x1b[?996n": b"\x1b[?997;1n",
}
QUESTION = re.compile(b"|".join(map(re.escape, ANSWERS)))
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]_PX^].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)


class TerminalProgram:
    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], deadline: float = 120.0) -> None:
        self._master, self._slave = pty.openpty()
        self.resize(ROWS, COLUMNS)
        self._settings = termios.tcgetattr(self._slave)
        self.output = bytearray()
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            argv,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=cwd,
            env={"TERM": "xterm-256color", "COLORTERM": "truecolor", **env},
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        self._deadline = deadline
        self._watchdog = threading.Timer(deadline, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        os.set_blocking(self._master, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._watchdog.cancel()
        os.close(self._slave)
        os.close(self._master)

    # Input

    def type(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self.take(0.01)

    def paste(self, text: bytes) -> None:
        self.type(b"\x1b[200~" + text.replace(b"\n", b"\r") + b"\x1b[201~")

    def send(self) -> int:
        """Send a prompt: where the output stood before it was sent."""
        before = self.written
        self.type(b"go")
        self.until(b"o", before)
        before = self.written
        self.type(b"\r")
        return before

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # Output

    def until(self, wanted: bytes, since: int = 0) -> float:
        """Read until the text has been written after that position of the output: the seconds since the start."""
        return self.until_any((wanted,), since)

    def until_any(self, wanted: Sequence[bytes], since: int = 0) -> float:
        at = since
        while True:
            written = plain(bytes(self.output[at:]))
            if any(one in written for one in wanted):
                return self.elapsed
            at = max(since, len(self.output) - 2_000)
            if self.take(1.0) is None or (self._process.poll() is not None and not self.take(0.0)):
                raise self._failure(wanted[0])

    def until_quiet(self, quiet: float = QUIET, most: float = 60.0) -> None:
        """Read until nothing has been written for a while."""
        end = time.monotonic() + most
        while self.take(quiet):
            if time.monotonic() > end:
                raise Failed("it never stops writing")

    def until_idle(self, quiet: float = QUIET) -> None:
        """Read until it neither writes nor works: less than 1 % of a processor."""
        before = -1.0
        while (now := self.cpu()) - before > quiet / 100:
            before = now
            self.until_quiet(quiet)

    def watch(self, seconds: float) -> None:
        """Read for that long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.take(left)

    def take(self, timeout: float) -> int | None:
        """Read what has been written, waiting for the first of it: how many bytes. None after the program's end."""
        if not select.select([self._master], [], [], timeout)[0]:
            return 0
        try:
            data = os.read(self._master, PORTION)
        except OSError:
            return None
        tail = bytes(self.output[-16:])
        self.output += data
        for found in QUESTION.finditer(tail + data):
            if found.end() > len(tail):  # else it has been answered
                self.type(ANSWERS[found[0]])
        return len(data)

    def _failure(self, wanted: bytes) -> Failed:
        last = plain(bytes(self.output[-2_000:])).decode(errors="replace")
        return Failed(f"it never wrote {wanted.decode()!r}: {' '.join(last.split())[-160:]}")

    # The end

    def leave(self) -> float:
        """Clear the editor, press Ctrl+D and wait for its end: the processor seconds of its life."""
        self.type(b"\x15")
        self.until_quiet()
        self.type(b"\x04")
        while True:
            pid, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                return used.ru_utime + used.ru_stime
            self.take(0.05)

    def end(self, number: Signals) -> int:
        """End it by a signal: how many modes of the terminal it leaves changed."""
        os.kill(self._process.pid, number)
        end = time.monotonic() + 5.0
        while self._process.poll() is None and time.monotonic() < end:
            self.take(0.05)
        while self.take(0.05):
            pass
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        return len(modes(bytes(self.output))) + (termios.tcgetattr(self._slave) != self._settings)

    # What it has cost so far, it and its children

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    @property
    def written(self) -> int:
        return len(self.output)

    def cpu(self) -> float:
        return cpu_of(self._process.pid)

    def pss(self) -> float:
        return memory(self._process.pid)


def _take_terminal() -> None:
    """Standard input becomes the controlling terminal of the new session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGHUP):  # in the background of a shell they are ignored
        signal.signal(number, signal.SIG_DFL)


def plain(output: bytes) -> bytes:
    """Without escape sequences."""
    return SEQUENCE.sub(b"", output)


def modes(output: bytes) -> set[bytes]:
    """What the output switched on (or off, for the cursor and the wrapping of lines) and did not switch back."""
    left: set[bytes] = set()
    for kind, number, final in re.findall(rb"\x1b\[([?<>=])([\d;]*)([hlum])", output):
        match kind, final:
            case b"?", b"h" | b"l":
                for one in number.split(b";"):
                    is_changed = (final == b"h") != (one in (b"7", b"25"))
                    (left.add if is_changed else left.discard)(one)
            case b">" | b"=", b"u":
                (left.discard if number in (b"0", b"0;1") else left.add)(b"kitty")
            case b"<", b"u":
                left.discard(b"kitty")
            case b">", b"m" if number.startswith(b"4"):
                (left.add if number.partition(b";")[2] not in (b"", b"0") else left.discard)(b"other keys")
    return left
