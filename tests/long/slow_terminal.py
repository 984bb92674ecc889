"""A terminal that is not read while an answer arrives, and Escape in an answer that arrives as fast as it can.

    python tests/long/slow_terminal.py [seconds]

Prints the memory that a stalled terminal costs (at most 10 MB), how late the agent was, how long the screen takes to be
right after reading resumes (at most 0.5 s), and the time from Escape to "Stopped." (median; at most 50 ms). The last
two hold on a quiet machine only, and do not fail the check; beside them stands how long the program itself computed.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.interface import Interface
from support.rpc_process import Json

PIECES_PER_S = 1000
ESCAPES = 15
ESCAPE = b"\x1b[27u"
MAX_MEMORY_MB, MAX_LATE_S, MAX_SCREEN_S, MAX_ESCAPE_S = 10.0, 3.0, 0.5, 0.05


def memory_mb(tau: Interface) -> float:
    status = Path(f"/proc/{tau.process.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def computed_s(tau: Interface) -> float:
    """Processor time of the program's main thread."""
    return int(Path(f"/proc/{tau.process.pid}/schedstat").read_text().split()[0]) / 1e9


def answers(tau: Interface) -> int:
    files = (tau.folder / "agent" / "sessions").rglob("*.jsonl")
    return sum(file.read_bytes().count(b'"role":"assistant"') for file in files)


def stalled(folder: Path, seconds: int) -> tuple[float, float, float, float]:
    """Memory, lateness of the answer, and time until the screen is right: on the clock, and of the program."""
    count = seconds * PIECES_PER_S
    pieces = [f"word{number}." + ("\n\n" if number % 8 == 7 else " ") for number in range(count)]
    slow: Json = {"blocks": [{"text": pieces}], "delayMs": 1000 // PIECES_PER_S}
    alone = measure_alone(folder / "alone", slow)
    with Interface(folder / "stalled", script=[{"text": "ready"}, slow]) as tau:
        tau.start().send("hi")
        tau.wait("ready")
        tau.settle()
        before, started = memory_mb(tau), time.monotonic()
        tau.type("go\r")
        while answers(tau) < 2:
            time.sleep(0.05)
        late = time.monotonic() - started - alone
        memory, resumed, computed = memory_mb(tau) - before, time.monotonic(), computed_s(tau)
        tau.wait(f"word{count - 1}.")
        tau.wait(lambda shown: "Working" not in shown)
        return memory, late, time.monotonic() - resumed, computed_s(tau) - computed


def measure_alone(folder: Path, slow: Json) -> float:
    """How long the same answer takes at a terminal that is read."""
    with Interface(folder, script=[{"text": "ready"}, slow]) as tau:
        tau.start().send("hi")
        tau.wait("ready")
        tau.settle()
        started = time.monotonic()
        tau.type("go\r")
        while answers(tau) < 2:
            tau.screen()
            time.sleep(0.05)
        return time.monotonic() - started


def escapes(folder: Path) -> tuple[float, float]:
    """The time from Escape to "Stopped.": on the clock, and of the program."""
    flood: Json = {"blocks": [{"text": ["word "]}], "repeat": 100_000_000}
    taken = []
    with Interface(folder, script=[flood]) as tau:
        tau.start()
        for number in range(ESCAPES):
            tau.send(f"go {number}")
            tau.wait_new(b"word word")
            started, computed = time.monotonic(), computed_s(tau)
            tau.type(ESCAPE)
            taken.append((tau.wait_new(b"Stopped.") - started, computed_s(tau) - computed))
            tau.settle()
    clock, program = zip(*taken, strict=True)
    return median(clock), median(program)


def main(seconds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="tau-slow-") as name:
        folder = Path(name)
        memory, late, screen, of_screen = stalled(folder, seconds)
        escape, of_escape = escapes(folder / "escapes")
    figures = [
        (f"memory of a terminal that is not read for {seconds} s: {memory:.1f} MB", memory <= MAX_MEMORY_MB),
        (f"later than at a terminal that is read: {late:.1f} s", late <= MAX_LATE_S),
        (f"screen right after reading resumes: {screen:.2f} s (computed {of_screen:.2f} s)", screen <= MAX_SCREEN_S),
        (
            f"Escape to Stopped, median of {ESCAPES}: {escape * 1000:.0f} ms (computed {of_escape * 1000:.0f} ms)",
            escape <= MAX_ESCAPE_S,
        ),
    ]
    for text, holds in figures:
        print(text if holds else f"{text}  TOO MUCH")
    return sum(not holds for _, holds in figures[:2])


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if len(sys.argv) > 1 else 30) else 0)
