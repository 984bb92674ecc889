"""A program under measure: started fresh, fed over real pipes, and asked what it and its children have cost.

The measuring process reads as fast as it can and decodes nothing: a line is known by
its first bytes. Every program has a deadline, so that a benchmark of something
broken ends too; what it did not manage is a `Failed`, and a cell in the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

PORTION = 1 << 20
HEAD = 200  # bytes of a line that tell what it is
QUIET = 0.5  # seconds without work, after which a program counts as idle
TICKS = os.sysconf("SC_CLK_TCK")
MB = 1e6


_orphans = 0.0  # processor seconds of children whose parent was killed, so that nothing waits for them


def orphans() -> float:
    return _orphans


class Failed(Exception):
    """Why a contender has no number here, in few words for the table; and those it had before."""

    def __init__(self, why: str, so_far: Mapping[str, float] | None = None) -> None:
        super().__init__(why)
        self.so_far = dict(so_far or {})


class Program:
    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], deadline: float = 300.0) -> None:
        self._argv, self._deadline, self._late = argv, deadline, False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, __exit__ closes it
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._buffer = bytearray(PORTION)
        self._at = self._end = 0
        self._line = b""  # what of an unfinished line has been read, up to HEAD bytes
        self.lines = self.bytes = 0  # that it has written
        self._watchdog = threading.Timer(deadline, self._kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        global _orphans
        if self._process.returncode is None:
            _orphans += sum(map(_cpu, family(self._process.pid)[1:]))
            self._process.kill()
            self._process.wait()
        self._watchdog.cancel()
        for end in (self._process.stdin, self._process.stdout, self._errors):
            if end is not None:
                end.close()

    def _kill(self) -> None:
        self._late = True
        self._process.kill()

    # Talking.

    def say(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._in, view) :]
        except BrokenPipeError:
            raise self._failure() from None

    def ask(self, command: bytes) -> float:
        """Send a command with the id "q": the seconds until its whole response is here."""
        before = time.perf_counter()
        self.say(command)
        head = self.until(is_response)
        taken = time.perf_counter() - before
        if b'"success":true' not in head:
            raise Failed(f"refused: {head.decode(errors='replace')}")
        return taken

    def trip(self, command: bytes) -> float:
        """Like `ask`, for a command with a short response and nothing else to read: little more than two system calls,
        so that the figure is the program's and not this one's."""
        before = time.perf_counter()
        os.write(self._in, command)
        response = os.read(self._out, PORTION)
        while response[-1:] != b"\n":
            if not (more := os.read(self._out, PORTION)):
                raise self._failure()
            response += more
        taken = time.perf_counter() - before
        if not is_response(response[:HEAD]) or b'"success":true' not in response[:HEAD]:
            raise Failed(f"refused: {response.decode(errors='replace')}")
        return taken

    def until(self, wanted: Callable[[bytes], bool]) -> bytes:
        """Read to the end of the first line that is wanted, and return its first bytes."""
        while True:
            head = self.head()
            if wanted(head):
                return head

    def answered(self) -> None:
        """Read to the end of a run. One that failed is no measure of anything."""
        failed = False
        while not _is_end(head := self.head()):
            failed = failed or _is_error(head)
        if failed:
            raise Failed("the model's answer failed")

    def head(self) -> bytes:
        """Read the next line to its end and return its first bytes."""
        while True:
            if self._at == self._end:
                self._read()
            newline = self._buffer.find(b"\n", self._at, self._end)
            stop = self._end if newline < 0 else newline
            if len(self._line) < HEAD:
                self._line += self._buffer[self._at : min(stop, self._at + HEAD - len(self._line))]
            if newline >= 0:
                self._at = newline + 1
                head, self._line = self._line, b""
                self.lines += 1
                return head
            self._at = stop

    def until_bytes(self, wanted: bytes) -> None:
        """Read until these bytes have come, wherever in a line they stand. What follows them is not kept."""
        last = b""
        while True:
            if self._at == self._end:
                self._read()
            portion = last + self._buffer[self._at : self._end]
            self._at = self._end
            if wanted in portion:
                return
            last = portion[-len(wanted) :]

    def _read(self) -> None:
        self._at, self._end = 0, os.readv(self._out, [self._buffer])
        self.bytes += self._end
        if not self._end:
            raise self._failure()

    def _failure(self) -> Failed:
        code = self._process.wait()
        if self._late:
            return Failed(f"not within {self._deadline:.0f} s")
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        if "heap out of memory" in said:
            return Failed("out of memory")
        return Failed(f"died ({code}): {' '.join(said.split())[-160:]}")

    def close(self) -> None:
        """Nothing more will be said."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def end(self) -> float:
        """Close its stdin and wait for it: the processor seconds of its life and of the children it has waited for."""
        self.close()
        while os.readv(self._out, [self._buffer]):
            pass
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime

    def succeeded(self) -> None:
        """Raise Failed if it ended with another exit code than 0."""
        if self._process.returncode:
            raise self._failure()

    # What it has cost so far, it and its children.

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def cpu(self) -> float:
        return cpu_of(self._process.pid)

    def peak(self) -> float:
        """The most memory that each of them ever had, in MB."""
        return sum(map(_peak, family(self._process.pid))) / MB

    def pss(self) -> float:
        """MB of memory now; pages that several processes share count for each in part."""
        return sum(map(_pss, family(self._process.pid))) / MB

    def own_memory(self) -> float:
        """Bytes of memory now that belong to no file: however many processes run the same program, it is the same."""
        return float(sum(map(_anonymous, family(self._process.pid))))

    def open_files(self) -> int:
        """Descriptors of the process itself."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def rest(self, quiet: float = QUIET) -> None:
        """Wait until it does nothing any more: less than 1 % of a processor."""
        before = -1.0
        while (now := self.cpu()) - before > quiet / 100:
            before = now
            time.sleep(quiet)


def cpu_of(pid: int) -> float:
    """Processor seconds of a process and its children."""
    return sum(map(_cpu, family(pid)))


def memory(pid: int) -> float:
    """MB of a process and its children (PSS)."""
    return sum(map(_pss, family(pid))) / MB


def is_response(head: bytes) -> bool:
    return b'"type":"response"' in head and b'"id":"q"' in head


def is_event(name: str) -> Callable[[bytes], bool]:
    start = b'{"type":"%b"' % name.encode()
    return lambda head: head.startswith(start)


def _is_end(head: bytes) -> bool:
    return head.startswith(b'{"type":"agent_end"')


def _is_error(head: bytes) -> bool:
    return head.startswith(b'{"type":"message_update","assistantMessageEvent":{"type":"error"')


def family(pid: int) -> list[int]:
    try:
        files = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return [pid]
    return [pid, *(one for text in files for child in text.split() for one in family(int(child)))]


def _cpu(pid: int) -> float:
    """Of a process to the nanosecond, of its dead children to the tick."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return time.clock_gettime((~pid << 3) | 2) + (int(fields[13]) + int(fields[14])) / TICKS
    except OSError:
        return 0.0


def _peak(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmHWM")


def _pss(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")


def _anonymous(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Anonymous")


def _kilobytes(file: Path, name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0
