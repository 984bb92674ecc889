"""A program under measure: started fresh, fed over real pipes, and asked what it has cost.

Every program has a deadline, so that a benchmark of something broken ends too.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

DEADLINE = 300.0
PORTION = 1 << 20
QUIET = 0.5  # seconds without work, after which a program counts as idle


class Program:
    def __init__(self, argv: Sequence[str], home: Path) -> None:
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            argv,
            cwd=home,
            env=environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._read = b""
        self._watchdog = threading.Timer(DEADLINE, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.returncode is None:
            self.end()

    def say(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def hear(self) -> bytes:
        """The next line, with its LF."""
        while (at := self._read.find(b"\n")) < 0:
            self._read += self._portion()
        line, self._read = self._read[: at + 1], self._read[at + 1 :]
        return line

    def hear_until(self, last: bytes) -> tuple[int, int]:
        """Read to the end of the line that contains `last`: how many lines and bytes that were. None is kept."""
        lines = size = 0
        portion, self._read, end = self._read, b"", b""
        while True:
            lines += portion.count(b"\n")
            size += len(portion)
            end = (end + portion[-500:])[-500:]
            if end.endswith(b"\n") and last in end:
                return lines, size
            portion = self._portion()

    def hear_lines(self, count: int) -> int:
        """Read `count` lines: how many bytes that were."""
        lines, size = self._read.count(b"\n"), len(self._read)
        self._read = b""
        while lines < count:
            portion = self._portion()
            lines += portion.count(b"\n")
            size += len(portion)
        return size

    def _portion(self) -> bytes:
        portion = os.read(self._out, PORTION)
        if not portion:
            raise EOFError(f"{self._process.args!r} ended before it had answered")
        return portion

    def end(self) -> float:
        """Close its stdin and wait for it: the seconds of processor time that it has used in its life."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        while os.read(self._out, PORTION):
            pass
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._process.stdout.close()
        self._watchdog.cancel()
        return used.ru_utime + used.ru_stime

    def idle_memory(self) -> float | None:
        """MiB of it and its children once it does nothing any more; None where the system does not tell.

        Pages that several processes share count for each in part (PSS).
        """
        if not Path("/proc/self/smaps_rollup").exists():
            return None
        before = -1.0
        while (now := sum(map(_worked, family(self._process.pid)))) != before:
            before = now
            time.sleep(QUIET)
        return sum(map(_pss, family(self._process.pid))) / 1024


def environment(home: Path) -> dict[str, str]:
    """Nothing of the caller's settings and keys; no real pi looks for updates."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "PI_CODING_AGENT_DIR": str(home),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
    }


def seconds(argv: Sequence[str], home: Path) -> float:
    """From start to exit."""
    started = time.perf_counter()
    subprocess.run(argv, cwd=home, env=environment(home), stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE)
    return time.perf_counter() - started


def family(pid: int) -> list[int]:
    children = [
        int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
    ]
    return [pid, *(one for child in children for one in family(child))]


def _pss(pid: int) -> int:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


def _worked(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return float(fields[11]) + float(fields[12])
